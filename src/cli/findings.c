/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A list of findings, printed. */
#include "cli/findings.h"

#include "cli/table.h"
#include "common/i18n.h"

struct LodgeFindings {
    GPtrArray *list; /* of LodgeFinding */
};

static void finding_free(gpointer data)
{
    LodgeFinding *finding = data;

    g_free(finding->text);
    g_free(finding->step);
    g_free(finding);
}

LodgeFindings *lodge_findings_new(void)
{
    LodgeFindings *findings = g_new0(LodgeFindings, 1);

    findings->list = g_ptr_array_new_with_free_func(finding_free);
    return findings;
}

void lodge_findings_free(LodgeFindings *findings)
{
    if (findings) {
        g_ptr_array_unref(findings->list);
        g_free(findings);
    }
}

void lodge_findings_add(LodgeFindings *findings, const char *check, LodgeFindingGrade grade,
                        const char *step, const char *format, ...)
{
    LodgeFinding *finding = g_new0(LodgeFinding, 1);
    va_list args;

    finding->check = check;
    finding->grade = grade;
    finding->step = g_strdup(step);
    va_start(args, format);
    finding->text = g_strdup_vprintf(format, args);
    va_end(args);
    g_ptr_array_add(findings->list, finding);
}

gboolean lodge_findings_have_problem(const LodgeFindings *findings)
{
    for (guint i = 0; i < findings->list->len; i++) {
        const LodgeFinding *finding = g_ptr_array_index(findings->list, i);

        if (finding->grade == LODGE_FINDING_PROBLEM) {
            return TRUE;
        }
    }
    return FALSE;
}

char *lodge_findings_to_text(const LodgeFindings *findings)
{
    static const char *const marks[] = {
        [LODGE_FINDING_GOOD] = N_("good   "),
        [LODGE_FINDING_NOTE] = N_("note   "),
        [LODGE_FINDING_PROBLEM] = N_("PROBLEM"),
    };
    GString *text = g_string_new(NULL);

    for (guint i = 0; i < findings->list->len; i++) {
        const LodgeFinding *finding = g_ptr_array_index(findings->list, i);

        g_string_append_printf(text, "%s  %s\n", _(marks[finding->grade]), finding->text);
        if (finding->step) {
            g_string_append_printf(text, "         %s\n", finding->step);
        }
    }
    return g_string_free(text, FALSE);
}

char *lodge_findings_to_json(const LodgeFindings *findings)
{
    static const LodgeColumn columns[] = {
        {"check", NULL, LODGE_CELL_TEXT},
        {"grade", NULL, LODGE_CELL_TEXT},
        {"finding", NULL, LODGE_CELL_TEXT},
        {"step", NULL, LODGE_CELL_TEXT},
    };
    static const char *const grades[] = {
        [LODGE_FINDING_GOOD] = "good",
        [LODGE_FINDING_NOTE] = "note",
        [LODGE_FINDING_PROBLEM] = "problem",
    };
    g_autoptr(LodgeTable) table = lodge_table_new(columns, G_N_ELEMENTS(columns));

    for (guint i = 0; i < findings->list->len; i++) {
        const LodgeFinding *finding = g_ptr_array_index(findings->list, i);

        lodge_table_add_row(table);
        lodge_table_set_text(table, 0, finding->check);
        lodge_table_set_text(table, 1, grades[finding->grade]);
        lodge_table_set_text(table, 2, finding->text);
        lodge_table_set_text(table, 3, finding->step);
    }
    return lodge_table_to_json(table);
}

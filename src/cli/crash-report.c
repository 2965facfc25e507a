/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Registers as text, code through Zydis. */
#include "cli/crash-report.h"

#include "common/i18n.h"

#include <Zydis/Zydis.h>

static void append_registers(GString *text, const struct hv_crash_report *report)
{
    static const char *const names[16] = {"RAX", "RCX", "RDX", "RBX", "RSP", "RBP", "RSI", "RDI",
                                          "R8 ", "R9 ", "R10", "R11", "R12", "R13", "R14", "R15"};

    for (guint i = 0; i < G_N_ELEMENTS(names); i++) {
        g_string_append_printf(text, "%s=%016" G_GINT64_MODIFIER "x%s", names[i], report->gpr[i],
                               i % 4 == 3 ? "\n" : " ");
    }
    g_string_append_printf(
        text, "RIP=%016" G_GINT64_MODIFIER "x RFLAGS=%08" G_GINT64_MODIFIER "x CPL=%u\n",
        report->rip, report->rflags, report->cpl);
    g_string_append_printf(text,
                           "CS=%04x SS=%04x DS=%04x ES=%04x FS=%04x (%" G_GINT64_MODIFIER
                           "x) GS=%04x (%" G_GINT64_MODIFIER "x)\n",
                           report->cs, report->ss, report->ds, report->es, report->fs,
                           report->fs_base, report->gs, report->gs_base);
    g_string_append_printf(text,
                           "CR0=%08" G_GINT64_MODIFIER "x CR2=%016" G_GINT64_MODIFIER
                           "x CR3=%016" G_GINT64_MODIFIER "x CR4=%08" G_GINT64_MODIFIER
                           "x EFER=%04" G_GINT64_MODIFIER "x\n",
                           report->cr0, report->cr2, report->cr3, report->cr4, report->efer);
}

static void append_blocks(GString *text, const struct hv_crash_report *report)
{
    g_string_append(text, report->all_blocks
                              ? _("last blocks, oldest first:")
                              : _("last blocks that were looked up, oldest first (for all of them: "
                                  "--debug trace-blocks):"));
    for (guint i = 0; i < report->blocks; i++) {
        g_string_append_printf(text, "%s%016" G_GINT64_MODIFIER "x", i % 4 == 0 ? "\n  " : " ",
                               report->block_rip[i]);
    }
    g_string_append_c(text, '\n');
}

static ZydisMachineMode machine_mode(guint bits)
{
    if (bits == 64) {
        return ZYDIS_MACHINE_MODE_LONG_64;
    }
    return bits == 32 ? ZYDIS_MACHINE_MODE_LEGACY_32 : ZYDIS_MACHINE_MODE_LEGACY_16;
}

static void append_code(GString *text, const struct hv_crash_report *report)
{
    guint at = 0;

    g_string_append(text, _("code at RIP:\n"));
    while (at < report->code_bytes) {
        ZydisDisassembledInstruction instruction;

        if (!ZYAN_SUCCESS(ZydisDisassembleIntel(machine_mode(report->code_bits), report->rip + at,
                                                report->code + at, report->code_bytes - at,
                                                &instruction))) {
            g_string_append_printf(text, "  %016" G_GINT64_MODIFIER "x  (%02x)\n", report->rip + at,
                                   report->code[at]);
            return;
        }
        g_string_append_printf(text, "  %016" G_GINT64_MODIFIER "x  %s\n", report->rip + at,
                               instruction.text);
        at += instruction.info.length;
    }
}

char *lodge_crash_report_format(const struct hv_crash_report *report)
{
    GString *text = g_string_new(NULL);

    g_string_append_printf(text, _("virtual CPU %u:\n"), report->vcpu);
    append_registers(text, report);
    append_blocks(text, report);
    append_code(text, report);
    return g_string_free(text, FALSE);
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What `lodgectl doctor` has found, check by check. */
#pragma once

#include <glib.h>

typedef enum {
    LODGE_FINDING_GOOD,
    LODGE_FINDING_NOTE,    /* machines run all the same */
    LODGE_FINDING_PROBLEM, /* or do not */
} LodgeFindingGrade;

typedef struct {
    const char *check; /* "runtime-directory": for programs; static */
    LodgeFindingGrade grade;
    char *text; /* what is so */
    char *step; /* what to do next, or NULL */
} LodgeFinding;

typedef struct LodgeFindings LodgeFindings;

LodgeFindings *lodge_findings_new(void);
void lodge_findings_free(LodgeFindings *findings);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LodgeFindings, lodge_findings_free)

/** Add one; @step may be NULL. */
void lodge_findings_add(LodgeFindings *findings, const char *check, LodgeFindingGrade grade,
                        const char *step, const char *format, ...) G_GNUC_PRINTF(5, 6);

gboolean lodge_findings_have_problem(const LodgeFindings *findings);
/** For people. Free with g_free(). */
char *lodge_findings_to_text(const LodgeFindings *findings);
/** An array of objects, and a line end. Free with g_free(). */
char *lodge_findings_to_json(const LodgeFindings *findings);

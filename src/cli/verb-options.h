/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Options that several verbs have, and one way to parse a verb's command line. */
#pragma once

#include <glib.h>

/* What `lodgectl VERB --help` says. Texts are marked by N_(). */
typedef struct {
    const char *verb;        /* "list" */
    const char *parameters;  /* "NAME|GLOB…", or NULL */
    const char *summary;     /* one sentence */
    const char *description; /* below the options, or NULL */
    guint min, max;          /* how many parameters there may be */
    guint jobs;              /* LODGE_VERB_OPTION_JOBS: the default of --jobs */
} LodgeVerbHelp;

#define LODGE_VERB_MANY G_MAXUINT

/* Zeroed, then set by the options that a verb names by LodgeVerbOption. */
typedef struct {
    char *connect;  /* NULL: the session's */
    gboolean json;  /* instead of a table */
    gboolean all;   /* every machine */
    int jobs;       /* at a time */
    char *interval; /* as given; NULL: default */
    gdouble interval_s;
    gboolean once;    /* no live display */
    GStrv parameters; /* what is no option */
} LodgeVerbOptions;

typedef enum {
    LODGE_VERB_OPTION_JSON = 1u << 0,
    LODGE_VERB_OPTION_ALL = 1u << 1,
    LODGE_VERB_OPTION_JOBS = 1u << 2,
    LODGE_VERB_OPTION_LIVE = 1u << 3, /* --once, --interval */
} LodgeVerbOption;

/**
 * Parse a verb's command line. @argv[0] is the verb.
 *
 * @wanted  of LodgeVerbOption; all verbs have --connect.
 * @own     the verb's own options, or NULL.
 *
 * Returns FALSE with an error that names the option, its value and the rule. `--help` prints and
 * exits. @options is to be cleared in either case.
 */
gboolean lodge_verb_options_parse(LodgeVerbOptions *options, const LodgeVerbHelp *help,
                                  guint wanted, const GOptionEntry *own, int argc, char **argv,
                                  GError **error);

/**
 * Of an error by GLib's parser, which names the option and what is wrong with it, make one by bad
 * input that says where @verb's options are listed as well.
 */
void lodge_verb_options_refuse(GError **error, const char *verb);

/** The value of an option that is a number from 1 to @most. FALSE with an error that names both. */
gboolean lodge_verb_options_take_count(const char *option, const char *text, guint most,
                                       guint *count_out, GError **error);

/** The value of --memory: a size that a machine can have. FALSE with an error that names it. */
gboolean lodge_verb_options_take_memory(const char *text, guint64 *bytes_out, GError **error);

void lodge_verb_options_clear(LodgeVerbOptions *options);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(LodgeVerbOptions, lodge_verb_options_clear)

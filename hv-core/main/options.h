/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The command line of lodge-core: each wrong value is one line that names it and the rule. */
#pragma once

#include "main/sandbox.h"

#include <hv/domain.h>

/* A pool's name: of letters, digits, '-', '_' and '.', with none of the last in front. */
#define HV_OPTIONS_POOL_MAX 32u

struct hv_options {
    char pool[HV_OPTIONS_POOL_MAX + 1];
    struct hv_core_config core;
    uint64_t linger_ns;
    int listen_fd; /* inherited: a listening socket; -1: it is made by the pool's name */
    int caller_fd; /* inherited: a connected socket, the only one there will be; -1: none */
    int ready_fd;  /* inherited: told when it serves, or what is wrong; -1: nobody wants to know */
    enum hv_sandbox sandbox;
    bool debuggable; /* others of the same user may look into it */
};

enum hv_options_result {
    HV_OPTIONS_RUN,
    HV_OPTIONS_DONE,  /* --help, --version */
    HV_OPTIONS_WRONG, /* the line is written */
};

/** Read it. What is to be said is said: on stdout what was asked for, on stderr what is wrong. */
enum hv_options_result hv_options_read(int argc, char **argv, struct hv_options *options_out);

/** Write "lodge-core: TEXT" and an end of line on stderr, and to who waits at --ready-fd. */
void hv_options_complain(const char *format, ...) HV_PRINTF(1, 2);

/** Write "ready" to who waits at --ready-fd, who hears nothing more from us. */
void hv_options_say_ready(void);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What runner and guest tell each other: one test a machine. */
#pragma once

#include "layout.h"

#include <stdint.h>

struct request {
    uint32_t cpus;
    char name[60];
};

/* Written to the port that ends the machine. */
#define REPORT_GOOD 1
#define REPORT_BAD  2

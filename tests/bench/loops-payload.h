/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Loops that run natively and in a guest; see loops-payload.c. @memory: 4 MiB, zeroed. */
#pragma once

#include <stdint.h>

typedef uint64_t loop_function(uint64_t count, void *memory);

loop_function loop_alu, loop_sieve, loop_sha, loop_copy, loop_fib, loop_mpi, loop_chase, loop_sort;

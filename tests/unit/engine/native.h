/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The oracle: one instruction, its bytes as they are, executed by the host between a load and a
 * store of every register it has. Signals are results. Nothing is shared with the thunk compiler.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Registers before, and after when no signal came. */
struct native {
    uint64_t gpr[16]; /* in the encoding's order */
    uint64_t rflags;  /* arithmetic flags only are loaded */
    uint64_t unused[15];
    uint8_t x[832] __attribute__((aligned(64))); /* XSAVE's standard format, components 0 to 2 */
    /* When a signal came: */
    int signal;
    uint64_t address; /* SIGSEGV: what could not be reached; 0 for #GP */
    uint32_t mxcsr;   /* at that moment */
};

/** False when the host has no AVX state to load: skip. */
bool native_available(void);

/** Execute @bytes of @code. */
void native_run(struct native *native, const uint8_t *code, size_t bytes);

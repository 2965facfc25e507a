/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the head of a payload promises. The lines of its comment that are indented by five spaces are
 * read; each begins with one of these words:
 *
 *     start   long | protected | real     the machine it is started in; first of all
 *     insns   NUMBER                      it has ended after so many instructions (10000)
 *     end     halt | shutdown             how: `halt`, the default, is the HLT behind `done:`
 *     state   PLACE=VALUE …               what stands there then
 *     event   #NAME | NUMBER FIELD=VALUE …  one a line: all exceptions and interrupts, in order
 *
 *     PLACE   rax … r15, rip, rflags, cr0, cr2, cr3, cr4, dr6, dr7, cs … gs, tr, cpl, or
 *             byte[VALUE] word[VALUE] dword[VALUE] quad[VALUE]: physical memory
 *     FIELD   error, rip, cs, rflags, rsp, cr2, dr6
 *     VALUE   numbers and symbols of the payload, with + and - between them
 *
 * PLACE and FIELD may be followed by &VALUE: only those bits are looked at. What is not named is not
 * looked at, but for the events: a payload whose head names none must have none.
 */
#pragma once

#include "engine/asm-image.h"

#define ASM_CHECKS_MOST 96
#define ASM_EVENTS_MOST 32

enum asm_start { ASM_START_LONG, ASM_START_PROTECTED, ASM_START_REAL, ASM_STARTS };

enum asm_check_kind {
    ASM_CHECK_REGISTER, /* number: an index of asm-head.c's table */
    ASM_CHECK_MEMORY,   /* number: bytes, at `address` */
    ASM_CHECK_VECTOR,   /* of event `number` */
    ASM_CHECK_FIELD,    /* address: in the log */
};

struct asm_check {
    enum asm_check_kind kind;
    unsigned number;
    uint64_t address, mask, want;
    char text[80]; /* as the head has it, for messages */
};

struct asm_head {
    enum asm_start start;
    bool shutdown;
    uint64_t insns;
    unsigned events;
    unsigned checks;
    struct asm_check check[ASM_CHECKS_MOST];
};

/**
 * Read the head of @path.
 *
 * Returns false, with a note that says file, line and cause, when it cannot be read, says something
 * unknown, names what @image does not have, or promises nothing.
 */
bool asm_head_read(const char *path, const struct asm_image *image, struct asm_head *head_out);

/** What the check looks at, masked. */
uint64_t asm_check_look(const struct asm_check *check, struct soft_machine *machine);

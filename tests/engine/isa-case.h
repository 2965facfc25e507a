/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Random test cases of ring-3 instructions: an encoding of a row of isa.def, and a state from which
 * its memory operands lie in the sandbox of isa-host.h.
 *
 * A row is tried in four kinds: registers only, memory, memory that straddles the two pages, memory
 * that reaches into an inaccessible page. Where an address comes from registers they are solved for
 * it (base = target - index * scale - displacement); where it does not, the displacement is written
 * into the bytes. Memory that is addressed by registers not named (strings, the stack, XLAT) is
 * placed likewise. Of the sandbox's two places in the address space one is chosen that the form of
 * address reaches.
 *
 * A run of cases may carry its state on: isa_case_make() changes only what addresses need, and
 * isa_state_randomize() is the caller's to call when it wants a fresh one.
 */
#pragma once

#include "engine/isa-encode.h"
#include "engine/isa-host.h"

enum isa_kind {
    ISA_KIND_REGISTER,
    ISA_KIND_MEMORY,
    ISA_KIND_CROSSING,
    ISA_KIND_FAULTING,
    ISA_KIND_COUNT,
};

struct isa_case {
    uint16_t row;
    enum isa_kind kind;
    uint8_t bytes[SOFT_INSN_MAX];
    struct soft_insn insn;
    uint64_t target; /* address of the memory operand named by ModRM or an offset; else 0 */
    /* What the sandbox must hold first, when poke_bytes is not 0: the target of a branch. */
    uint64_t poke_address, poke_value;
    unsigned poke_bytes;
};

/* Where code and sandbox are: of the host's, or of a guest that mirrors them. */
struct isa_layout {
    uint64_t code;    /* of the instruction */
    uint64_t sandbox; /* of its two pages */
};

/**
 * Why a row is in no case, or NULL when it is in some: it leaves ring 3 or the process, changes what
 * the harness needs, or no two runs of it give the same.
 */
const char *isa_excluded(uint16_t row);

/** Is it one of the general-purpose instructions that the translator knows by themselves? */
bool isa_case_hot(uint16_t row);

/** Fill ISA_SANDBOX_BYTES with integers and floating-point values that find edges, and noise. */
void isa_memory_fill(struct isa_random *random, uint8_t *sandbox);

/* What is the silicon's own when an instruction faults, and no engine's to imitate. */
enum isa_freedom {
    ISA_FREEDOM_NONE = 0,
    ISA_FREEDOM_ADDRESS = 1u << 0, /* the address is any inside of the page that faulted */
    ISA_FREEDOM_X87 = 1u << 1,     /* TOP and tags may be those that MMX leaves */
    ISA_FREEDOM_MXCSR = 1u << 2,   /* flags may have been raised */
    ISA_FREEDOM_MEMORY = 1u << 3,  /* part of the operand may have been written */
    ISA_FREEDOM_FAULT = 1u << 4,   /* bytes that a mask leaves out may fault, or may not */
};

/** Freedoms of @insn when it faults: enum isa_freedom. */
unsigned isa_fault_freedom(const struct soft_insn *insn);

/** Values that find edges: small numbers, all ones, single bits, plain noise; exceptions masked. */
void isa_state_randomize(struct isa_random *random, struct isa_state *state);

/**
 * A case of @row, and what @state must hold for it.
 *
 * @operand_bytes  2, 4 or 8; 0: any.
 *
 * Returns false when the row has no such shape.
 */
bool isa_case_make(const struct isa_encoder *encoder, const struct isa_layout *layout, uint16_t row,
                   unsigned operand_bytes, enum isa_kind kind, struct isa_random *random,
                   struct isa_state *state, struct isa_case *case_out);

/** The address of the memory operand named by ModRM or an offset, as the processor computes it. */
uint64_t isa_effective_address(const struct soft_insn *insn, const struct isa_state *state);

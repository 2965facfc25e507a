/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the files of the thunks share: the shape an instruction is compiled from, the compiler, the
 * unusual forms, and the guest's floating-point state while it stands in the host's registers.
 */
#pragma once

#include "engine/soft/thunk-form.h"
#include "engine/soft/thunk.h"
#include "engine/soft/vector.h"

#include <string.h>

#define SOFT_MXCSR_FLAGS      0x3fu
#define SOFT_MXCSR_MASKS      0x1f80u
#define SOFT_MXCSR_VALID      0xffffu
#define SOFT_MXCSR_RESET      0x1f80u
/* IE, DE and ZE are found before the result is computed; the rest after. */
#define SOFT_MXCSR_BEFORE     0x07u

#define SOFT_FCW_RESET        0x37fu
#define SOFT_FCW_MASKS        0x3fu
#define SOFT_FSW_ES           0x80u
#define SOFT_FSW_B            0x8000u

/* What AVX needs in XCR0. */
#define SOFT_XCR0_AVX         (HV_XCR0_SSE | HV_XCR0_AVX)

#define SOFT_VECTOR_MAX       4
/* Memory operands are no larger (and vcpu->bounce has room for one). */
#define SOFT_THUNK_MEMORY_MAX 64

struct soft_vector {
    uint8_t reg;
    uint8_t bytes; /* 16 or 32 */
    uint8_t access;
};

/*
 * An instruction without what does not matter to its thunk (where its memory operand is, redundant
 * prefixes): everything the compiler looks at, and therefore the key of the cache. Compared as
 * bytes: unused members are zero.
 */
struct soft_shape {
    uint32_t flags;    /* enum soft_thunk_form_flag */
    uint8_t map;       /* 1 to 3, or 0 for one-byte opcodes */
    uint8_t mandatory; /* 0, 66, F2, F3 */
    uint8_t opcode;
    uint8_t modrm; /* ModRM.rm is 0 when it is memory */
    uint8_t vex_bytes;
    uint8_t reg, rm, vvvv; /* fields with their high bits */
    bool has_modrm;
    bool memory;
    bool w;
    bool size16; /* a 66 prefix for the operand size */
    bool rex;    /* bytes 4 to 7 are SPL to DIL */
    bool lock;
    bool arith; /* reads or writes arithmetic flags */
    uint8_t fp; /* enum soft_thunk_fp */
    uint8_t memory_bytes, memory_access;
    bool aligned;
    uint8_t address_bytes; /* this and mem: unusual forms only, which compute addresses */
    uint8_t imm_bytes;
    uint8_t imm[4];
    uint8_t vectors;
    struct soft_vector vector[SOFT_VECTOR_MAX];
    struct soft_mem mem;
};

/**
 * The shape of @insn.
 *
 * Returns 0; -ENOTSUP when it must not run on the host.
 */
HV_MUST_CHECK int soft_shape_init(struct soft_shape *shape, const struct soft_insn *insn,
                                  const uint8_t *bytes);

/** Write the code of @shape at @place; returns its length, 0 when it needs more than @bytes. */
size_t soft_thunk_compile(const struct soft_shape *shape, void *place, size_t bytes);

/* A thunk in the cache, with what it was made from. */
struct soft_thunk_entry {
    struct soft_thunk thunk;
    struct soft_shape shape;
    uint64_t hash;
};

static inline const struct soft_shape *soft_thunk_shape(const struct soft_thunk *thunk)
{
    return &HV_CONTAINER_OF(thunk, struct soft_thunk_entry, thunk)->shape;
}

/** #UD, #NM for the state in @fp (enum soft_thunk_fp); 0 when it may be used. */
HV_MUST_CHECK int soft_fp_check(struct hv_engine_vcpu *vcpu, unsigned fp);

/** Run a thunk of the unusual forms; its state may be used. */
HV_MUST_CHECK int soft_thunk_special(struct hv_engine_vcpu *vcpu, const struct soft_thunk *thunk,
                                     uint64_t gva);

/** Fill vcpu->fault; returns HV_FAULTED. */
static inline int soft_fault(struct hv_engine_vcpu *vcpu, enum hv_vector vector)
{
    vcpu->fault = (struct hv_fault){.vector = (uint8_t)vector,
                                    .has_error = vector == HV_VECTOR_GP || vector == HV_VECTOR_SS};
    return HV_FAULTED;
}

/* Little-endian members of the extended state. */
static inline uint32_t soft_x_get(const struct hv_cpu *cpu, unsigned offset, unsigned bytes)
{
    return (uint32_t)hv_load_le(&cpu->x.bytes[offset], bytes);
}

static inline void soft_x_set(struct hv_cpu *cpu, unsigned offset, unsigned bytes, uint64_t value)
{
    hv_store_le(&cpu->x.bytes[offset], value, bytes);
}

/** An unmasked x87 exception waits for the next waiting instruction. Not for live state: there
 * none ever does. */
static inline bool soft_x87_pending(const struct hv_cpu *cpu)
{
    return soft_x_get(cpu, SOFT_X_FSW, 2) & ~soft_x_get(cpu, SOFT_X_FCW, 2) & SOFT_FCW_MASKS;
}

/**
 * Put the guest's x87 registers into the host's, when they are not there.
 *
 * @waiting  the instruction raises a pending exception.
 *
 * Returns 0, or HV_FAULTED with #MF.
 */
HV_MUST_CHECK int soft_x87_load(struct hv_engine_vcpu *vcpu, bool waiting);

/** Forget live state: the truth is cpu->x again, as it stands there. */
void soft_x87_drop(struct hv_engine_vcpu *vcpu);

/**
 * After x87 code ran on live state under unmasked exceptions, or changed the control word: spill
 * when an exception is pending now.
 *
 * Returns the flags that became pending.
 */
unsigned soft_x87_settle(struct hv_engine_vcpu *vcpu);

/** Bring cpu->x's MXCSR up to date with the flags gathered in the host's. */
void soft_mxcsr_sync(struct hv_engine_vcpu *vcpu);

/** Change the guest's MXCSR to @value, whose reserved bits are clear. */
void soft_mxcsr_set(struct hv_engine_vcpu *vcpu, uint32_t value);

/** The host's MXCSR while the guest's is in force: all masked, flags as the guest's. */
static inline uint32_t soft_host_mxcsr(void)
{
    uint32_t value;

    __asm__ volatile("stmxcsr %0" : "=m"(value));
    return value;
}

static inline void soft_host_set_mxcsr(uint32_t value)
{
    __asm__ volatile("ldmxcsr %0" : : "m"(value));
}

/** Registers a thunk can change, kept to undo one whose memory part failed. */
struct soft_snapshot {
    struct hv_xstate x;
    uint64_t gpr[HV_REG_COUNT];
    uint16_t arith;
};

/** Spills live x87 state and syncs MXCSR first; what is live at the restore is lost. */
void soft_snapshot_take(struct hv_engine_vcpu *vcpu, struct soft_snapshot *snapshot);
void soft_snapshot_restore(struct hv_engine_vcpu *vcpu, const struct soft_snapshot *snapshot);

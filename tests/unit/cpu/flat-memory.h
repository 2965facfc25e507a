/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What surrounds a CPU in the tests of cpu/: one flat piece of RAM from guest physical 0 on, reached
 * through the real walker (what lies above it reads as all ones and takes no writes), and hooks
 * that remember what was asked of them.
 */
#pragma once

#include "cpu/access.h"

#include <errno.h>
#include <string.h>

#define FLAT_BYTES ((uint64_t)1 << 20)

struct flat {
    struct hv_cpu *cpu;
    uint8_t ram[FLAT_BYTES];
    /* Accesses let through before one answers -EAGAIN; 0: never. */
    unsigned again_after;
    /* Accesses let through before one finds its page gone (#PF at FLAT_LOST, error 0); 0: never. */
    unsigned fault_after;
    unsigned accesses; /* counted */
    /* Compare-and-exchanges that find another vCPU was faster. */
    unsigned lost_races;
    unsigned flushes_all, flushes_non_global, flushes_page, flushes_pcid;
    unsigned switches;
    uint16_t switched_pcid;
    bool switched_keep;
    struct hv_access access;
    /* The machine behind the hooks. */
    uint64_t cr8, tsc;
    uint64_t platform_msr; /* answers to FLAT_MSR */
    int platform_result;   /* what its accesses return */
    int interrupt;         /* pending vector, or -1 */
    unsigned acknowledged;
};

#define FLAT_LOST UINT64_C(0x1057)
/* The only MSR of the fake platform. */
#define FLAT_MSR  0x6e0

static inline int flat_walk_read(void *context, hv_gpa gpa, unsigned bytes, uint64_t *value_out)
{
    struct flat *flat = context;

    *value_out = hv_bytes_mask(bytes);
    if (!hv_range_outside(gpa.v, bytes, FLAT_BYTES)) {
        *value_out = hv_load_le(flat->ram + gpa.v, bytes);
    }
    return 0;
}

static inline int flat_walk_update(void *context, hv_gpa gpa, unsigned bytes, uint64_t expected,
                                   uint64_t value, bool *swapped_out)
{
    struct flat *flat = context;

    *swapped_out = true;
    if (flat->lost_races > 0) {
        flat->lost_races--;
        *swapped_out = false;
    } else if (!hv_range_outside(gpa.v, bytes, FLAT_BYTES)) {
        *swapped_out = hv_load_le(flat->ram + gpa.v, bytes) == expected;
        if (*swapped_out) {
            hv_store_le(flat->ram + gpa.v, value, bytes);
        }
    }
    return 0;
}

static const struct hv_walk_memory flat_walk_memory = {flat_walk_read, flat_walk_update};

/* Guest physical addresses of each byte of an access; all pages are checked first. */
static inline int flat_translate(struct flat *flat, hv_gva gva, unsigned bytes,
                                 enum hv_walk_intent intent, enum hv_walk_as as, uint64_t *gpa_out,
                                 struct hv_fault *fault)
{
    flat->accesses++;
    if (flat->again_after > 0 && --flat->again_after == 0) {
        return -EAGAIN;
    }
    if (flat->fault_after > 0 && --flat->fault_after == 0) {
        *fault = (struct hv_fault){.vector = HV_VECTOR_PF, .has_error = true, .cr2 = FLAT_LOST};
        return HV_FAULTED;
    }
    for (unsigned i = 0; i < bytes; i++) {
        hv_gva at = {gva.v + i};

        if (i == 0 || (at.v & (HV_PAGE_SIZE - 1)) == 0) {
            struct hv_translation translation;
            int result =
                hv_walk(flat->cpu, &flat_walk_memory, flat, at, intent, as, &translation, fault);

            if (result) {
                return result;
            }
            gpa_out[i] = translation.gpa.v;
        } else {
            gpa_out[i] = gpa_out[i - 1] + 1;
        }
    }
    return 0;
}

static inline int flat_read(void *context, hv_gva gva, unsigned bytes, enum hv_walk_as as,
                            uint64_t *value_out, struct hv_fault *fault)
{
    struct flat *flat = context;
    uint64_t gpa[8];
    int result = flat_translate(flat, gva, bytes, HV_WALK_READ, as, gpa, fault);

    *value_out = 0;
    for (unsigned i = 0; !result && i < bytes; i++) {
        uint64_t byte = gpa[i] < FLAT_BYTES ? flat->ram[gpa[i]] : 0xff;

        *value_out |= byte << (8 * i);
    }
    return result;
}

static inline int flat_write(void *context, hv_gva gva, unsigned bytes, enum hv_walk_as as,
                             uint64_t value, struct hv_fault *fault)
{
    struct flat *flat = context;
    uint64_t gpa[8];
    int result = flat_translate(flat, gva, bytes, HV_WALK_WRITE, as, gpa, fault);

    for (unsigned i = 0; !result && i < bytes; i++) {
        if (gpa[i] < FLAT_BYTES) {
            flat->ram[gpa[i]] = (uint8_t)(value >> (8 * i));
        }
    }
    return result;
}

static inline int flat_probe_write(void *context, hv_gva gva, unsigned bytes, enum hv_walk_as as,
                                   struct hv_fault *fault)
{
    uint64_t gpa[512];

    return flat_translate(context, gva, bytes, HV_WALK_WRITE, as, gpa, fault);
}

static inline int flat_set_bits(void *context, hv_gva gva, uint8_t set, uint8_t clear,
                                enum hv_walk_as as, struct hv_fault *fault)
{
    struct flat *flat = context;
    uint64_t gpa;
    int result = flat_translate(flat, gva, 1, HV_WALK_WRITE, as, &gpa, fault);

    if (!result && gpa < FLAT_BYTES) {
        flat->ram[gpa] = (uint8_t)((flat->ram[gpa] | set) & ~clear);
    }
    return result;
}

static inline void flat_flush_all(void *context)
{
    ((struct flat *)context)->flushes_all++;
}

static inline void flat_flush_non_global(void *context)
{
    ((struct flat *)context)->flushes_non_global++;
}

static inline void flat_flush_page(void *context, hv_gva gva)
{
    (void)gva;
    ((struct flat *)context)->flushes_page++;
}

static inline void flat_flush_pcid(void *context, uint16_t pcid)
{
    (void)pcid;
    ((struct flat *)context)->flushes_pcid++;
}

static inline void flat_switch_pcid(void *context, uint16_t pcid, bool keep)
{
    struct flat *flat = context;

    flat->switches++;
    flat->switched_pcid = pcid;
    flat->switched_keep = keep;
}

static const struct hv_access_ops flat_ops = {
    .read = flat_read,
    .write = flat_write,
    .probe_write = flat_probe_write,
    .set_bits = flat_set_bits,
    .flush_all = flat_flush_all,
    .flush_non_global = flat_flush_non_global,
    .flush_page = flat_flush_page,
    .flush_pcid = flat_flush_pcid,
    .switch_pcid = flat_switch_pcid,
    .walk = &flat_walk_memory,
};

static inline uint64_t flat_cr8_read(void *context)
{
    return ((struct flat *)context)->cr8;
}

static inline void flat_cr8_write(void *context, uint64_t value)
{
    ((struct flat *)context)->cr8 = value;
}

static inline int flat_msr_read(void *context, uint32_t index, uint64_t *value_out)
{
    struct flat *flat = context;

    *value_out = flat->platform_msr;
    return index == FLAT_MSR || (index >> 8) == 8 ? flat->platform_result : -ENOENT;
}

static inline int flat_msr_write(void *context, uint32_t index, uint64_t value)
{
    struct flat *flat = context;

    if (index != FLAT_MSR && (index >> 8) != 8) {
        return -ENOENT;
    }
    if (!flat->platform_result) {
        flat->platform_msr = value;
    }
    return flat->platform_result;
}

static inline uint64_t flat_tsc_read(void *context)
{
    struct flat *flat = context;

    return flat->tsc + (uint64_t)flat->cpu->msr.tsc_offset;
}

static inline bool flat_interrupt_pending(void *context)
{
    return ((struct flat *)context)->interrupt >= 0;
}

static inline int flat_interrupt_acknowledge(void *context)
{
    struct flat *flat = context;
    int vector = flat->interrupt;

    flat->interrupt = -1;
    flat->acknowledged++;
    return vector;
}

static const struct hv_cpu_hooks flat_hooks = {
    .cr8_read = flat_cr8_read,
    .cr8_write = flat_cr8_write,
    .msr_read = flat_msr_read,
    .msr_write = flat_msr_write,
    .tsc_read = flat_tsc_read,
    .interrupt_pending = flat_interrupt_pending,
    .interrupt_acknowledge = flat_interrupt_acknowledge,
};

/** Empty memory around @cpu, which gets the hooks and keeps its policy. */
static inline void flat_init(struct flat *flat, struct hv_cpu *cpu)
{
    memset(flat, 0, sizeof(*flat));
    flat->cpu = cpu;
    flat->interrupt = -1;
    cpu->hooks = &flat_hooks;
    cpu->hook_context = flat;
    flat->access = (struct hv_access){&flat_ops, flat};
}

static inline void flat_poke(struct flat *flat, uint64_t gpa, unsigned bytes, uint64_t value)
{
    hv_store_le(flat->ram + gpa, value, bytes);
}

static inline uint64_t flat_peek(const struct flat *flat, uint64_t gpa, unsigned bytes)
{
    return hv_load_le(flat->ram + gpa, bytes);
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What is not one host instruction: vector loads and stores under a mask, whose masked elements must
 * not fault; gathers; the stores of single bytes at DS:rDI; VZEROUPPER and VZEROALL.
 *
 * Source: SDM 2C VMASKMOV, VPMASKMOV, VGATHERDPS and its family, VZEROUPPER; SDM 2B MASKMOVDQU.
 */
#include "engine/soft/thunk-private.h"

#include "cpu/segment.h"
#include "engine/soft/access.h"

#include <errno.h>

/* Consecutive bytes of a store. */
struct run {
    hv_gva gva;
    unsigned start;
    unsigned bytes;
};
#define RUNS_MAX 16

static uint8_t *vector_byte(struct hv_cpu *cpu, unsigned reg, unsigned offset)
{
    return offset < 16 ? &cpu->x.bytes[SOFT_X_XMM + 16 * reg + offset]
                       : &cpu->x.bytes[SOFT_X_YMM + 16 * reg + offset - 16];
}

static bool element_selected(struct hv_cpu *cpu, unsigned mask_reg, unsigned element,
                             unsigned bytes)
{
    return *vector_byte(cpu, mask_reg, (element + 1) * bytes - 1) & 0x80;
}

static void zero_vector(struct hv_cpu *cpu, unsigned reg, unsigned from)
{
    for (unsigned i = from; i < 32; i += 8 - i % 8) {
        memset(vector_byte(cpu, reg, i), 0, 8 - i % 8);
    }
}

/* 64-bit mode has sixteen registers, the others eight and leave the rest alone. */
static void run_zero(struct hv_cpu *cpu, const struct soft_thunk *thunk)
{
    if (HV_LIKELY(hv_cpu_code64(cpu))) {
        thunk->code(cpu, NULL);
        return;
    }
    memset(&cpu->x.bytes[SOFT_X_YMM], 0, 16u * 8);
    if (soft_thunk_shape(thunk)->vex_bytes == 32) {
        memset(&cpu->x.bytes[SOFT_X_XMM], 0, 16u * 8);
    }
}

/* All runs are checked before the first is stored. */
static int store_runs(struct hv_engine_vcpu *vcpu, const struct run *runs, unsigned count,
                      const uint8_t *bytes)
{
    const struct hv_access *access = &vcpu->access;
    int rc = 0;

    for (unsigned i = 0; i < count && rc == 0; i++) {
        rc = access->ops->probe_write(access->context, runs[i].gva, runs[i].bytes,
                                      HV_WALK_AS_CURRENT, &vcpu->fault);
    }
    for (unsigned i = 0; i < count && rc == 0; i++) {
        rc = soft_write_bytes(vcpu, runs[i].gva.v, &bytes[runs[i].start], runs[i].bytes);
    }
    return rc;
}

/* The runs of set bits in @mask, a bit a byte; addresses are left to the caller. */
static unsigned find_runs(uint32_t mask, struct run *runs)
{
    unsigned count = 0;

    for (unsigned at = 0; at < 32; at++) {
        if (!(mask >> at & 1)) {
            continue;
        }
        runs[count].start = at;
        while (at < 32 && (mask >> at & 1)) {
            at++;
        }
        runs[count].bytes = at - runs[count].start;
        count++;
    }
    return count;
}

static unsigned masked_element_bytes(const struct soft_shape *shape)
{
    switch (shape->opcode) {
    case 0x2c:
    case 0x2e:
        return 4;
    case 0x2d:
    case 0x2f:
        return 8;
    default: /* VPMASKMOV */
        return shape->w ? 8 : 4;
    }
}

/* VMASKMOV that the TLB does not know as plain RAM in one page: element by element. */
static int run_masked_slow(struct hv_engine_vcpu *vcpu, const struct soft_thunk *thunk,
                           uint64_t gva)
{
    const struct soft_shape *shape = soft_thunk_shape(thunk);
    unsigned size = masked_element_bytes(shape);
    uint8_t copy[32] HV_ALIGNED(32) = {0};
    struct run runs[RUNS_MAX];
    uint32_t mask = 0;
    unsigned count;
    int rc = 0;

    for (unsigned i = 0; i < shape->vex_bytes / size && rc == 0; i++) {
        if (!element_selected(vcpu->cpu, shape->vvvv, i, size)) {
            continue;
        }
        mask |= ((1u << size) - 1) << (i * size);
        if (thunk->view == SOFT_TLB_READ) {
            rc = soft_read_bytes(vcpu, gva + (uint64_t)i * size, &copy[i * size], size);
        }
    }
    if (rc != 0) {
        return rc;
    }
    thunk->code(vcpu->cpu, copy);
    if (thunk->view == SOFT_TLB_READ) {
        return 0;
    }
    count = find_runs(mask, runs);
    for (unsigned i = 0; i < count; i++) {
        runs[i].gva = (hv_gva){gva + runs[i].start};
    }
    return store_runs(vcpu, runs, count, copy);
}

static int run_masked(struct hv_engine_vcpu *vcpu, const struct soft_thunk *thunk, uint64_t gva)
{
    void *place = soft_tlb_lookup(&vcpu->view[thunk->view], vcpu->tlb_id, gva, thunk->memory_bytes);

    if (!place) {
        return run_masked_slow(vcpu, thunk, gva);
    }
    thunk->code(vcpu->cpu, place);
    return 0;
}

static uint64_t cut_address(const struct soft_shape *shape, uint64_t offset)
{
    return offset & hv_bytes_mask(shape->address_bytes);
}

/* MASKMOVQ leaves the x87 state as any MMX instruction does; its registers are then in cpu->x. */
static int enter_mmx(struct hv_engine_vcpu *vcpu)
{
    int rc = soft_x87_load(vcpu, true);

    if (rc == 0) {
        /* Reads only: a write would set the exponent of its register. */
        __asm__ volatile("movd %%mm0, %%eax" : : : "eax");
        soft_fpu_spill(vcpu);
    }
    return rc;
}

static int run_masked_bytes(struct hv_engine_vcpu *vcpu, const struct soft_shape *shape)
{
    bool mmx = shape->fp & SOFT_THUNK_FP_MMX;
    struct hv_cpu *cpu = vcpu->cpu;
    const uint8_t *source, *selector;
    struct run runs[RUNS_MAX];
    uint32_t mask = 0;
    unsigned count;
    int rc;

    if (mmx) {
        rc = enter_mmx(vcpu);
        if (rc != 0) {
            return rc;
        }
        source = &cpu->x.bytes[SOFT_X_ST + 16 * (shape->reg & 7)];
        selector = &cpu->x.bytes[SOFT_X_ST + 16 * (shape->rm & 7)];
    } else {
        source = vector_byte(cpu, shape->reg, 0);
        selector = vector_byte(cpu, shape->rm, 0);
    }
    for (unsigned i = 0; i < (mmx ? 8u : 16u); i++) {
        mask |= (uint32_t)(selector[i] >> 7) << i;
    }
    count = find_runs(mask, runs);
    for (unsigned i = 0; i < count; i++) {
        rc = hv_segment_linear(cpu, (enum hv_seg)shape->mem.segment,
                               cut_address(shape, cpu->slot[HV_REG_RDI] + runs[i].start),
                               runs[i].bytes, true, &runs[i].gva, &vcpu->fault);
        if (rc != 0) {
            return rc;
        }
    }
    return store_runs(vcpu, runs, count, source);
}

/* The sign of each element of the mask fills it, before the first is gathered (SDM 2C, VGATHERDPS). */
static void extend_mask(struct hv_cpu *cpu, const struct soft_shape *shape, unsigned bytes)
{
    for (unsigned i = 0; i < shape->vex_bytes; i += bytes) {
        bool selected = element_selected(cpu, shape->vvvv, i / bytes, bytes);

        memset(vector_byte(cpu, shape->vvvv, i), selected ? 0xff : 0, bytes);
    }
    zero_vector(cpu, shape->vvvv, shape->vex_bytes);
}

/*
 * A gather can be interrupted by a fault between two elements: those done are in the destination
 * and their mask is clear, so that it goes on where it was. When the engine has to be left instead
 * (-EAGAIN), all of it is undone: the accesses done are replayed in the same order (D9).
 */
static int run_gather(struct hv_engine_vcpu *vcpu, const struct soft_shape *shape)
{
    unsigned data = shape->w ? 8 : 4, index = shape->opcode & 1 ? 8 : 4;
    unsigned count = shape->vex_bytes / (data > index ? data : index);
    const struct soft_mem *mem = &shape->mem;
    struct hv_cpu *cpu = vcpu->cpu;
    struct hv_xstate before = cpu->x;
    uint64_t base = (uint64_t)mem->disp;
    int rc = 0;

    base += mem->base == SOFT_REG_NONE ? 0 : cpu->slot[mem->base];
    extend_mask(cpu, shape, data);
    for (unsigned i = 0; i < count && rc == 0; i++) {
        uint64_t step = hv_load_le(vector_byte(cpu, mem->index, i * index), index);
        uint8_t value[8];
        hv_gva gva;

        if (!element_selected(cpu, shape->vvvv, i, data)) {
            continue;
        }
        if (index == 4) {
            step = (uint64_t)(int64_t)(int32_t)step;
        }
        rc = hv_segment_linear(cpu, (enum hv_seg)mem->segment,
                               cut_address(shape, base + (step << mem->scale)), data, false, &gva,
                               &vcpu->fault);
        if (rc == 0) {
            rc = soft_read_bytes(vcpu, gva.v, value, data);
        }
        if (rc == 0) {
            memcpy(vector_byte(cpu, shape->reg, i * data), value, data);
            memset(vector_byte(cpu, shape->vvvv, i * data), 0, data);
            /* Each element is a write of the vector, which clears what is beyond its length. */
            zero_vector(cpu, shape->reg, shape->vex_bytes);
        }
    }
    if (rc < 0) {
        cpu->x = before;
    }
    if (rc == 0) {
        zero_vector(cpu, shape->reg, count * data);
        zero_vector(cpu, shape->vvvv, 0);
    }
    return rc;
}

int soft_thunk_special(struct hv_engine_vcpu *vcpu, const struct soft_thunk *thunk, uint64_t gva)
{
    const struct soft_shape *shape = soft_thunk_shape(thunk);

    if (shape->flags & SOFT_FORM_MASKED) {
        return run_masked(vcpu, thunk, gva);
    }
    if (shape->flags & SOFT_FORM_MASKED_BYTES) {
        return run_masked_bytes(vcpu, shape);
    }
    if (shape->flags & SOFT_FORM_GATHER) {
        return run_gather(vcpu, shape);
    }
    run_zero(vcpu->cpu, thunk);
    return 0;
}

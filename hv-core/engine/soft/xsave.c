/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * XSAVE, XSAVEOPT, XSAVEC and XRSTOR over x87, SSE and AVX state.
 *
 *     0    x87, with MXCSR at 24    160  XMM    512  XSTATE_BV, XCOMP_BV    576  upper halves
 *
 * AVX being the only extended component, the compacted format has it at the same place as the
 * standard one. There is no supervisor state (IA32_XSS is 0): XSAVES is XSAVEC, XRSTORS is XRSTOR
 * of the compacted format.
 *
 * Source: SDM 1 chapter 13 (13.4 the area, 13.6 init and modified optimisations, 13.7 to 13.12 the
 * instructions).
 */
#include "engine/soft/xstate-private.h"

#include "cpu/policy.h"

#define XCOMP_COMPACTED HV_BIT(63)
#define AREA_BASE       (SOFT_X_HEADER + 64u) /* legacy region and header */
#define VECTOR_STATE    (HV_XCR0_SSE | HV_XCR0_AVX)

static bool all_zero(const uint8_t *bytes, size_t count)
{
    uint64_t any = 0;

    for (size_t i = 0; i < count; i += 8) {
        any |= hv_load_le(&bytes[i], 8);
    }
    return any == 0;
}

uint64_t soft_xinuse(const struct hv_cpu *cpu)
{
    unsigned registers = soft_x_registers(cpu);
    const uint8_t *x = cpu->x.bytes;
    uint64_t used = 0;

    if (soft_x_get(cpu, SOFT_X_FCW, 4) != SOFT_FCW_RESET || /* and FSW is 0 */
        soft_x_get(cpu, SOFT_X_FTW, 4) != 0 ||              /* FOP too */
        !all_zero(&x[SOFT_X_FIP], SOFT_X_MXCSR - SOFT_X_FIP) ||
        !all_zero(&x[SOFT_X_ST], SOFT_X_XMM - SOFT_X_ST)) {
        used |= HV_XCR0_X87;
    }
    /* MXCSR counts as SSE state where a whole area is written or asked for (13.2, 13.6). */
    if (soft_x_get(cpu, SOFT_X_MXCSR, 4) != SOFT_MXCSR_RESET ||
        !all_zero(&x[SOFT_X_XMM], 16u * registers)) {
        used |= HV_XCR0_SSE;
    }
    if (!all_zero(&x[SOFT_X_YMM], 16u * registers)) {
        used |= HV_XCR0_AVX;
    }
    return used;
}

/* The checks that all of them begin with. */
static int check(struct hv_engine_vcpu *vcpu, uint64_t gva)
{
    const struct hv_cpu *cpu = vcpu->cpu;

    if (!(cpu->cr4 & HV_CR4_OSXSAVE)) {
        return soft_fault(vcpu, HV_VECTOR_UD);
    }
    if (cpu->cr0 & HV_CR0_TS) {
        return soft_fault(vcpu, HV_VECTOR_NM);
    }
    return gva & 63 ? soft_fault(vcpu, HV_VECTOR_GP) : 0;
}

/* Requested-feature bitmap: EDX:EAX, as far as XCR0 has it. */
static uint64_t requested(const struct hv_cpu *cpu)
{
    return cpu->xcr0 & ((uint32_t)cpu->slot[HV_REG_RAX] | cpu->slot[HV_REG_RDX] << 32);
}

static void store_mxcsr_image(const struct hv_cpu *cpu, uint8_t *area)
{
    hv_store_le(&area[SOFT_X_MXCSR], soft_x_get(cpu, SOFT_X_MXCSR, 4), 4);
    hv_store_le(&area[SOFT_X_MXCSR_MASK], SOFT_MXCSR_VALID, 4);
}

static void store_components(const struct hv_cpu *cpu, uint8_t *area, uint64_t saved, bool wide)
{
    unsigned bytes = 16u * soft_x_registers(cpu);

    if (saved & HV_XCR0_X87) {
        soft_x87_image_store(cpu, area, wide);
    }
    if (saved & HV_XCR0_SSE) {
        memcpy(&area[SOFT_X_XMM], &cpu->x.bytes[SOFT_X_XMM], bytes);
    }
    if (saved & HV_XCR0_AVX) {
        memcpy(&area[SOFT_X_YMM], &cpu->x.bytes[SOFT_X_YMM], bytes);
    }
}

int soft_xsave(struct hv_engine_vcpu *vcpu, enum soft_xsave_form form, bool wide, uint64_t gva)
{
    struct hv_cpu *cpu = vcpu->cpu;
    uint8_t area[HV_XSTATE_BYTES] = {0};
    uint64_t mask = requested(cpu);
    uint64_t used, saved, header;
    unsigned bytes;
    int rc;

    rc = check(vcpu, gva);
    if (rc != 0) {
        return rc;
    }
    soft_fpu_spill(vcpu);
    soft_mxcsr_sync(vcpu);
    used = soft_xinuse(cpu);
    /* XSAVE writes components in their initial state too; the others leave them out. */
    saved = form == SOFT_XSAVE ? mask : mask & used;
    bytes = saved & HV_XCR0_AVX ? HV_XSTATE_BYTES : AREA_BASE;
    /* What is not saved stays: the area is read, changed and written back as a whole. */
    rc = soft_read_bytes(vcpu, gva, area, bytes);
    if (rc != 0) {
        return rc;
    }
    store_components(cpu, area, saved, wide);
    if (form == SOFT_XSAVEC) {
        header = saved;
        hv_store_le(&area[SOFT_X_HEADER + 8], mask | XCOMP_COMPACTED, 8);
    } else {
        header = (hv_load_le(&area[SOFT_X_HEADER], 8) & ~mask) | (used & mask);
    }
    if (form == SOFT_XSAVEC ? saved & HV_XCR0_SSE : mask & VECTOR_STATE) {
        store_mxcsr_image(cpu, area);
    }
    hv_store_le(&area[SOFT_X_HEADER], header, 8);
    return soft_write_bytes(vcpu, gva, area, bytes);
}

/* #GP conditions of the header (13.8.1, 13.8.2, 13.12). */
static bool header_bad(const struct hv_cpu *cpu, const uint8_t *header, bool supervisor)
{
    uint64_t present = hv_load_le(header, 8), layout = hv_load_le(&header[8], 8);
    bool compacts = hv_cpu_has(cpu, HV_FEATURE_XSAVEC) || supervisor;

    if (!(layout & XCOMP_COMPACTED) || !compacts) {
        return supervisor || layout != 0 || !all_zero(&header[16], 8) || (present & ~cpu->xcr0);
    }
    layout &= ~XCOMP_COMPACTED;
    return (layout & ~cpu->xcr0) || (present & ~layout) || !all_zero(&header[16], 48);
}

static void restore_components(struct hv_cpu *cpu, const uint8_t *area, uint64_t mask,
                               uint64_t present, bool wide)
{
    unsigned bytes = 16u * soft_x_registers(cpu);
    uint8_t *x = cpu->x.bytes;

    if (mask & HV_XCR0_X87) {
        soft_x87_image_load(cpu, present & HV_XCR0_X87 ? area : NULL, wide);
    }
    if (mask & present & HV_XCR0_SSE) {
        memcpy(&x[SOFT_X_XMM], &area[SOFT_X_XMM], bytes);
    } else if (mask & HV_XCR0_SSE) {
        memset(&x[SOFT_X_XMM], 0, bytes);
    }
    if (mask & present & HV_XCR0_AVX) {
        memcpy(&x[SOFT_X_YMM], &area[SOFT_X_YMM], bytes);
    } else if (mask & HV_XCR0_AVX) {
        memset(&x[SOFT_X_YMM], 0, bytes);
    }
}

int soft_xrstor(struct hv_engine_vcpu *vcpu, bool supervisor, bool wide, uint64_t gva)
{
    struct hv_cpu *cpu = vcpu->cpu;
    uint64_t mask = requested(cpu), present;
    uint32_t mxcsr = SOFT_MXCSR_RESET;
    uint8_t area[HV_XSTATE_BYTES];
    bool compacted, load_mxcsr;
    int rc;

    rc = check(vcpu, gva);
    if (rc == 0) {
        rc = soft_read_bytes(vcpu, gva, area, AREA_BASE);
    }
    if (rc != 0) {
        return rc;
    }
    if (header_bad(cpu, &area[SOFT_X_HEADER], supervisor)) {
        return soft_fault(vcpu, HV_VECTOR_GP);
    }
    present = hv_load_le(&area[SOFT_X_HEADER], 8);
    compacted = hv_load_le(&area[SOFT_X_HEADER + 8], 8) & XCOMP_COMPACTED;
    if (mask & present & HV_XCR0_AVX) {
        rc = soft_read_bytes(vcpu, gva + SOFT_X_YMM, &area[SOFT_X_YMM],
                             HV_XSTATE_BYTES - SOFT_X_YMM);
        if (rc != 0) {
            return rc;
        }
    }
    /* The standard format loads MXCSR with either vector state, even an initial one. */
    load_mxcsr = compacted ? mask & HV_XCR0_SSE : mask & VECTOR_STATE;
    if (load_mxcsr && !(compacted && !(present & HV_XCR0_SSE))) {
        mxcsr = (uint32_t)hv_load_le(&area[SOFT_X_MXCSR], 4);
        if (mxcsr & ~SOFT_MXCSR_VALID) {
            return soft_fault(vcpu, HV_VECTOR_GP);
        }
    }
    if (mask & HV_XCR0_X87) {
        soft_x87_drop(vcpu);
    }
    restore_components(cpu, area, mask, present, wide);
    if (load_mxcsr) {
        soft_mxcsr_set(vcpu, mxcsr);
    }
    return 0;
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Instructions that move extended state: the dispatch, MXCSR, FXSAVE and FXRSTOR, XGETBV.
 * Source: SDM 2 (their pages), SDM 1 10.5 (the FXSAVE area).
 */
#include "engine/soft/xstate-private.h"

#include "cpu/policy.h"

#include <errno.h>

/* The area has room to spare that belongs to software. */
#define FXSAVE_BYTES 512u

void soft_x87_image_store(const struct hv_cpu *cpu, uint8_t *image, bool wide)
{
    const uint8_t *x = cpu->x.bytes;

    memcpy(image, x, SOFT_X_MXCSR);
    if (!wide) {
        /* Selectors read as zero: CPUID 7.0 EBX bit 13. */
        memset(&image[SOFT_X_FIP + 4], 0, 4);
        memset(&image[SOFT_X_FDP + 4], 0, 4);
    }
    memcpy(&image[SOFT_X_ST], &x[SOFT_X_ST], SOFT_X_X87_BYTES - SOFT_X_ST);
}

void soft_x87_image_load(struct hv_cpu *cpu, const uint8_t *image, bool wide)
{
    uint8_t *x = cpu->x.bytes;
    unsigned unmasked, status;

    if (!image) {
        memset(x, 0, SOFT_X_MXCSR);
        soft_x_set(cpu, SOFT_X_FCW, 2, SOFT_FCW_RESET);
        memset(&x[SOFT_X_ST], 0, SOFT_X_X87_BYTES - SOFT_X_ST);
        return;
    }
    memcpy(x, image, SOFT_X_MXCSR);
    if (!wide) {
        memset(&x[SOFT_X_FIP + 4], 0, 4);
        memset(&x[SOFT_X_FDP + 4], 0, 4);
    }
    memcpy(&x[SOFT_X_ST], &image[SOFT_X_ST], SOFT_X_X87_BYTES - SOFT_X_ST);
    /* Summary and busy bits follow from the flags, whatever the image says; so does silicon. */
    unmasked = ~soft_x_get(cpu, SOFT_X_FCW, 2) & SOFT_FCW_MASKS;
    status = soft_x_get(cpu, SOFT_X_FSW, 2) & ~(SOFT_FSW_ES | SOFT_FSW_B);
    soft_x_set(cpu, SOFT_X_FSW, 2, status | (status & unmasked ? SOFT_FSW_ES | SOFT_FSW_B : 0));
}

/* LDMXCSR and STMXCSR, before the access. */
static int check_mxcsr(struct hv_engine_vcpu *vcpu, bool vex, uint64_t gva)
{
    int rc = soft_fp_check(vcpu, vex ? SOFT_THUNK_FP_AVX | SOFT_THUNK_FP_VEX : SOFT_THUNK_FP_SSE);

    return rc ? rc : soft_check_alignment(vcpu, vcpu->mode, gva, sizeof(uint32_t));
}

static int load_mxcsr(struct hv_engine_vcpu *vcpu, bool vex, uint64_t gva)
{
    uint32_t value;
    int rc = check_mxcsr(vcpu, vex, gva);

    if (rc == 0) {
        rc = soft_read_bytes(vcpu, gva, &value, sizeof(value));
    }
    if (rc != 0) {
        return rc;
    }
    if (value & ~SOFT_MXCSR_VALID) {
        return soft_fault(vcpu, HV_VECTOR_GP);
    }
    soft_mxcsr_set(vcpu, value);
    return 0;
}

static int store_mxcsr(struct hv_engine_vcpu *vcpu, bool vex, uint64_t gva)
{
    uint32_t value;
    int rc = check_mxcsr(vcpu, vex, gva);

    if (rc != 0) {
        return rc;
    }
    soft_mxcsr_sync(vcpu);
    value = soft_x_get(vcpu->cpu, SOFT_X_MXCSR, 4);
    return soft_write_bytes(vcpu, gva, &value, sizeof(value));
}

/* FXSAVE and FXRSTOR, before the access. */
static int check_fxsave(struct hv_engine_vcpu *vcpu, uint64_t gva)
{
    int rc = soft_fp_check(vcpu, SOFT_THUNK_FP_X87);

    if (rc == 0 && (gva & 15)) {
        rc = soft_fault(vcpu, HV_VECTOR_GP);
    }
    return rc;
}

static int fxsave(struct hv_engine_vcpu *vcpu, bool wide, uint64_t gva)
{
    unsigned registers = soft_x_registers(vcpu->cpu);
    uint8_t image[FXSAVE_BYTES] = {0};
    int rc = check_fxsave(vcpu, gva);

    if (rc != 0) {
        return rc;
    }
    soft_fpu_spill(vcpu);
    soft_mxcsr_sync(vcpu);
    soft_x87_image_store(vcpu->cpu, image, wide);
    hv_store_le(&image[SOFT_X_MXCSR], soft_x_get(vcpu->cpu, SOFT_X_MXCSR, 4), 4);
    hv_store_le(&image[SOFT_X_MXCSR_MASK], SOFT_MXCSR_VALID, 4);
    memcpy(&image[SOFT_X_XMM], &vcpu->cpu->x.bytes[SOFT_X_XMM], 16u * registers);
    /* What lies behind the registers is not touched. */
    return soft_write_bytes(vcpu, gva, image, SOFT_X_XMM + 16u * registers);
}

static int fxrstor(struct hv_engine_vcpu *vcpu, bool wide, uint64_t gva)
{
    uint8_t image[FXSAVE_BYTES];
    uint32_t mxcsr;
    int rc = check_fxsave(vcpu, gva);

    if (rc == 0) {
        rc = soft_read_bytes(vcpu, gva, image, sizeof(image));
    }
    if (rc != 0) {
        return rc;
    }
    mxcsr = (uint32_t)hv_load_le(&image[SOFT_X_MXCSR], 4);
    if (mxcsr & ~SOFT_MXCSR_VALID) {
        return soft_fault(vcpu, HV_VECTOR_GP);
    }
    soft_x87_drop(vcpu);
    soft_x87_image_load(vcpu->cpu, image, wide);
    memcpy(&vcpu->cpu->x.bytes[SOFT_X_XMM], &image[SOFT_X_XMM], 16u * soft_x_registers(vcpu->cpu));
    soft_mxcsr_set(vcpu, mxcsr);
    return 0;
}

static int xgetbv(struct hv_engine_vcpu *vcpu)
{
    struct hv_cpu *cpu = vcpu->cpu;
    uint32_t index = (uint32_t)cpu->slot[HV_REG_RCX];
    uint64_t value = cpu->xcr0;

    if (!(cpu->cr4 & HV_CR4_OSXSAVE)) {
        return soft_fault(vcpu, HV_VECTOR_UD);
    }
    if (index > (hv_cpu_has(cpu, HV_FEATURE_XGETBV1) ? 1u : 0u)) {
        return soft_fault(vcpu, HV_VECTOR_GP);
    }
    if (index == 1) {
        soft_fpu_spill(vcpu);
        soft_mxcsr_sync(vcpu);
        value &= soft_xinuse(cpu);
    }
    cpu->slot[HV_REG_RAX] = (uint32_t)value;
    cpu->slot[HV_REG_RDX] = value >> 32;
    return 0;
}

/* 0F AE, the memory forms. */
static int group_ae(struct hv_engine_vcpu *vcpu, const struct soft_insn *insn, uint64_t gva)
{
    bool wide = insn->flags & SOFT_INSN_W, vex = insn->flags & SOFT_INSN_VEX;
    unsigned ext = insn->modrm >> 3 & 7;

    if (vex && ext != 2 && ext != 3) {
        return -ENOTSUP;
    }
    switch (ext) {
    case 0:
        return fxsave(vcpu, wide, gva);
    case 1:
        return fxrstor(vcpu, wide, gva);
    case 2:
        return load_mxcsr(vcpu, vex, gva);
    case 3:
        return store_mxcsr(vcpu, vex, gva);
    case 4:
        return soft_xsave(vcpu, SOFT_XSAVE, wide, gva);
    case 5:
        return soft_xrstor(vcpu, false, wide, gva);
    case 6:
        return soft_xsave(vcpu, SOFT_XSAVEOPT, wide, gva);
    default: /* CLFLUSH */
        return -ENOTSUP;
    }
}

/* 0F C7 /3 to /5, the memory forms. Those with S are privileged. */
static int group_c7(struct hv_engine_vcpu *vcpu, const struct soft_insn *insn, uint64_t gva)
{
    bool wide = insn->flags & SOFT_INSN_W;
    unsigned ext = insn->modrm >> 3 & 7;

    if ((ext == 3 || ext == 5) && vcpu->cpu->cpl != 0) {
        return soft_fault(vcpu, HV_VECTOR_GP);
    }
    switch (ext) {
    case 3:
        return soft_xrstor(vcpu, true, wide, gva);
    case 4:
    case 5:
        return soft_xsave(vcpu, SOFT_XSAVEC, wide, gva);
    default: /* CMPXCHG8B, VMPTRLD, RDRAND */
        return -ENOTSUP;
    }
}

int soft_xstate_insn(struct hv_engine_vcpu *vcpu, const struct soft_insn *insn, uint64_t gva)
{
    bool memory = (insn->flags & SOFT_INSN_MODRM) && (insn->modrm >> 6) != 3;

    if (insn->map == 0) {
        return soft_x87_env_insn(vcpu, insn, gva);
    }
    if (insn->map != 1 || insn->mandatory != 0) {
        return -ENOTSUP;
    }
    if (memory && insn->opcode == 0xae) {
        return group_ae(vcpu, insn, gva);
    }
    if (insn->flags & SOFT_INSN_VEX) {
        return -ENOTSUP;
    }
    if (insn->opcode == 0x77) {
        return soft_x87_env_insn(vcpu, insn, gva);
    }
    if (memory && insn->opcode == 0xc7) {
        return group_c7(vcpu, insn, gva);
    }
    if (insn->opcode == 0x01 && insn->modrm == 0xd0) {
        return xgetbv(vcpu);
    }
    return -ENOTSUP;
}

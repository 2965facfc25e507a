/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The x87 environment and state in memory, in its four formats, and the control instructions that
 * have no memory operand. The host does the work on live state (tags, TOP, what FNSTENV masks and
 * FNSAVE resets); here its image is turned into the guest's format and back.
 *
 *   28 bytes   control, status, tags, FIP, FCS | FOP << 16, FDP, FDS      a doubleword each
 *   14 bytes   the same in words, without FOP
 *   in real and virtual-8086 mode: no selectors; the pointers' high bits stand above FOP, and alone
 *
 * Source: SDM 1 figures 8-9 to 8-12, 8.3.10; SDM 2 FSTENV, FSAVE, FLDENV, FRSTOR.
 */
#include "engine/soft/xstate-private.h"

#include <errno.h>

#define ENV32_BYTES 28u
#define ENV16_BYTES 14u
#define ST_BYTES    80u

/* What the host's FNSAVE writes in 64-bit mode. */
struct host_state {
    uint8_t bytes[ENV32_BYTES + ST_BYTES];
};

enum env_format {
    ENV_PROTECTED32,
    ENV_PROTECTED16,
    ENV_REAL32,
    ENV_REAL16,
};

static enum env_format format_of(const struct hv_cpu *cpu, const struct soft_insn *insn)
{
    bool real = !hv_cpu_protected(cpu) || hv_cpu_v86(cpu);

    if (insn->operand_bytes == 2) {
        return real ? ENV_REAL16 : ENV_PROTECTED16;
    }
    return real ? ENV_REAL32 : ENV_PROTECTED32;
}

static unsigned env_bytes(enum env_format format)
{
    return format == ENV_PROTECTED32 || format == ENV_REAL32 ? ENV32_BYTES : ENV16_BYTES;
}

/*
 * Write the guest's environment: control, status and tags from the host's image, the pointers from
 * cpu->x. In real mode FIP is linear; what is kept is the offset, so CS must still be what it was.
 */
static void env_store(const struct hv_cpu *cpu, enum env_format format, const uint8_t *host,
                      uint8_t *env)
{
    unsigned step = env_bytes(format) == ENV32_BYTES ? 4 : 2;
    uint32_t fip = soft_x_get(cpu, SOFT_X_FIP, 4), fdp = soft_x_get(cpu, SOFT_X_FDP, 4);
    uint32_t fop = soft_x_get(cpu, SOFT_X_FOP, 2) & 0x7ff;
    uint32_t word[7] = {0};

    for (unsigned i = 0; i < 3; i++) {
        word[i] = (uint32_t)hv_load_le(&host[4 * i], 2) | 0xffff0000u;
    }
    switch (format) {
    case ENV_PROTECTED32:
    case ENV_PROTECTED16:
        word[3] = fip;
        word[4] = step == 4 ? fop << 16 : 0;
        word[5] = fdp;
        word[6] = step == 4 ? 0xffff0000u : 0;
        break;
    case ENV_REAL32:
    case ENV_REAL16:
        fip += (uint32_t)cpu->seg[HV_SEG_CS].base;
        word[3] = (fip & 0xffff) | 0xffff0000u;
        word[4] = (fip >> 16) << 12 | fop;
        word[5] = (fdp & 0xffff) | 0xffff0000u;
        word[6] = (fdp >> 16) << 12;
        break;
    }
    for (unsigned i = 0; i < 7; i++) {
        hv_store_le(&env[step * i], word[i], step);
    }
}

/* The reverse: @host becomes an environment for the host, whose pointers do not matter. */
static void env_load(struct hv_cpu *cpu, enum env_format format, const uint8_t *env, uint8_t *host)
{
    unsigned step = env_bytes(format) == ENV32_BYTES ? 4 : 2;
    uint32_t word[7], fip, fdp, fop = 0;

    memset(host, 0, ENV32_BYTES);
    for (unsigned i = 0; i < 7; i++) {
        word[i] = (uint32_t)hv_load_le(&env[step * i], step);
    }
    for (unsigned i = 0; i < 3; i++) {
        hv_store_le(&host[4 * i], word[i], 2);
    }
    fip = word[3];
    fdp = word[5];
    if (format == ENV_PROTECTED32) {
        fop = word[4] >> 16;
    } else if (format == ENV_REAL32 || format == ENV_REAL16) {
        fop = word[4];
        fip = (fip & 0xffff) | (word[4] >> 12 & 0xffff) << 16;
        fdp = (fdp & 0xffff) | (word[6] >> 12 & 0xffff) << 16;
        fip -= (uint32_t)cpu->seg[HV_SEG_CS].base;
    }
    soft_x_set(cpu, SOFT_X_FOP, 2, fop & 0x7ff);
    soft_x_set(cpu, SOFT_X_FIP, 8, fip);
    soft_x_set(cpu, SOFT_X_FDP, 8, fdp);
}

static void forget_pointers(struct hv_cpu *cpu)
{
    soft_x_set(cpu, SOFT_X_FOP, 2, 0);
    soft_x_set(cpu, SOFT_X_FIP, 8, 0);
    soft_x_set(cpu, SOFT_X_FDP, 8, 0);
}

/* FNSTENV and FNSAVE: the latter with the registers, and initialising afterwards. */
static int store(struct hv_engine_vcpu *vcpu, const struct soft_insn *insn, bool registers,
                 uint64_t gva)
{
    struct hv_cpu *cpu = vcpu->cpu;
    enum env_format format = format_of(cpu, insn);
    unsigned bytes = env_bytes(format);
    uint8_t image[ENV32_BYTES + ST_BYTES];
    struct soft_snapshot snapshot;
    struct host_state host;
    int rc;

    /* The store comes last and may be refused: keep what the host's instruction changes. */
    soft_snapshot_take(vcpu, &snapshot);
    rc = soft_x87_load(vcpu, false);
    if (rc != 0) {
        return rc;
    }
    if (registers) {
        __asm__ volatile("fnsave %0" : "=m"(host));
    } else {
        __asm__ volatile("fnstenv %0" : "=m"(host));
    }
    env_store(cpu, format, host.bytes, image);
    if (registers) {
        memcpy(&image[bytes], &host.bytes[ENV32_BYTES], ST_BYTES);
        bytes += ST_BYTES;
        forget_pointers(cpu);
    }
    (void)soft_x87_settle(vcpu);
    rc = soft_write_bytes(vcpu, gva, image, bytes);
    if (rc != 0) {
        soft_snapshot_restore(vcpu, &snapshot);
    }
    return rc;
}

/* FLDENV and FRSTOR. */
static int load(struct hv_engine_vcpu *vcpu, const struct soft_insn *insn, bool registers,
                uint64_t gva)
{
    enum env_format format = format_of(vcpu->cpu, insn);
    unsigned bytes = env_bytes(format);
    uint8_t image[ENV32_BYTES + ST_BYTES];
    struct host_state host;
    int rc;

    rc = soft_x87_load(vcpu, true);
    if (rc == 0) {
        rc = soft_read_bytes(vcpu, gva, image, bytes + (registers ? ST_BYTES : 0));
    }
    if (rc != 0) {
        return rc;
    }
    env_load(vcpu->cpu, format, image, host.bytes);
    if (registers) {
        memcpy(&host.bytes[ENV32_BYTES], &image[bytes], ST_BYTES);
        __asm__ volatile("frstor %0" : : "m"(host));
    } else {
        __asm__ volatile("fldenv %0" : : "m"(host));
    }
    /* An exception may be pending from here on: out with it, before the host waits for one. */
    (void)soft_x87_settle(vcpu);
    return 0;
}

static int fninit(struct hv_engine_vcpu *vcpu)
{
    int rc = soft_x87_load(vcpu, false);

    if (rc == 0) {
        __asm__ volatile("fninit");
        forget_pointers(vcpu->cpu);
        (void)soft_x87_settle(vcpu);
    }
    return rc;
}

static int emms(struct hv_engine_vcpu *vcpu)
{
    int rc = soft_fp_check(vcpu, SOFT_THUNK_FP_MMX);

    if (rc == 0) {
        rc = soft_x87_load(vcpu, true);
    }
    if (rc == 0) {
        __asm__ volatile("emms");
    }
    return rc;
}

/* WAIT looks at TS only together with MP (SDM 3A table 2-2). */
static int fwait(struct hv_engine_vcpu *vcpu)
{
    const uint64_t both = HV_CR0_MP | HV_CR0_TS;

    if ((vcpu->cpu->cr0 & both) == both) {
        return soft_fault(vcpu, HV_VECTOR_NM);
    }
    return !vcpu->fpu.x87_live && soft_x87_pending(vcpu->cpu) ? soft_fault(vcpu, HV_VECTOR_MF) : 0;
}

/* D9 and DD with memory: /4 loads, /6 stores. DB E0, E1, E4 are the 8087's and 287's, now empty. */
static int escape(struct hv_engine_vcpu *vcpu, const struct soft_insn *insn, uint64_t gva)
{
    bool memory = (insn->modrm >> 6) != 3, registers = insn->opcode == 0xdd;
    unsigned ext = insn->modrm >> 3 & 7;
    bool known = memory ? insn->opcode != 0xdb && (ext == 4 || ext == 6)
                        : insn->opcode == 0xdb && insn->modrm >= 0xe0 && insn->modrm <= 0xe4 &&
                              insn->modrm != 0xe2;
    int rc;

    if (!known) {
        return -ENOTSUP;
    }
    rc = soft_fp_check(vcpu, SOFT_THUNK_FP_X87);
    if (rc != 0) {
        return rc;
    }
    if (memory) {
        return ext == 4 ? load(vcpu, insn, registers, gva) : store(vcpu, insn, registers, gva);
    }
    return insn->modrm == 0xe3 ? fninit(vcpu) : 0;
}

int soft_x87_env_insn(struct hv_engine_vcpu *vcpu, const struct soft_insn *insn, uint64_t gva)
{
    if (insn->map == 1) {
        return insn->opcode == 0x77 ? emms(vcpu) : -ENOTSUP;
    }
    switch (insn->opcode) {
    case 0x9b:
        return fwait(vcpu);
    case 0xd9:
    case 0xdb:
    case 0xdd:
        return escape(vcpu, insn, gva);
    default:
        return -ENOTSUP;
    }
}

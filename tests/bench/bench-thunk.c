/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What a host-executed instruction costs, in ns of CPU time: the run alone, without the interpreter
 * around it. Median of the rounds, smallest in brackets. Each instruction depends on its own last
 * result, so that the way through memory is in the figure.
 *
 *     bench-thunk [--quick]
 */
#include "unit/engine/thunk-rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS_MAX 15u

RIG_CODE(addps, "addps %xmm2, %xmm1");
RIG_CODE(addps_mem, "addps (%rax), %xmm1");
RIG_CODE(movups_store, "movups %xmm1, (%rax)");
RIG_CODE(pshufb, "pshufb %xmm2, %xmm1");
RIG_CODE(ucomisd, "ucomisd %xmm2, %xmm1");
RIG_CODE(vaddps, "vaddps %ymm3, %ymm2, %ymm2");
RIG_CODE(vzeroupper, "vzeroupper");
RIG_CODE(popcnt, "popcnt %rcx, %rcx");
RIG_CODE(paddd, "paddd %mm1, %mm2");
RIG_CODE(fmul, "fmul %st(1), %st");
RIG_CODE(fadd_mem, "faddl (%rax)");
RIG_CODE(fldcw, "fldcw (%rax)");

enum mode {
    PLAIN,
    UNMASKED, /* the checked form: an SSE exception is unmasked */
    SPILLED,  /* x87 state taken out of the host after each */
};

static const struct row {
    const char *name;
    const uint8_t *code, *end;
    enum mode mode;
} rows[] = {
    {"addps xmm, xmm", addps, addps_end, PLAIN},
    {"addps xmm, m128", addps_mem, addps_mem_end, PLAIN},
    {"movups m128, xmm", movups_store, movups_store_end, PLAIN},
    {"pshufb xmm, xmm", pshufb, pshufb_end, PLAIN},
    {"ucomisd xmm, xmm", ucomisd, ucomisd_end, PLAIN},
    {"vaddps ymm, ymm, ymm", vaddps, vaddps_end, PLAIN},
    {"vzeroupper", vzeroupper, vzeroupper_end, PLAIN},
    {"popcnt r64, r64", popcnt, popcnt_end, PLAIN},
    {"paddd mm, mm", paddd, paddd_end, PLAIN},
    {"fmul st, st1", fmul, fmul_end, PLAIN},
    {"fadd m64", fadd_mem, fadd_mem_end, PLAIN},
    {"fldcw m16", fldcw, fldcw_end, PLAIN},
    {"addps, exceptions unmasked", addps, addps_end, UNMASKED},
    {"fmul, state not kept", fmul, fmul_end, SPILLED},
};

static struct rig rig;

static double now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    double difference = *(const double *)a - *(const double *)b;

    return (difference > 0) - (difference < 0);
}

/* Ones everywhere, so that nothing ever gets slow by being denormal or special. */
static void prepare(enum mode mode)
{
    uint8_t *x = rig.cpu.x.bytes;

    rig.cpu.slot[HV_REG_RAX] = RIG_BASE;
    hv_store_le(rig_memory(RIG_BASE), 0x3ff000000000037f, 8);
    hv_store_le(&x[24], mode == UNMASKED ? 0x1f00 : 0x1f80, 4);
    x[4] = 0xff;
    for (unsigned i = 0; i < 8; i++) {
        hv_store_le(&x[32 + 16 * i], UINT64_C(1) << 63, 8);
        hv_store_le(&x[40 + 16 * i], 0x3fff, 2);
    }
    for (unsigned i = 0; i < 64; i++) {
        hv_store_le(&x[160 + 4 * i], 0x3f800000, 4);
        hv_store_le(&x[576 + 4 * i], 0x3f800000, 4);
    }
}

static double measure(const struct row *row, unsigned count)
{
    double start;

    prepare(row->mode);
    soft_fpu_enter(&rig.vcpu);
    start = now_ns();
    for (unsigned i = 0; i < count; i++) {
        if (soft_thunk_run(&rig.vcpu, rig.thunk, RIG_BASE) != 0) {
            fprintf(stderr, "%s faults: vector %u\n", row->name, rig.vcpu.fault.vector);
            exit(EXIT_FAILURE);
        }
        if (row->mode == SPILLED) {
            soft_fpu_spill(&rig.vcpu);
        }
    }
    start = now_ns() - start;
    soft_fpu_leave(&rig.vcpu);
    return start / count;
}

int main(int argc, char **argv)
{
    bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    unsigned rounds = quick ? 3 : ROUNDS_MAX, count = quick ? 10000 : 1000000;

    if (!rig_host_has_avx()) {
        return rig_skip("The host has no AVX2.");
    }
    rig_init(&rig);
    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        const struct row *row = &rows[i];
        double result[ROUNDS_MAX];

        if (rig_decode(&rig, SOFT_MODE_64, row->code, (size_t)(row->end - row->code)) != 0) {
            fprintf(stderr, "%s does not compile\n", row->name);
            return EXIT_FAILURE;
        }
        for (unsigned round = 0; round < rounds; round++) {
            result[round] = measure(row, count);
        }
        qsort(result, rounds, sizeof(result[0]), ascending);
        printf("%-28s %7.1f [%.1f]\n", row->name, result[rounds / 2], result[0]);
    }
    rig_finish(&rig);
    return 0;
}

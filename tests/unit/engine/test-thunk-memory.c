/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The memory operand: through the TLB or not, across pages, refused, under masks; and that nothing
 * else has changed when it was refused. */
#include "thunk-case.h"

#include <errno.h>
#include <string.h>

RIG_CODE(movups_load, "movups (%rax), %xmm1");
RIG_CODE(movups_store, "movups %xmm1, (%rax)");
RIG_CODE(movaps_load, "movaps (%rax), %xmm1");
RIG_CODE(vmovaps_store, "vmovaps %ymm1, (%rax)");
RIG_CODE(vaddps_load, "vaddps (%rax), %ymm1, %ymm2");
RIG_CODE(fstp_m64, "fstpl (%rax)");
RIG_CODE(fld_m64, "fldl (%rax)");
RIG_CODE(fld_m80, "fldt (%rax)");
RIG_CODE(ldmxcsr, "ldmxcsr (%rax)");
RIG_CODE(xadd, "xadd %rcx, (%rax)");
RIG_CODE(lock_xadd, "lock xadd %rcx, (%rax)");
RIG_CODE(xchg, "xchg %rcx, (%rax)");
RIG_CODE(cmpxchg16b, "cmpxchg16b (%rsi)");
RIG_CODE(vmaskmov_load, "vmaskmovps (%rax), %ymm3, %ymm2");
RIG_CODE(vmaskmov_store, "vpmaskmovq %ymm2, %ymm3, (%rax)");
RIG_CODE(vgather, "vpgatherdd %ymm3, 8(%rax,%ymm4,4), %ymm2");
RIG_CODE(vgather_128, "vpgatherdd %xmm3, 8(%rax,%xmm4,4), %xmm2");
RIG_CODE(vgather_qd, "vpgatherqd %xmm3, (%rax,%ymm4,2), %xmm2");
RIG_CODE(vgather_alias, ".byte 0xc4, 0xe2, 0x65, 0x90, 0x1c, 0xa0"); /* destination is mask */
RIG_CODE(maskmovdqu, "maskmovdqu %xmm3, %xmm2");
RIG_CODE(maskmovq, "maskmovq %mm3, %mm2");
RIG_CODE(maskmovdqu_gs, ".byte 0x65; maskmovdqu %xmm3, %xmm2");

#define SECOND (RIG_BASE + HV_PAGE_SIZE)

static struct hv_cpu before;

static uint64_t memory(uint64_t gva)
{
    return hv_load_le(rig_memory(gva), 8);
}

/* Every byte of the arena tells its place. */
static void begin(uint64_t rax)
{
    rig_finish(&rig);
    rig_init(&rig);
    rig.cpu.slot[HV_REG_RAX] = rax;
    for (uint64_t at = RIG_BASE; at < RIG_END; at++) {
        *(uint8_t *)rig_memory(at) = (uint8_t)(at * 7 + (at >> 8));
    }
    for (unsigned i = 0; i < 256; i++) {
        rig.cpu.x.bytes[XMM(0) + i] = (uint8_t)(i ^ 0x5a);
        rig.cpu.x.bytes[YMM(0) + i] = (uint8_t)(i ^ 0xa5);
    }
    before = rig.cpu;
}

static void set_page(unsigned page, enum rig_page kind)
{
    rig.page[page] = kind;
    rig_fast(&rig);
}

/* The slow path is not asked when the TLB knows. */
static void test_fast(void)
{
    begin(RIG_BASE + 5);
    TAP_EQ(RIG_RUN(&rig, movups_load), 0);
    TAP_EQ(x_get(XMM(1), 8), memory(RIG_BASE + 5));
    x_set(XMM(1), 8, 0x1122334455667788);
    TAP_EQ(RIG_RUN(&rig, movups_store), 0);
    TAP_EQ(memory(RIG_BASE + 5), 0x1122334455667788);
    TAP_EQ(RIG_RUN(&rig, xadd), 0);
    TAP_EQ(rig.slow_reads + rig.slow_writes + rig.probes, 0);
    TAP_EQ(rig.cpu.slot[HV_REG_RCX], 0x1122334455667788);
}

static void test_crossing(void)
{
    begin(SECOND - 5);
    TAP_EQ(RIG_RUN(&rig, movups_load), 0);
    TAP_EQ(rig.slow_reads, 1);
    TAP_EQ(x_get(XMM(1), 8), memory(SECOND - 5));
    x_set(XMM(1), 8, 0x1122334455667788);
    TAP_EQ(RIG_RUN(&rig, movups_store), 0);
    TAP_EQ(rig.slow_writes, 1);
    TAP_EQ(memory(SECOND - 5), 0x1122334455667788);
}

/* The second page refuses: neither the first page nor a register has changed. */
static void test_crossing_fault(void)
{
    uint64_t kept;

    begin(SECOND - 5);
    set_page(1, RIG_PAGE_READ_ONLY);
    kept = memory(SECOND - 5);
    TAP_FAULT(RIG_RUN(&rig, movups_store), HV_VECTOR_PF);
    TAP_EQ(rig.vcpu.fault.cr2, SECOND);
    TAP_FAULT(RIG_RUN(&rig, xadd), HV_VECTOR_PF);
    TAP_EQ(memory(SECOND - 5), kept);
    set_page(1, RIG_PAGE_ABSENT);
    TAP_FAULT(RIG_RUN(&rig, vaddps_load), HV_VECTOR_PF);
    TAP_OK(memcmp(&rig.cpu, &before, sizeof(before)) == 0);
}

static void test_aligned(void)
{
    begin(RIG_BASE + 8);
    TAP_FAULT(RIG_RUN(&rig, movaps_load), HV_VECTOR_GP);
    TAP_OK(rig.vcpu.fault.has_error);
    TAP_EQ(rig.vcpu.fault.error, 0);
    rig.cpu.slot[HV_REG_RAX] = RIG_BASE + 16;
    TAP_EQ(RIG_RUN(&rig, movaps_load), 0);
    TAP_FAULT(RIG_RUN(&rig, vmovaps_store), HV_VECTOR_GP);
    TAP_EQ(RIG_RUN(&rig, vaddps_load), 0);
    rig.cpu.slot[HV_REG_RSI] = RIG_BASE + 8;
    TAP_FAULT(RIG_RUN(&rig, cmpxchg16b), HV_VECTOR_GP);
    /* Alignment is found before the page is. */
    rig.cpu.slot[HV_REG_RAX] = RIG_END + 8;
    TAP_FAULT(RIG_RUN(&rig, movaps_load), HV_VECTOR_GP);
}

/* Set the sign bits of ymm3's elements by @mask. */
static void set_mask(unsigned mask, unsigned element_bytes)
{
    for (unsigned i = 0; i < 32 / element_bytes; i++) {
        unsigned offset = i * element_bytes;

        x_set(offset < 16 ? XMM(3) + offset : YMM(3) + offset - 16, element_bytes,
              mask >> i & 1 ? UINT64_C(1) << (element_bytes * 8 - 1) : 1);
    }
}

/* Under alignment checks the TLB's views are empty; vectors have rules of their own. */
static void test_alignment_check(void)
{
    begin(RIG_BASE + 4);
    rig_slow(&rig);
    rig.alignment_checked = true;
    TAP_FAULT(RIG_RUN(&rig, fld_m64), HV_VECTOR_AC);
    TAP_FAULT(RIG_RUN(&rig, fld_m80), HV_VECTOR_AC);
    TAP_FAULT(RIG_RUN(&rig, fstp_m64), HV_VECTOR_AC);
    TAP_EQ(x_get(4, 1), 0);
    TAP_EQ(RIG_RUN(&rig, movups_load), 0);
    TAP_EQ(RIG_RUN(&rig, ldmxcsr), HV_FAULTED); /* reserved bits, but aligned */
    TAP_EQ(rig.vcpu.fault.vector, HV_VECTOR_GP);
    rig.cpu.slot[HV_REG_RAX] = RIG_BASE + 8;
    TAP_EQ(RIG_RUN(&rig, fld_m80), 0);
    rig.cpu.slot[HV_REG_RAX] = RIG_BASE + 2;
    TAP_FAULT(RIG_RUN(&rig, ldmxcsr), HV_VECTOR_AC);
}

/* A store that is taken up again later has not popped, counted or raised anything. */
static void test_restart(void)
{
    begin(RIG_BASE);
    x_set(ST(0), 8, 0xc000000000000001);
    x_set(ST(0) + 8, 2, 0x3fff);
    x_set(4, 1, 0xff);
    rig.cpu.slot[HV_REG_RCX] = 3;
    before = rig.cpu;
    set_page(0, RIG_PAGE_BUSY);
    TAP_EQ(RIG_RUN(&rig, fstp_m64), -EAGAIN);
    TAP_EQ(x_get(2, 2), 0); /* TOP, and no precision flag */
    TAP_EQ(x_get(4, 1), 0xff);
    TAP_EQ(RIG_RUN(&rig, fld_m64), -EAGAIN);
    TAP_EQ(RIG_RUN(&rig, xadd), -EAGAIN);
    TAP_EQ(rig.cpu.slot[HV_REG_RCX], 3);
    TAP_EQ(rig.cpu.arith, before.arith);
    TAP_EQ(RIG_RUN(&rig, movups_store), -EAGAIN);
    set_mask(0, 4);
    TAP_EQ(RIG_RUN(&rig, vgather), 0); /* nothing selected, nothing accessed */
    set_page(0, RIG_PAGE_RW);
    TAP_EQ(RIG_RUN(&rig, fstp_m64), 0);
    TAP_EQ(x_get(2, 2), 0x0820); /* TOP is 1, precision */
    TAP_EQ(memory(RIG_BASE), 0x3ff8000000000000);
}

static void test_locked(void)
{
    begin(RIG_BASE + 8);
    TAP_EQ(RIG_RUN(&rig, lock_xadd), 0);
    TAP_EQ(rig.rmw_bytes, 0);
    rig.cpu.slot[HV_REG_RAX] = RIG_BASE + 9;
    TAP_EQ(RIG_RUN(&rig, lock_xadd), 0);
    TAP_EQ(rig.rmw_bytes, 8);
    TAP_OK(rig.rmw_locked);
    rig.rmw_locked = false;
    TAP_EQ(RIG_RUN(&rig, xchg), 0);
    TAP_OK(rig.rmw_locked);
    rig_slow(&rig);
    TAP_EQ(RIG_RUN(&rig, xadd), 0);
    TAP_OK(!rig.rmw_locked);
}

static void test_cmpxchg16b(void)
{
    begin(0);
    rig.cpu.slot[HV_REG_RSI] = RIG_BASE + 32;
    rig.cpu.slot[HV_REG_RAX] = memory(RIG_BASE + 32);
    rig.cpu.slot[HV_REG_RDX] = memory(RIG_BASE + 40);
    rig.cpu.slot[HV_REG_RBX] = 0xb;
    rig.cpu.slot[HV_REG_RCX] = 0xc;
    TAP_EQ(RIG_RUN(&rig, cmpxchg16b), 0);
    TAP_EQ(memory(RIG_BASE + 32), 0xb);
    TAP_EQ(memory(RIG_BASE + 40), 0xc);
    TAP_OK(hv_cpu_rflags(&rig.cpu) & HV_RFLAGS_ZF);
    TAP_EQ(RIG_RUN(&rig, cmpxchg16b), 0);
    TAP_OK(!(hv_cpu_rflags(&rig.cpu) & HV_RFLAGS_ZF));
    TAP_EQ(rig.cpu.slot[HV_REG_RAX], 0xb);
    TAP_EQ(rig.cpu.slot[HV_REG_RDX], 0xc);
}

static void test_masked_load(void)
{
    begin(SECOND - 16);
    set_page(1, RIG_PAGE_ABSENT);
    set_mask(0x0d, 4);
    TAP_EQ(RIG_RUN(&rig, vmaskmov_load), 0);
    TAP_EQ(x_get(XMM(2), 8), memory(SECOND - 16) & UINT32_MAX);
    TAP_EQ(x_get(XMM(2) + 8, 8), memory(SECOND - 8));
    TAP_EQ(x_get(YMM(2), 8), 0);
    set_mask(0x11, 4);
    before = rig.cpu;
    TAP_FAULT(RIG_RUN(&rig, vmaskmov_load), HV_VECTOR_PF);
    TAP_EQ(rig.vcpu.fault.cr2, SECOND);
    TAP_OK(memcmp(&rig.cpu, &before, sizeof(before)) == 0);
    /* Nothing selected, nothing touched. */
    set_mask(0, 4);
    rig.cpu.slot[HV_REG_RAX] = 0x123;
    TAP_EQ(RIG_RUN(&rig, vmaskmov_load), 0);
    TAP_EQ(x_get(XMM(2), 8), 0);
}

static void test_masked_store(void)
{
    uint64_t first, second;

    begin(SECOND - 16);
    set_page(1, RIG_PAGE_READ_ONLY);
    first = memory(SECOND - 16);
    second = memory(SECOND - 8);
    set_mask(0x2, 8);
    TAP_EQ(RIG_RUN(&rig, vmaskmov_store), 0);
    TAP_EQ(memory(SECOND - 16), first);
    TAP_EQ(memory(SECOND - 8), x_get(XMM(2) + 8, 8));
    /* The run in the second page is refused before the first is stored. */
    memcpy(rig_memory(SECOND - 8), &second, 8);
    set_mask(0x9, 8);
    TAP_FAULT(RIG_RUN(&rig, vmaskmov_store), HV_VECTOR_PF);
    TAP_EQ(memory(SECOND - 16), first);
    /* Through the TLB, whole in one page. */
    rig.cpu.slot[HV_REG_RAX] = RIG_BASE;
    rig.probes = 0;
    second = memory(RIG_BASE + 8);
    TAP_EQ(RIG_RUN(&rig, vmaskmov_store), 0);
    TAP_EQ(memory(RIG_BASE), x_get(XMM(2), 8));
    TAP_EQ(memory(RIG_BASE + 8), second);
    TAP_EQ(memory(RIG_BASE + 24), x_get(YMM(2) + 8, 8));
    TAP_EQ(rig.probes, 0);
}

/* Indices of ymm4, four bytes each. */
static void set_indices(const int32_t index[8])
{
    for (unsigned i = 0; i < 8; i++) {
        x_set(i < 4 ? XMM(4) + 4 * i : YMM(4) + 4 * i - 16, 4, (uint32_t)index[i]);
    }
}

static void test_gather(void)
{
    static const int32_t index[8] = {0, 3, -2, 1019, 1020, 5, 6, 7};
    uint32_t kept;

    begin(RIG_BASE + 8);
    set_indices(index);
    set_mask(0xdf, 4);
    kept = (uint32_t)x_get(YMM(2) + 4, 4);
    /* Element 3 is the last of the first page, element 4 the first of the second. */
    set_page(1, RIG_PAGE_ABSENT);
    TAP_FAULT(RIG_RUN(&rig, vgather), HV_VECTOR_PF);
    TAP_EQ(rig.vcpu.fault.cr2, RIG_BASE + 16 + 4 * 1020);
    TAP_EQ(x_get(XMM(2) + 4, 4), memory(RIG_BASE + 16 + 12) & UINT32_MAX);
    TAP_EQ(x_get(XMM(2) + 8, 4), memory(RIG_BASE + 16 - 8) & UINT32_MAX);
    TAP_EQ(x_get(XMM(3), 8) | x_get(XMM(3) + 8, 4), 0);
    /* What is still to be done is marked by all bits, what never was to be by none. */
    TAP_EQ(x_get(YMM(3), 4), UINT32_MAX);
    TAP_EQ(x_get(YMM(3) + 4, 4), 0);
    TAP_EQ(x_get(YMM(3) + 8, 8), UINT64_MAX);
    set_page(1, RIG_PAGE_RW);
    TAP_EQ(RIG_RUN(&rig, vgather), 0);
    TAP_EQ(x_get(YMM(2), 4), memory(RIG_BASE + 16 + 4 * 1020) & UINT32_MAX);
    TAP_EQ(x_get(YMM(2) + 4, 4), kept);
    TAP_EQ(x_get(YMM(2) + 12, 4), memory(RIG_BASE + 16 + 28) & UINT32_MAX);
    TAP_EQ(x_get(YMM(3), 8) | x_get(YMM(3) + 8, 8), 0);
}

/* Of 128 bits: what is beyond is cleared by each element, and of the mask before any. */
static void test_gather_half(void)
{
    static const int32_t index[8] = {0, 1020};
    uint64_t kept;

    begin(RIG_BASE + 8);
    set_indices(index);
    set_mask(0xff, 4);
    set_page(0, RIG_PAGE_ABSENT);
    kept = x_get(YMM(2), 8);
    TAP_FAULT(RIG_RUN(&rig, vgather_128), HV_VECTOR_PF);
    TAP_EQ(x_get(YMM(2), 8), kept);
    TAP_EQ(x_get(YMM(3), 8) | x_get(YMM(3) + 8, 8), 0);
    set_page(0, RIG_PAGE_RW);
    set_page(1, RIG_PAGE_ABSENT);
    TAP_FAULT(RIG_RUN(&rig, vgather_128), HV_VECTOR_PF);
    TAP_EQ(x_get(YMM(2), 8) | x_get(YMM(2) + 8, 8), 0);
}

/* Leaving the engine half way undoes it: the accesses done are replayed from the start. */
static void test_gather_restart(void)
{
    static const int32_t index[8] = {0, 1, 2, 3, 1022, 5, 6, 7};

    begin(RIG_BASE + 8);
    set_indices(index);
    set_mask(0xff, 4);
    before = rig.cpu;
    set_page(1, RIG_PAGE_BUSY);
    TAP_EQ(RIG_RUN(&rig, vgather), -EAGAIN);
    TAP_OK(memcmp(&rig.cpu, &before, sizeof(before)) == 0);
}

/* Four quadword indices and doubleword elements: an XMM result, its upper half and mask cleared. */
static void test_gather_narrow(void)
{
    begin(RIG_BASE);
    for (unsigned i = 0; i < 4; i++) {
        x_set(i < 2 ? XMM(4) + 8 * i : YMM(4) + 8 * i - 16, 8, 10 * i);
    }
    set_mask(0xff, 4);
    TAP_EQ(RIG_RUN(&rig, vgather_qd), 0);
    for (unsigned i = 0; i < 4; i++) {
        TAP_EQ(x_get(XMM(2) + 4 * i, 4), memory(RIG_BASE + 20 * i) & UINT32_MAX);
    }
    TAP_EQ(x_get(YMM(2), 8) | x_get(YMM(2) + 8, 8) | x_get(YMM(3), 8), 0);
    TAP_OK(rig_decode(&rig, SOFT_MODE_64, vgather_alias, 15) < 0);
}

static void test_masked_bytes(void)
{
    uint64_t first, second;

    begin(0);
    rig.cpu.slot[HV_REG_RDI] = SECOND - 8;
    x_set(XMM(3), 8, 0x8000800000000080);
    x_set(XMM(3) + 8, 8, 0);
    first = memory(SECOND - 8);
    second = memory(SECOND);
    set_page(1, RIG_PAGE_READ_ONLY);
    TAP_EQ(RIG_RUN(&rig, maskmovdqu), 0);
    TAP_EQ(memory(SECOND - 8), (first & ~UINT64_C(0xff00ff00000000ff)) |
                                   (x_get(XMM(2), 8) & UINT64_C(0xff00ff00000000ff)));
    TAP_EQ(memory(SECOND), second);
    TAP_EQ(rig.slow_writes, 3);
    /* A byte of the second page: nothing is stored. */
    memcpy(rig_memory(SECOND - 8), &first, 8);
    x_set(XMM(3) + 8, 8, 0x80);
    TAP_FAULT(RIG_RUN(&rig, maskmovdqu), HV_VECTOR_PF);
    TAP_EQ(memory(SECOND - 8), first);
    /* No byte: no access. */
    x_set(XMM(3), 8, 0);
    x_set(XMM(3) + 8, 8, 0);
    rig.cpu.slot[HV_REG_RDI] = 0;
    TAP_EQ(RIG_RUN(&rig, maskmovdqu), 0);
    /* Another segment's base. */
    x_set(XMM(3), 8, 0x80);
    rig.cpu.slot[HV_SLOT_SEG_BASE + HV_SEG_GS] = RIG_BASE + 64;
    TAP_EQ(RIG_RUN(&rig, maskmovdqu_gs), 0);
    TAP_EQ(memory(RIG_BASE + 64) & 0xff, x_get(XMM(2), 1));
}

static void test_masked_bytes_mmx(void)
{
    uint64_t first;

    begin(0);
    rig.cpu.slot[HV_REG_RDI] = RIG_BASE;
    first = memory(RIG_BASE);
    x_set(ST(2), 8, 0x1122334455667788);
    x_set(ST(3), 8, 0x80ff);
    TAP_EQ(RIG_RUN(&rig, maskmovq), 0);
    TAP_EQ(memory(RIG_BASE), (first & ~UINT64_C(0xffff)) | 0x7788);
    TAP_EQ(x_get(4, 1), 0xff);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"engine.thunk-memory.fast", test_fast},
        {"engine.thunk-memory.crossing", test_crossing},
        {"engine.thunk-memory.crossing-fault", test_crossing_fault},
        {"engine.thunk-memory.aligned", test_aligned},
        {"engine.thunk-memory.alignment-check", test_alignment_check},
        {"engine.thunk-memory.restart", test_restart},
        {"engine.thunk-memory.locked", test_locked},
        {"engine.thunk-memory.cmpxchg16b", test_cmpxchg16b},
        {"engine.thunk-memory.masked-load", test_masked_load},
        {"engine.thunk-memory.masked-store", test_masked_store},
        {"engine.thunk-memory.gather", test_gather},
        {"engine.thunk-memory.gather-half", test_gather_half},
        {"engine.thunk-memory.gather-restart", test_gather_restart},
        {"engine.thunk-memory.gather-narrow", test_gather_narrow},
        {"engine.thunk-memory.masked-bytes", test_masked_bytes},
        {"engine.thunk-memory.masked-bytes-mmx", test_masked_bytes_mmx},
    };

    if (!rig_host_has_avx()) {
        return rig_skip("The host has no AVX2.");
    }
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The vCPU of the thunk tests and its fake memory. */
#include "thunk-rig.h"

#include "cpu/policy.h"
#include "cpu/segment.h"
#include "engine/soft/access-private.h"

#include "lib/tap.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static struct rig *rig_of(struct hv_engine_vcpu *vcpu)
{
    return HV_CONTAINER_OF(vcpu, struct rig, vcpu);
}

static int rig_fault(struct hv_fault *fault, uint64_t gva, bool write)
{
    *fault = (struct hv_fault){
        .vector = HV_VECTOR_PF, .has_error = true, .error = write ? 2u : 0u, .cr2 = gva};
    return HV_FAULTED;
}

static int rig_check(struct rig *rig, uint64_t gva, unsigned bytes, bool write,
                     struct hv_fault *fault)
{
    for (uint64_t at = gva; at < gva + bytes; at = (at | (HV_PAGE_SIZE - 1)) + 1) {
        uint64_t page = (at - RIG_BASE) >> HV_PAGE_SHIFT;

        if (at < RIG_BASE || page >= RIG_PAGES || rig->page[page] == RIG_PAGE_ABSENT) {
            return rig_fault(fault, at, write);
        }
        if (rig->page[page] == RIG_PAGE_BUSY) {
            return -EAGAIN;
        }
        if (rig->page[page] == RIG_PAGE_READ_ONLY && write) {
            return rig_fault(fault, at, write);
        }
    }
    return 0;
}

int soft_check_alignment(struct hv_engine_vcpu *vcpu, enum soft_tlb_mode mode, uint64_t gva,
                         unsigned bytes)
{
    (void)mode;
    if (!rig_of(vcpu)->alignment_checked || bytes > 8 || !(gva & (bytes - 1))) {
        return 0;
    }
    vcpu->fault = (struct hv_fault){.vector = HV_VECTOR_AC, .has_error = true};
    return HV_FAULTED;
}

int soft_read_bytes(struct hv_engine_vcpu *vcpu, uint64_t gva, void *to, unsigned bytes)
{
    struct rig *rig = rig_of(vcpu);
    int rc = rig_check(rig, gva, bytes, false, &vcpu->fault);

    rig->slow_reads++;
    if (rc == 0) {
        memcpy(to, rig_memory(gva), bytes);
    }
    return rc;
}

int soft_write_bytes(struct hv_engine_vcpu *vcpu, uint64_t gva, const void *from, unsigned bytes)
{
    struct rig *rig = rig_of(vcpu);
    int rc = rig_check(rig, gva, bytes, true, &vcpu->fault);

    rig->slow_writes++;
    if (rc == 0) {
        memcpy(rig_memory(gva), from, bytes);
    }
    return rc;
}

/* A busy page can be read for the copy and refuses the commit. */
int soft_rmw_begin(struct hv_engine_vcpu *vcpu, uint64_t gva, unsigned bytes, bool locked,
                   void **place_out)
{
    struct rig *rig = rig_of(vcpu);
    int rc = rig_check(rig, gva, bytes, true, &vcpu->fault);

    rig->rmw_gva = gva;
    rig->rmw_bytes = bytes;
    rig->rmw_locked = locked;
    if (rc == 0 || rc == -EAGAIN) {
        memcpy(vcpu->bounce.bytes, rig_memory(gva), bytes);
        *place_out = vcpu->bounce.bytes;
        rc = 0;
    }
    return rc;
}

int soft_rmw_commit(struct hv_engine_vcpu *vcpu)
{
    struct rig *rig = rig_of(vcpu);

    return soft_write_bytes(vcpu, rig->rmw_gva, vcpu->bounce.bytes, rig->rmw_bytes);
}

static int rig_probe_write(void *context, hv_gva gva, unsigned bytes, enum hv_walk_as as,
                           struct hv_fault *fault)
{
    struct rig *rig = context;

    (void)as;
    rig->probes++;
    return rig_check(rig, gva.v, bytes, true, fault);
}

static const struct hv_access_ops rig_access_ops = {.probe_write = rig_probe_write};

void rig_init(struct rig *rig)
{
    static struct hv_cpu_policy policy;

    memset(rig, 0, sizeof(*rig));
    hv_cpu_policy_init(&policy, 1, 1000000, false);
    policy.features |=
        HV_BIT(HV_FEATURE_XGETBV1) | HV_BIT(HV_FEATURE_XSAVEC) | HV_BIT(HV_FEATURE_XSAVES);
    if (mmap(rig_memory(RIG_BASE), RIG_PAGES * HV_PAGE_SIZE, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED ||
        mmap(rig_memory(RIG_END), HV_PAGE_SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
             -1, 0) == MAP_FAILED ||
        soft_thunks_create(&rig->thunks) != 0) {
        __builtin_trap();
    }
    rig->cpu.policy = &policy;
    rig->cpu.cr0 = HV_CR0_PE | HV_CR0_PG | HV_CR0_NE | HV_CR0_MP;
    rig->cpu.cr4 = HV_CR4_OSFXSR | HV_CR4_OSXMMEXCPT | HV_CR4_OSXSAVE | HV_CR4_PAE;
    rig->cpu.efer = HV_EFER_LME | HV_EFER_LMA;
    rig->cpu.xcr0 = HV_XCR0_X87 | HV_XCR0_SSE | HV_XCR0_AVX;
    rig->cpu.seg[HV_SEG_CS].attr = HV_SEG_ATTR_L | HV_SEG_ATTR_P | HV_SEG_ATTR_S | 0xb;
    for (unsigned i = 0; i < HV_SEG_COUNT; i++) {
        rig->cpu.seg[i].limit = UINT32_MAX;
    }
    rig->cpu.arith = hv_arith_from_rflags(0);
    hv_store_le(&rig->cpu.x.bytes[0], 0x37f, 2);
    hv_store_le(&rig->cpu.x.bytes[24], 0x1f80, 4);
    rig->vcpu.cpu = &rig->cpu;
    rig->vcpu.access = (struct hv_access){.ops = &rig_access_ops, .context = rig};
    rig_fast(rig);
}

bool rig_host_has_avx(void)
{
    const uint64_t needed =
        HV_BIT(HV_FEATURE_AVX2) | HV_BIT(HV_FEATURE_F16C) | HV_BIT(HV_FEATURE_BMI1);
    struct hv_cpu_policy policy;

    hv_cpu_policy_init(&policy, 1, 1000000, false);
    return (policy.features & needed) == needed;
}

int rig_skip(const char *reason)
{
    printf("1..0 # SKIP %s\n", reason);
    return 0;
}

void rig_finish(struct rig *rig)
{
    soft_thunks_destroy(rig->thunks);
}

void rig_slow(struct rig *rig)
{
    for (unsigned kind = 0; kind < SOFT_TLB_KINDS; kind++) {
        for (unsigned i = 0; i < RIG_PAGES; i++) {
            rig->entry[kind][i] = (struct soft_tlb_entry){.tag = SOFT_TLB_EMPTY};
        }
        rig->vcpu.view[kind] =
            (struct soft_tlb_view){.entry = rig->entry[kind], .mask = RIG_PAGES - 1};
    }
}

void rig_fast(struct rig *rig)
{
    rig_slow(rig);
    for (unsigned i = 0; i < RIG_PAGES; i++) {
        uint64_t gva = RIG_BASE + i * HV_PAGE_SIZE;
        uint64_t slot = (gva >> HV_PAGE_SHIFT) & (RIG_PAGES - 1);

        if (rig->page[i] == RIG_PAGE_RW || rig->page[i] == RIG_PAGE_READ_ONLY) {
            rig->entry[SOFT_TLB_READ][slot] = (struct soft_tlb_entry){.tag = gva};
        }
        if (rig->page[i] == RIG_PAGE_RW) {
            rig->entry[SOFT_TLB_WRITE][slot] = (struct soft_tlb_entry){.tag = gva};
        }
    }
}

int rig_decode(struct rig *rig, enum soft_mode mode, const uint8_t *bytes, size_t available)
{
    if (soft_decode(mode, bytes, available, &rig->insn) != SOFT_DECODE_OK) {
        return -EINVAL;
    }
    return soft_thunk_get(rig->thunks, &rig->insn, bytes, &rig->thunk);
}

uint64_t rig_address(const struct rig *rig)
{
    const struct soft_mem *mem = &rig->insn.mem;
    uint64_t address = (uint64_t)mem->disp;

    if (!(rig->insn.flags & SOFT_INSN_MODRM) || rig->insn.modrm >= 0xc0) {
        return 0;
    }
    if (mem->base == SOFT_REG_RIP) {
        address += rig->cpu.rip + rig->insn.length;
    } else if (mem->base != SOFT_REG_NONE) {
        address += rig->cpu.slot[mem->base];
    }
    if (mem->index != SOFT_REG_NONE) {
        address += rig->cpu.slot[mem->index] << mem->scale;
    }
    return address & hv_bytes_mask(rig->insn.address_bytes);
}

int rig_step(struct rig *rig, const uint8_t *bytes, size_t available)
{
    int rc = rig_decode(rig, SOFT_MODE_64, bytes, available);

    if (rc == 0) {
        return soft_thunk_run(&rig->vcpu, rig->thunk, rig_address(rig));
    }
    return rc == -ENOTSUP ? soft_xstate_insn(&rig->vcpu, &rig->insn, rig_address(rig)) : rc;
}

int rig_run(struct rig *rig, const uint8_t *bytes, size_t available)
{
    int rc;

    soft_fpu_enter(&rig->vcpu);
    rc = rig_step(rig, bytes, available);
    soft_fpu_leave(&rig->vcpu);
    return rc;
}

/* Flat segments: what the tests' addresses go through. */
int hv_segment_linear(const struct hv_cpu *cpu, enum hv_seg seg, uint64_t offset, unsigned bytes,
                      bool write, hv_gva *gva_out, struct hv_fault *fault_out)
{
    (void)bytes;
    (void)write;
    (void)fault_out;
    *gva_out = (hv_gva){cpu->slot[HV_SLOT_SEG_BASE + seg] + offset};
    return 0;
}

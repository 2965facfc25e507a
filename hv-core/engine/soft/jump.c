/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The jump cache and the way from a RIP to a known block. */
#include "engine/soft/jump.h"

#include "engine/soft/access.h"
#include "engine/soft/block.h"

#include "base/alloc.h"

#include <errno.h>

int soft_jumps_create(struct soft_jump_cache **cache_out)
{
    struct soft_jump_cache *cache = hv_alloc_aligned(HV_CACHE_LINE, sizeof(*cache));

    *cache_out = cache;
    return cache ? 0 : -ENOMEM;
}

void soft_jumps_destroy(struct soft_jump_cache *cache)
{
    hv_free(cache);
}

void soft_jumps_clear(struct soft_jump_cache *cache)
{
    for (unsigned i = 0; i < SOFT_JUMPS; i++) {
        cache->jump[i] = (struct soft_jump){.stamp = SOFT_STAMP_NEVER};
    }
}

/* Remember @uop for @rip under the vCPU's stamp. */
static void put(struct hv_engine_vcpu *vcpu, uint64_t rip, const struct soft_uop *uop)
{
    struct soft_jump *jump = soft_jump_slot(vcpu->jumps, rip);

    if (HV_UNLIKELY(vcpu->trace_blocks)) {
        return;
    }
    jump->rip = rip;
    jump->stamp = vcpu->stamp[rip >> 63];
    jump->uop = uop;
}

/* CS's base; in 64-bit mode it is none (SDM 3A 3.4.4). */
static uint64_t code_base(const struct hv_cpu *cpu)
{
    return cpu->slot[HV_SLOT_SEG_BASE + HV_SEG_CS];
}

/* Guest physical address of a fetch. A fault is met again by the run loop, at an instruction's edge;
 * until then vcpu->fault is nobody's. */
static bool fetch_gpa(struct hv_engine_vcpu *vcpu, uint64_t gva, hv_gpa *gpa_out)
{
    const uint8_t *host;

    return soft_tlb_lookup_fetch(&vcpu->view[SOFT_TLB_EXEC], vcpu->tlb_id, gva, gpa_out) ||
           soft_fetch_page(vcpu, gva, gpa_out, &host) == 0;
}

/* Of blocks at one address, the one whose second page is the present one. */
static const struct soft_block *pick(struct hv_engine_vcpu *vcpu, const struct soft_block *block,
                                     uint64_t linear)
{
    while (block && soft_block_crosses(block)) {
        uint64_t second = (linear & HV_PAGE_MASK) + HV_PAGE_SIZE;
        hv_gpa gpa;

        if (!fetch_gpa(vcpu, second, &gpa)) {
            return NULL;
        }
        if (hv_gpa_to_gfn(gpa).v == block->second_gfn) {
            return block;
        }
        block = soft_code_find_next(block);
    }
    return block;
}

static const struct soft_block *block_at(struct hv_engine_vcpu *vcpu, uint64_t rip)
{
    uint32_t key = vcpu->key;
    uint64_t linear = rip + code_base(vcpu->cpu);
    hv_gpa gpa;

    if ((key & SOFT_KEY_MODE) != SOFT_MODE_64) {
        linear &= UINT32_MAX;
    }
    if (!fetch_gpa(vcpu, linear, &gpa)) {
        return NULL;
    }
    return pick(vcpu, soft_code_find(vcpu->domain->code, gpa, key), linear);
}

static bool inside_limit(const struct hv_engine_vcpu *vcpu, uint64_t rip,
                         const struct soft_block *block)
{
    const struct hv_segment *cs = &vcpu->cpu->seg[HV_SEG_CS];

    return (vcpu->key & SOFT_KEY_FLAT) ||
           (rip <= cs->limit && block->code_bytes - 1u <= cs->limit - rip);
}

const struct soft_uop *soft_jump_find(struct hv_engine_vcpu *vcpu, uint64_t rip)
{
    const struct soft_block *block = block_at(vcpu, rip);

    if (!block || !inside_limit(vcpu, rip, block)) {
        return NULL;
    }
    put(vcpu, rip, block->uop);
    return block->uop;
}

const struct soft_uop *soft_jump_onward(struct hv_engine_vcpu *vcpu, uint64_t rip)
{
    return HV_UNLIKELY(vcpu->trace_blocks) ? NULL : soft_jump_find(vcpu, rip);
}

const struct soft_uop *soft_jump_link(struct hv_engine_vcpu *vcpu, uint64_t rip,
                                      const struct soft_uop *branch, enum soft_link_index which)
{
    const struct soft_uop *to = soft_jump_onward(vcpu, rip);

    if (to) {
        soft_code_link(vcpu->domain->code, branch, which, to);
    }
    return to;
}

/* ---- Mode ------------------------------------------------------------------------------------- */

static bool is_flat(const struct hv_segment *segment)
{
    const uint32_t wanted = HV_SEG_ATTR_P | HV_SEG_ATTR_S;

    return segment->base == 0 && segment->limit == UINT32_MAX &&
           (segment->attr & (wanted | HV_SEG_ATTR_UNUSABLE)) == wanted;
}

static bool is_flat_data(const struct hv_segment *segment)
{
    const uint32_t kind = HV_SEG_ATTR_CODE | HV_SEG_ATTR_WRITABLE | HV_SEG_ATTR_EXPAND_DOWN;

    return is_flat(segment) && (segment->attr & kind) == HV_SEG_ATTR_WRITABLE;
}

/* 32-bit code in which an offset is a linear address that needs no check. */
static bool is_flat32(const struct hv_cpu *cpu)
{
    return hv_cpu_protected(cpu) && !hv_cpu_v86(cpu) && is_flat(&cpu->seg[HV_SEG_CS]) &&
           (cpu->seg[HV_SEG_CS].attr & HV_SEG_ATTR_WRITABLE) &&
           (cpu->seg[HV_SEG_SS].attr & HV_SEG_ATTR_DB) && is_flat_data(&cpu->seg[HV_SEG_SS]) &&
           is_flat_data(&cpu->seg[HV_SEG_DS]) && is_flat_data(&cpu->seg[HV_SEG_ES]);
}

static uint32_t mode_key(const struct hv_cpu *cpu)
{
    if (hv_cpu_code64(cpu)) {
        return SOFT_MODE_64 | SOFT_KEY_FLAT;
    }
    if (!(cpu->seg[HV_SEG_CS].attr & HV_SEG_ATTR_DB)) {
        return SOFT_MODE_16;
    }
    return SOFT_MODE_32 | (is_flat32(cpu) ? SOFT_KEY_FLAT : 0);
}

void soft_jump_refresh(struct hv_engine_vcpu *vcpu)
{
    struct hv_cpu *cpu = vcpu->cpu;
    uint32_t key = mode_key(cpu) | (uint32_t)cpu->cpl << SOFT_KEY_CPL_SHIFT;

    if (hv_cpu_v86(cpu)) {
        key |= SOFT_KEY_V86;
    }
    if (!(cpu->cr0 & (HV_CR0_EM | HV_CR0_TS)) && (cpu->cr4 & HV_CR4_OSFXSR)) {
        key |= SOFT_KEY_SSE;
    }
    cpu->slot[HV_SLOT_ZERO] = 0;
    cpu->slot[SOFT_SLOT_RIP_MASK] = hv_cpu_code64(cpu) ? UINT64_MAX : UINT32_MAX;
    vcpu->key = key;
    soft_tlb_set_mode(vcpu);
    soft_jump_restamp(vcpu);
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * From bytes to a block: what to decode, which flags are dead, publication, and running uncached
 * where a page cannot be sealed.
 */
#include "engine/soft/translate-private.h"

#include "engine/soft/access.h"
#include "engine/soft/interp.h"
#include "engine/soft/jump.h"
#include "engine/soft/ram.h"

#include "base/alloc.h"
#include "base/assert.h"

#include <errno.h>

/* How often a block is built again because of stores to its page, before it runs uncached. */
#define BUILD_ATTEMPTS 8u

/* Where the bytes of a block come from. */
struct source {
    hv_gpa gpa;
    const uint8_t *host;
    uint64_t second_gfn;
    unsigned first_bytes; /* of code[] that lie in the first page */
    unsigned available;   /* in all */
};

int soft_translator_create(struct soft_translator **translator_out)
{
    struct soft_translator *t = hv_alloc_aligned(HV_CACHE_LINE, sizeof(*t));

    *translator_out = t;
    if (!t) {
        return -ENOMEM;
    }
    return soft_interpret(NULL, NULL, &t->label);
}

void soft_translator_destroy(struct soft_translator *translator)
{
    hv_free(translator);
}

/* ---- Decoding --------------------------------------------------------------------------------- */

/* An instruction that cannot be executed is one that raises: its function says what. */
static void make_bad(struct soft_insn *insn, enum soft_decode_result result)
{
    uint8_t length = insn->length ? insn->length : 1;

    *insn = (struct soft_insn){
        .op = result == SOFT_DECODE_TOO_LONG ? SOFT_BAD_TOO_LONG : SOFT_BAD_UNDEFINED,
        .length = length,
    };
}

/* What the decoder leaves to its users: the CPUID policy and privilege (SDM 2, "Exceptions"). */
static void check_allowed(const struct soft_translator *t, struct soft_insn *insn)
{
    const struct soft_isa_row *row = soft_isa_row(insn->row);
    unsigned cpl = (t->key & SOFT_KEY_CPL) >> SOFT_KEY_CPL_SHIFT;

    if (!hv_cpu_has(t->vcpu->cpu, (enum hv_feature)row->feature) ||
        (cpl != 0 && (insn->op == SOFT_OP_CLAC || insn->op == SOFT_OP_STAC))) {
        make_bad(insn, SOFT_DECODE_UD);
    } else if ((row->flags & SOFT_ISA_PRIVILEGED) && cpl != 0) {
        *insn = (struct soft_insn){.op = SOFT_BAD_PRIVILEGE, .length = insn->length};
    }
}

/* Decode the next instruction. False: it does not belong to this block any more. */
static bool decode_next(struct soft_translator *t, const struct source *source, unsigned *at)
{
    struct soft_insn *insn = &t->insn[t->insns];
    enum soft_decode_result result = soft_decode((enum soft_mode)(t->key & SOFT_KEY_MODE),
                                                 &t->bytes[*at], source->available - *at, insn);

    if (result == SOFT_DECODE_SHORT) {
        return false;
    }
    if (result != SOFT_DECODE_OK) {
        make_bad(insn, result);
    } else if (*at + insn->length > source->first_bytes && t->insns > 0) {
        return false;
    } else {
        check_allowed(t, insn);
    }
    t->offset[t->insns] = (uint16_t)(hv_gpa_offset(source->gpa) + *at);
    *at += insn->length;
    t->insns++;
    return true;
}

/* Returns the code bytes of the block; 0 when not even one instruction is whole. */
static unsigned decode_block(struct soft_translator *t, const struct source *source)
{
    unsigned limit = t->key & SOFT_KEY_STEP ? 1 : SOFT_BLOCK_INSNS;
    unsigned at = 0;

    t->insns = 0;
    t->ended = false;
    while (t->insns < limit && at < source->first_bytes && at < SOFT_BLOCK_BYTES && !t->ended &&
           decode_next(t, source, &at)) {
        t->ended = soft_insn_ends(&t->insn[t->insns - 1]);
    }
    return at;
}

/* ---- Flags ------------------------------------------------------------------------------------ */

static unsigned flags_read_by(const struct soft_insn *insn)
{
    const struct soft_isa_row *row = soft_isa_row(insn->row);
    bool shift = insn->op == SOFT_OP_SHL || insn->op == SOFT_OP_SHR || insn->op == SOFT_OP_SAR ||
                 insn->op == SOFT_OP_ROL || insn->op == SOFT_OP_ROR;

    /* The table says that flags survive a shift by 0; a constant count is known not to be 0. */
    if (shift && soft_is_imm(&insn->operand[1]) && soft_shift_count(insn) != 0) {
        return 0;
    }
    return row->flags_read;
}

/* What an instruction surely replaces. The bit tests leave what the manual calls undefined alone. */
static unsigned flags_replaced_by(const struct soft_insn *insn)
{
    const struct soft_isa_row *row = soft_isa_row(insn->row);
    bool bit = insn->op == SOFT_OP_BT || insn->op == SOFT_OP_BTS || insn->op == SOFT_OP_BTR ||
               insn->op == SOFT_OP_BTC;

    return row->flags_written & HV_RFLAGS_ARITH & ~(bit ? row->flags_undefined : 0u);
}

/*
 * Backwards over the block: an instruction's flags are dead when all of them are written again by
 * later ones before anything reads them, faults, or leaves the block.
 */
static void find_dead_flags(struct soft_translator *t)
{
    unsigned needed = HV_RFLAGS_ARITH;

    for (unsigned i = t->insns; i-- > 0;) {
        const struct soft_insn *insn = &t->insn[i];

        t->flags_dead[i] = !(soft_isa_row(insn->row)->flags_written & needed);
        if (!soft_insn_is_quiet(insn)) {
            needed = HV_RFLAGS_ARITH;
            continue;
        }
        needed = (needed & ~flags_replaced_by(insn)) | flags_read_by(insn);
    }
}

/* ---- Emission --------------------------------------------------------------------------------- */

static void emit_one(struct soft_translator *t, const struct soft_insn *insn)
{
    soft_emitter *emit = NULL;

    if (!(insn->flags & SOFT_INSN_LOCK)) {
        emit = soft_emitter_alu(insn->op);
        emit = emit ? emit : soft_emitter_data(insn->op);
        emit = emit ? emit : soft_emitter_branch(insn->op);
    }
    if (!emit || !emit(t, insn)) {
        soft_emit_general(t, insn);
    }
}

static void emit_block(struct soft_translator *t, bool fixed)
{
    t->uops = 0;
    t->calls = 0;
    t->failed = 0;
    t->closed = false;
    memset(&t->links, 0, sizeof(t->links));
    t->links.fixed = fixed || !(t->key & SOFT_KEY_FLAT);
    for (t->at = 0; t->at < t->insns; t->at++) {
        const struct soft_insn *insn = &t->insn[t->at];

        if (!soft_emit_fused(t, insn)) {
            unsigned first = t->uops;

            emit_one(t, insn);
            soft_emit_join_move(t, first);
        }
    }
    if (!t->closed) {
        t->at = t->insns - 1;
        soft_emit_fall(t);
    }
}

static struct soft_block_plan make_plan(const struct soft_translator *t,
                                        const struct source *source, unsigned code_bytes)
{
    bool crosses = code_bytes > source->first_bytes;

    return (struct soft_block_plan){
        .gpa = source->gpa,
        .second_gfn = crosses ? source->second_gfn : UINT64_MAX,
        .key = t->key,
        .code_bytes = code_bytes,
        .insns = t->insns,
        .uop = t->uop,
        .uops = t->uops,
        .links = &t->links,
        .call = t->call,
        .calls = t->calls,
        .function = t->label[soft_uop_function()],
    };
}

/* ---- Fetching --------------------------------------------------------------------------------- */

static uint64_t linear_of(const struct hv_engine_vcpu *vcpu, uint64_t rip, uint32_t key)
{
    uint64_t linear = rip + vcpu->cpu->slot[HV_SLOT_SEG_BASE + HV_SEG_CS];

    return (key & SOFT_KEY_MODE) == SOFT_MODE_64 ? linear : linear & UINT32_MAX;
}

/* Bytes from @rip that CS's limit lets through; 0 raises. */
static uint64_t inside_limit(const struct hv_engine_vcpu *vcpu, uint64_t rip, uint32_t key)
{
    const struct hv_segment *cs = &vcpu->cpu->seg[HV_SEG_CS];

    if ((key & SOFT_KEY_MODE) == SOFT_MODE_64) {
        return HV_PAGE_SIZE;
    }
    return rip > cs->limit ? 0 : (uint64_t)cs->limit - rip + 1;
}

/*
 * Copy the code: of the first page what a block may span, and when the first instruction does not
 * end in it, the rest from the second page.
 */
static int fetch(struct hv_engine_vcpu *vcpu, uint64_t rip, uint32_t key, struct source *source)
{
    struct soft_translator *t = vcpu->translator;
    uint64_t linear = linear_of(vcpu, rip, key);
    uint64_t limit = inside_limit(vcpu, rip, key);
    uint64_t bytes = HV_PAGE_SIZE - (linear & ~HV_PAGE_MASK);
    struct soft_insn insn;
    hv_gpa gpa;
    int rc;

    if (limit == 0 || ((key & SOFT_KEY_MODE) == SOFT_MODE_64 && !hv_canonical(linear))) {
        vcpu->fault = (struct hv_fault){.vector = HV_VECTOR_GP, .has_error = true};
        return HV_FAULTED;
    }
    rc = soft_fetch_page(vcpu, linear, &source->gpa, &source->host);
    if (rc) {
        return rc;
    }
    bytes = bytes < limit ? bytes : limit;
    bytes = bytes < SOFT_BLOCK_BYTES ? bytes : SOFT_BLOCK_BYTES;
    soft_ram_copy_out(t->bytes, source->host, bytes);
    source->first_bytes = source->available = (unsigned)bytes;
    source->second_gfn = UINT64_MAX;
    if (bytes >= SOFT_INSN_MAX || soft_decode((enum soft_mode)(key & SOFT_KEY_MODE), t->bytes,
                                              bytes, &insn) != SOFT_DECODE_SHORT) {
        return 0;
    }
    if (limit == bytes) {
        vcpu->fault = (struct hv_fault){.vector = HV_VECTOR_GP, .has_error = true};
        return HV_FAULTED;
    }
    rc = soft_fetch_page(vcpu, (linear & HV_PAGE_MASK) + HV_PAGE_SIZE, &gpa, &source->host);
    if (rc) {
        return rc;
    }
    limit -= bytes;
    limit = limit < SOFT_INSN_MAX ? limit : SOFT_INSN_MAX;
    soft_ram_copy_out(&t->bytes[bytes], source->host, limit);
    source->available += (unsigned)limit;
    source->second_gfn = hv_gpa_to_gfn(gpa).v;
    return 0;
}

/* ---- Publication ------------------------------------------------------------------------------ */

/* Go OUTSIDE for @work, then come back: 0, or SOFT_RESULT_INTERRUPTED while requests stand. */
static int come_back(struct hv_engine_vcpu *vcpu, int rc)
{
    return soft_enter(vcpu) != 0 ? (int)SOFT_RESULT_INTERRUPTED : rc;
}

/* 0: ready; -EBUSY: uncached; -EAGAIN: pointers are stale, begin again. */
static int open_page(struct hv_engine_vcpu *vcpu, uint64_t gfn, uint64_t *serial_out)
{
    struct soft_code *code = vcpu->domain->code;
    int rc = soft_code_open(code, (hv_gfn){gfn}, serial_out);

    if (rc != -EAGAIN) {
        return rc;
    }
    hv_doorbell_leave(vcpu->bell);
    rc = soft_code_seal(code, (hv_gfn){gfn}, vcpu->holder);
    soft_tlb_drop_writes_to(vcpu, (hv_gfn){gfn});
    return come_back(vcpu, rc ? rc : -EAGAIN);
}

static int open_pages(struct hv_engine_vcpu *vcpu, const struct source *source, uint64_t serial[2])
{
    int rc;

    /* A block stands once in a page's list, for one range of it. */
    if (source->second_gfn == hv_gpa_to_gfn(source->gpa).v) {
        return -EBUSY;
    }
    rc = open_page(vcpu, hv_gpa_to_gfn(source->gpa).v, &serial[0]);

    if (!rc && source->second_gfn != UINT64_MAX) {
        rc = open_page(vcpu, source->second_gfn, &serial[1]);
    }
    return rc;
}

/* One instruction, in a block of the translator's own. */
static int make_uncached(struct hv_engine_vcpu *vcpu, const struct source *source,
                         const struct soft_uop **uop_out)
{
    struct soft_translator *t = vcpu->translator;
    struct soft_block *block = (struct soft_block *)(void *)t->scratch;
    struct soft_block_plan plan;
    unsigned bytes;

    t->key |= SOFT_KEY_STEP;
    bytes = decode_block(t, source);
    find_dead_flags(t);
    emit_block(t, true);
    plan = make_plan(t, source, bytes);
    HV_BUG_ON(soft_block_bytes(&plan) > sizeof(t->scratch));
    soft_block_fill(block, &plan);
    *uop_out = block->uop;
    return t->failed;
}

static int make_cached(struct hv_engine_vcpu *vcpu, const struct source *source,
                       const uint64_t serial[2], const struct soft_uop **uop_out)
{
    struct soft_translator *t = vcpu->translator;
    const struct soft_block *block;
    struct soft_block_plan plan;
    unsigned bytes = decode_block(t, source);
    int rc;

    find_dead_flags(t);
    emit_block(t, false);
    if (t->failed) {
        return t->failed;
    }
    plan = make_plan(t, source, bytes);
    plan.serial[0] = serial[0];
    plan.serial[1] = serial[1];
    rc = soft_code_insert(vcpu->domain->code, &plan, &block);
    hv_count(&vcpu->counters.blocks, 1);
    if (rc == -ENOSPC) {
        hv_doorbell_leave(vcpu->bell);
        soft_jumps_clear(vcpu->jumps);
        soft_code_recycle(vcpu->domain->code, vcpu->index);
        return come_back(vcpu, -EAGAIN);
    }
    if (!rc) {
        *uop_out = block->uop;
    }
    return rc;
}

/*
 * The domain has used up its thunks: all begin with none. While they are closed no vCPU asks for
 * one; when the cache of blocks is empty none holds one (D4).
 */
static HV_COLD int renew_thunks(struct hv_engine_vcpu *vcpu)
{
    struct hv_engine_domain *domain = vcpu->domain;
    int rc = 0;

    hv_doorbell_leave(vcpu->bell);
    soft_jumps_clear(vcpu->jumps);
    /* Else another vCPU is at it, or has done it. */
    if (soft_thunks_close(domain->thunks)) {
        if (soft_code_empty(domain->code, vcpu->index)) {
            rc = soft_thunks_reset(domain->thunks);
            soft_code_reopen(domain->code);
        }
        soft_thunks_open(domain->thunks);
    }
    return rc ? rc : come_back(vcpu, -EAGAIN);
}

static int translate_uncached(struct hv_engine_vcpu *vcpu, uint64_t rip, uint32_t key,
                              const struct soft_uop **uop_out)
{
    struct source source;
    int rc;

    do {
        vcpu->translator->key = key;
        rc = fetch(vcpu, rip, key, &source);
        if (rc) {
            return rc;
        }
        rc = make_uncached(vcpu, &source, uop_out);
        if (rc == -ENOSPC) {
            rc = renew_thunks(vcpu);
        }
    } while (rc == -EAGAIN);
    return rc;
}

int soft_translate(struct hv_engine_vcpu *vcpu, uint64_t rip, uint32_t key,
                   const struct soft_uop **uop_out)
{
    struct soft_translator *t = vcpu->translator;
    struct source source;
    int rc;

    t->vcpu = vcpu;
    for (unsigned attempt = 0; attempt < BUILD_ATTEMPTS; attempt++) {
        uint64_t serial[2] = {0, 0};

        t->key = key;
        rc = fetch(vcpu, rip, key, &source);
        if (rc) {
            return rc;
        }
        rc = open_pages(vcpu, &source, serial);
        if (!rc) {
            /* Only what is read after the serial counts. */
            rc = fetch(vcpu, rip, key, &source);
            if (rc) {
                return rc;
            }
            rc = make_cached(vcpu, &source, serial, uop_out);
        }
        if (rc == -ENOSPC) {
            rc = renew_thunks(vcpu);
        }
        if (rc == -EBUSY) {
            break;
        }
        if (rc != -EAGAIN) {
            return rc;
        }
    }
    return translate_uncached(vcpu, rip, key, uop_out);
}

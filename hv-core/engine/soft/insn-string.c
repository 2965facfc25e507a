/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * String instructions, repeated or not. MOVS and STOS run a page's worth at a time as the host's own
 * `rep` of the same element size; the others go element by element.
 *
 * A repeated instruction is interruptible: registers say how far it came, and it leaves to the run
 * loop with RIP still on itself when the doorbell rings, after a bounded amount of work, or when a
 * store hit code. With TF set each iteration is a step (SDM 2, REP; SDM 3A 17.3.1.4).
 */
#include "engine/soft/insn.h"

#include "engine/soft/access.h"
#include "engine/soft/io.h"
#include "engine/soft/ram.h"

/*
 * Work after which a repeated instruction leaves to the run loop, which looks at the budget: 2^18
 * elements of memory, at most 2 MiB, or 2^12 that went to a device. The doorbell is looked at after
 * each step.
 */
#define WORK_AT_ONCE (UINT64_C(1) << 18)
#define DEVICE_WORK  64u

struct string {
    struct hv_engine_vcpu *vcpu;
    struct hv_cpu *cpu;
    unsigned bytes;         /* of an element */
    unsigned address_bytes; /* of rSI, rDI, rCX */
    uint64_t mask;
    bool down;
    bool repeated;
    bool flat; /* offsets are linear addresses but for FS and GS */
    enum hv_seg source;
    uint64_t step; /* elements: the most for the next step, which says how many it did */
    uint64_t work; /* since the instruction was entered */
};

static struct string string_of(struct hv_engine_vcpu *vcpu, const struct soft_call *call)
{
    const struct soft_insn *insn = &call->insn;

    return (struct string){
        .vcpu = vcpu,
        .cpu = vcpu->cpu,
        .bytes = insn->operand_bytes,
        .address_bytes = insn->address_bytes,
        .mask = hv_bytes_mask(insn->address_bytes),
        .down = vcpu->cpu->rflags & HV_RFLAGS_DF,
        .repeated = insn->flags & (SOFT_INSN_REP | SOFT_INSN_REPNE),
        .flat = vcpu->key & SOFT_KEY_FLAT,
        .source = (enum hv_seg)insn->mem.segment,
    };
}

static uint64_t count_of(const struct string *s)
{
    return s->repeated ? s->cpu->slot[HV_REG_RCX] & s->mask : 1;
}

/* Linear address of the element at @reg. */
static int address_of(const struct string *s, enum hv_reg reg, enum hv_seg seg, bool write,
                      uint64_t *gva_out)
{
    uint64_t offset = s->cpu->slot[reg] & s->mask;

    if ((s->vcpu->key & SOFT_KEY_MODE) == SOFT_MODE_64 ||
        (s->flat && seg != HV_SEG_FS && seg != HV_SEG_GS && seg != HV_SEG_CS)) {
        *gva_out = offset + s->cpu->slot[(unsigned)HV_SLOT_SEG_BASE + seg];
        return 0;
    }
    return soft_operand_linear(s->vcpu, seg, offset, s->bytes, write, gva_out);
}

static void advance(const struct string *s, enum hv_reg reg, uint64_t elements)
{
    uint64_t distance = elements * s->bytes;
    uint64_t value = s->cpu->slot[reg];

    value = s->down ? value - distance : value + distance;
    soft_set(s->cpu, reg * 8u, s->address_bytes, value);
}

static void count_down(struct string *s, uint64_t elements)
{
    s->work += soft_insn_pending(s->vcpu) ? elements * DEVICE_WORK : elements;
    /* Each iteration is an instruction to devices. */
    soft_insn_done(s->vcpu);
    if (s->repeated) {
        soft_set(s->cpu, HV_REG_RCX * 8u, s->address_bytes, s->cpu->slot[HV_REG_RCX] - elements);
    }
}

/* After some elements: go on, or leave with the rest still to do. */
static bool must_pause(const struct string *s)
{
    return s->vcpu->leave_block || s->vcpu->watch_hits || s->work >= WORK_AT_ONCE ||
           (s->cpu->rflags & HV_RFLAGS_TF) || hv_load_relaxed(&s->vcpu->bell->exit_request) != 0;
}

/* Whole elements from @gva to the end of its page, in the string's direction. */
static uint64_t elements_in_page(const struct string *s, uint64_t gva)
{
    uint64_t offset = gva & ~HV_PAGE_MASK;

    if (offset + s->bytes > HV_PAGE_SIZE) {
        return 0;
    }
    return s->down ? offset / s->bytes + 1 : (HV_PAGE_SIZE - offset) / s->bytes;
}

/* And before the offset in @reg would wrap round. */
static uint64_t elements_before_wrap(const struct string *s, enum hv_reg reg)
{
    uint64_t offset = s->cpu->slot[reg] & s->mask;

    return s->down ? offset / s->bytes + 1 : (s->mask - offset) / s->bytes + 1;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static int host_place(const struct string *s, uint64_t gva, enum soft_tlb_kind kind,
                      void **place_out)
{
    struct hv_engine_vcpu *vcpu = s->vcpu;
    unsigned bytes;

    *place_out = soft_tlb_lookup(&vcpu->view[kind], vcpu->tlb_id, gva, s->bytes);
    return *place_out ? 0 : soft_page_span(vcpu, gva, kind, place_out, &bytes);
}

/* ---- MOVS ------------------------------------------------------------------------------------- */

static int move_one(const struct string *s, uint64_t from, uint64_t to)
{
    uint64_t value;
    int rc = soft_load(s->vcpu, from, s->bytes, s->source, &value);

    return rc ? rc : soft_store(s->vcpu, to, s->bytes, HV_SEG_ES, value);
}

/* Move up to s->step elements, at least one. */
static int move_some(struct string *s, uint64_t from, uint64_t to)
{
    uint64_t elements = s->step;
    void *from_place, *to_place;
    int rc;

    s->step = 1;
    elements = smaller(elements, elements_in_page(s, from));
    elements = smaller(elements, elements_in_page(s, to));
    if (!s->flat || elements < 2) {
        return move_one(s, from, to);
    }
    elements = smaller(elements, elements_before_wrap(s, HV_REG_RSI));
    elements = smaller(elements, elements_before_wrap(s, HV_REG_RDI));
    rc = host_place(s, from, SOFT_TLB_READ, &from_place);
    if (!rc) {
        rc = host_place(s, to, SOFT_TLB_WRITE, &to_place);
    }
    if (rc) {
        return rc;
    }
    if (!from_place || !to_place) {
        return move_one(s, from, to);
    }
    if (s->down) {
        soft_ram_movs_down(to_place, from_place, elements, s->bytes);
    } else {
        soft_ram_movs_up(to_place, from_place, elements, s->bytes);
    }
    s->step = elements;
    return 0;
}

static int movs_some(struct string *s)
{
    uint64_t from, to;
    int rc = address_of(s, HV_REG_RSI, s->source, false, &from);

    if (!rc) {
        rc = address_of(s, HV_REG_RDI, HV_SEG_ES, true, &to);
    }
    if (!rc) {
        rc = move_some(s, from, to);
    }
    if (!rc) {
        advance(s, HV_REG_RSI, s->step);
        advance(s, HV_REG_RDI, s->step);
    }
    return rc;
}

/* ---- STOS ------------------------------------------------------------------------------------- */

static int fill_one(const struct string *s, uint64_t to)
{
    uint64_t value = s->cpu->slot[HV_REG_RAX] & hv_bytes_mask(s->bytes);

    return soft_store(s->vcpu, to, s->bytes, HV_SEG_ES, value);
}

/* As move_some(). */
static int fill_some(struct string *s, uint64_t to)
{
    uint64_t elements = smaller(s->step, elements_in_page(s, to));
    uint64_t value = s->cpu->slot[HV_REG_RAX];
    void *place;
    int rc;

    s->step = 1;
    if (!s->flat || elements < 2) {
        return fill_one(s, to);
    }
    elements = smaller(elements, elements_before_wrap(s, HV_REG_RDI));
    rc = host_place(s, to, SOFT_TLB_WRITE, &place);
    if (rc) {
        return rc;
    }
    if (!place) {
        return fill_one(s, to);
    }
    if (s->down) {
        soft_ram_stos_down(place, value, elements, s->bytes);
    } else {
        soft_ram_stos_up(place, value, elements, s->bytes);
    }
    s->step = elements;
    return 0;
}

static int stos_some(struct string *s)
{
    uint64_t to;
    int rc = address_of(s, HV_REG_RDI, HV_SEG_ES, true, &to);

    if (!rc) {
        rc = fill_some(s, to);
    }
    if (!rc) {
        advance(s, HV_REG_RDI, s->step);
    }
    return rc;
}

/* ---- One at a time ---------------------------------------------------------------------------- */

/* Flags of a - b in the element's width. */
static uint16_t compare(uint64_t a, uint64_t b, unsigned bytes)
{
    uint32_t f;

    switch (bytes) {
    case 1:
        __asm__("cmpb %b2, %b1\n\t" SOFT_FLAGS_TAKE : "=a"(f) : "q"(a), "q"(b) : "cc");
        break;
    case 2:
        __asm__("cmpw %w2, %w1\n\t" SOFT_FLAGS_TAKE : "=a"(f) : "r"(a), "r"(b) : "cc");
        break;
    case 4:
        __asm__("cmpl %k2, %k1\n\t" SOFT_FLAGS_TAKE : "=a"(f) : "r"(a), "r"(b) : "cc");
        break;
    default:
        __asm__("cmpq %q2, %q1\n\t" SOFT_FLAGS_TAKE : "=a"(f) : "r"(a), "r"(b) : "cc");
        break;
    }
    return (uint16_t)f;
}

static int lods_one(struct string *s)
{
    uint64_t from, value;
    int rc = address_of(s, HV_REG_RSI, s->source, false, &from);

    if (!rc) {
        rc = soft_load(s->vcpu, from, s->bytes, s->source, &value);
    }
    if (!rc) {
        soft_set(s->cpu, HV_REG_RAX * 8u, s->bytes, value);
        advance(s, HV_REG_RSI, 1);
    }
    return rc;
}

static int scas_one(struct string *s)
{
    uint64_t to, value;
    int rc = address_of(s, HV_REG_RDI, HV_SEG_ES, false, &to);

    if (!rc) {
        rc = soft_load(s->vcpu, to, s->bytes, HV_SEG_ES, &value);
    }
    if (!rc) {
        s->cpu->arith = compare(soft_get(s->cpu, HV_REG_RAX * 8u, s->bytes), value, s->bytes);
        advance(s, HV_REG_RDI, 1);
    }
    return rc;
}

static int cmps_one(struct string *s)
{
    uint64_t from, to, a, b;
    int rc = address_of(s, HV_REG_RSI, s->source, false, &from);

    if (!rc) {
        rc = address_of(s, HV_REG_RDI, HV_SEG_ES, false, &to);
    }
    if (!rc) {
        rc = soft_load(s->vcpu, from, s->bytes, s->source, &a);
    }
    if (!rc) {
        rc = soft_load(s->vcpu, to, s->bytes, HV_SEG_ES, &b);
    }
    if (!rc) {
        s->cpu->arith = compare(a, b, s->bytes);
        advance(s, HV_REG_RSI, 1);
        advance(s, HV_REG_RDI, 1);
    }
    return rc;
}

/* The place is checked before the port is read: a device's answer is never lost. */
static int ins_one(struct string *s)
{
    struct hv_engine_vcpu *vcpu = s->vcpu;
    uint16_t port = soft_get2(s->cpu, HV_REG_RDX * 8u);
    uint64_t to, value = 0;
    int rc = address_of(s, HV_REG_RDI, HV_SEG_ES, true, &to);

    if (!rc) {
        rc = soft_io_check(vcpu, port, s->bytes);
    }
    if (!rc) {
        rc = vcpu->access.ops->probe_write(vcpu->access.context, (hv_gva){to}, s->bytes,
                                           HV_WALK_AS_CURRENT, &vcpu->fault);
    }
    if (!rc) {
        rc = soft_pio_read(vcpu, port, s->bytes, &value);
    }
    if (!rc) {
        rc = soft_store(vcpu, to, s->bytes, HV_SEG_ES, value);
    }
    if (!rc) {
        advance(s, HV_REG_RDI, 1);
    }
    return rc;
}

static int outs_one(struct string *s)
{
    struct hv_engine_vcpu *vcpu = s->vcpu;
    uint16_t port = soft_get2(s->cpu, HV_REG_RDX * 8u);
    uint64_t from, value;
    int rc = address_of(s, HV_REG_RSI, s->source, false, &from);

    if (!rc) {
        rc = soft_io_check(vcpu, port, s->bytes);
    }
    if (!rc) {
        rc = soft_load(vcpu, from, s->bytes, s->source, &value);
    }
    if (!rc) {
        rc = soft_pio_write(vcpu, port, s->bytes, value);
    }
    if (!rc) {
        advance(s, HV_REG_RSI, 1);
    }
    return rc;
}

/*
 * Leave in the middle. RF says so to whoever interrupts: it stands in the frames of all iterations
 * but the last, and keeps an instruction breakpoint from being met again (SDM 3B 17.3.1.1).
 */
static int leave_unfinished(const struct string *s)
{
    s->cpu->rflags |= HV_RFLAGS_RF;
    return SOFT_RESULT_LOOKUP;
}

/* ---- Repetition ------------------------------------------------------------------------------- */

enum string_kind {
    STRING_RUNS,     /* a step may do many elements */
    STRING_ONES,     /* a step does one */
    STRING_COMPARES, /* likewise, and REPE and REPNE look at ZF behind it */
};

static inline int run(struct hv_engine_vcpu *vcpu, const struct soft_call *call,
                      enum string_kind kind, int (*step)(struct string *s))
{
    struct string s = string_of(vcpu, call);
    bool many = kind == STRING_RUNS && !(s.cpu->rflags & HV_RFLAGS_TF);
    bool compares = kind == STRING_COMPARES && s.repeated;
    bool until = call->insn.flags & SOFT_INSN_REPNE;
    uint16_t arith = vcpu->cpu->arith;

    for (uint64_t count = count_of(&s); count > 0; count -= s.step) {
        int rc;

        if (s.work && must_pause(&s)) {
            return leave_unfinished(&s);
        }
        s.step = many ? count : 1;
        rc = step(&s);
        if (rc) {
            /* A comparison that faults leaves the flags it found, whatever it compared before (SDM 2,
             * REP). */
            s.cpu->arith = rc == HV_FAULTED ? arith : s.cpu->arith;
            return rc;
        }
        count_down(&s, s.step);
        if (compares && !(s.cpu->arith & SOFT_ARITH_ZF) != until) {
            break;
        }
    }
    return SOFT_RESULT_NEXT;
}

int soft_insn_movs(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    (void)gva;
    return run(vcpu, call, STRING_RUNS, movs_some);
}

int soft_insn_stos(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    (void)gva;
    return run(vcpu, call, STRING_RUNS, stos_some);
}

int soft_insn_lods(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    (void)gva;
    return run(vcpu, call, STRING_ONES, lods_one);
}

int soft_insn_scas(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    (void)gva;
    return run(vcpu, call, STRING_COMPARES, scas_one);
}

int soft_insn_cmps(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    (void)gva;
    return run(vcpu, call, STRING_COMPARES, cmps_one);
}

int soft_insn_ins(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    (void)gva;
    return run(vcpu, call, STRING_ONES, ins_one);
}

int soft_insn_outs(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    (void)gva;
    return run(vcpu, call, STRING_ONES, outs_one);
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Accesses that missed the fast path: any size, any alignment, any thing that stands there.
 *
 *     span_resolve   one or two pieces, each inside a page; all checks, nothing touched
 *     span_read      then their bytes, in order
 *     span_write     then stores: a device's first, because it may ask for a restart
 *
 * A20 is always on: the gate is not modelled, since no system of this century turns it off.
 */
#include "engine/soft/access-private.h"
#include "engine/soft/code.h"
#include "engine/soft/ram.h"
#include "engine/soft/tlb-private.h"
#include "engine/soft/watch.h"

static unsigned bytes_to_page_end(uint64_t gva)
{
    return (unsigned)(HV_PAGE_SIZE - (gva & ~HV_PAGE_MASK));
}

int soft_check_alignment(struct hv_engine_vcpu *vcpu, enum soft_tlb_mode mode, uint64_t gva,
                         unsigned bytes)
{
    /* SDM 3A 6.15, #AC: only accesses of CPL 3; implicit supervisor accesses are exempt. */
    if (HV_LIKELY(!vcpu->tlbs->alignment_checked) || mode != SOFT_TLB_USER) {
        return 0;
    }
    return soft_ram_scalar(bytes) && (gva & (bytes - 1)) ? soft_raise(vcpu, HV_VECTOR_AC) : 0;
}

uint64_t soft_next_page(const struct hv_engine_vcpu *vcpu, uint64_t gva)
{
    uint64_t next = soft_tlb_page(gva) + HV_PAGE_SIZE;

    /* Linear addresses wrap at 4 GiB outside 64-bit mode (SDM 3A 3.3.1); in compatibility mode,
     * implicit accesses through the system tables do not. */
    if (!hv_cpu_code64(vcpu->cpu) && (!hv_cpu_long_mode(vcpu->cpu) || gva <= UINT32_MAX)) {
        return (uint32_t)next;
    }
    return next;
}

static int resolve_crossing(struct hv_engine_vcpu *vcpu, enum soft_tlb_mode mode,
                            enum soft_tlb_kind kind, uint64_t gva, struct soft_span *span)
{
    uint64_t second = soft_next_page(vcpu, gva);
    int result;

    if (hv_cpu_long_mode(vcpu->cpu) && (!hv_canonical(gva) || !hv_canonical(second))) {
        return soft_raise(vcpu, HV_VECTOR_GP);
    }
    if (kind == SOFT_TLB_WRITE) {
        /* Neither page gets dirty when the other one faults. */
        result = soft_probe(vcpu, mode, gva);
        if (result) {
            return result;
        }
        result = soft_probe(vcpu, mode, second);
        if (result) {
            return result;
        }
    }
    result = soft_resolve(vcpu, mode, kind, gva, &span->piece[0]);
    if (result) {
        return result;
    }
    return soft_resolve(vcpu, mode, kind, second, &span->piece[1]);
}

int soft_span_resolve(struct hv_engine_vcpu *vcpu, enum soft_tlb_mode mode, enum soft_tlb_kind kind,
                      uint64_t gva, unsigned bytes, struct soft_span *span_out)
{
    unsigned first = bytes_to_page_end(gva);

    if (bytes <= first) {
        span_out->pieces = 1;
        span_out->piece[0].bytes = bytes;
        return soft_resolve(vcpu, mode, kind, gva, &span_out->piece[0]);
    }
    span_out->pieces = 2;
    span_out->piece[0].bytes = first;
    span_out->piece[1].bytes = bytes - first;
    return resolve_crossing(vcpu, mode, kind, gva, span_out);
}

int soft_span_read(struct hv_engine_vcpu *vcpu, const struct soft_span *span, void *to)
{
    for (unsigned i = 0; i < span->pieces; i++) {
        const struct soft_piece *piece = &span->piece[i];

        if (piece->kind == SOFT_PIECE_DEVICE) {
            int result = soft_device_read(vcpu, piece->gpa, piece->bytes, to);

            if (result) {
                return result;
            }
        } else {
            soft_ram_read(to, piece->host, piece->bytes);
        }
        to = (char *)to + piece->bytes;
    }
    return 0;
}

void soft_piece_stored(struct hv_engine_vcpu *vcpu, const struct soft_piece *piece)
{
    hv_memory_note_write(vcpu->memory, hv_gpa_to_gfn(piece->gpa));
    /* The page may hold no code any more: the next store finds its leaf writable and enters it. */
    (void)soft_code_store(vcpu->domain->code, vcpu, piece->gpa, piece->bytes);
}

static int piece_write(struct hv_engine_vcpu *vcpu, const struct soft_piece *piece,
                       const void *from)
{
    switch (piece->kind) {
    case SOFT_PIECE_RAM:
        soft_ram_write(piece->host, from, piece->bytes);
        break;
    case SOFT_PIECE_CODE:
        /* The store first: a block that another vCPU decodes between the two is either of the new
         * bytes or found by soft_code_store(). The other order would leave one of the old bytes. */
        soft_ram_write(piece->host, from, piece->bytes);
        soft_piece_stored(vcpu, piece);
        break;
    case SOFT_PIECE_ROM:
        break;
    case SOFT_PIECE_DEVICE:
        return soft_device_write(vcpu, piece->gpa, piece->bytes, from);
    }
    return 0;
}

int soft_span_write(struct hv_engine_vcpu *vcpu, const struct soft_span *span, const void *from)
{
    bool backwards = span->pieces == 2 && span->piece[1].kind == SOFT_PIECE_DEVICE;

    for (unsigned i = 0; i < span->pieces; i++) {
        unsigned which = backwards ? 1 - i : i;
        size_t offset = which ? span->piece[0].bytes : 0;
        int result = piece_write(vcpu, &span->piece[which], (const char *)from + offset);

        if (result) {
            return result;
        }
    }
    return 0;
}

/* @linear is an address as soft_linear() gives it, here and below. */
static inline int read_linear(struct hv_engine_vcpu *vcpu, uint64_t linear, void *to,
                              unsigned bytes)
{
    struct soft_span span;
    int result = soft_span_resolve(vcpu, vcpu->mode, SOFT_TLB_READ, linear, bytes, &span);

    soft_watch(vcpu, linear, bytes, SOFT_TLB_READ);
    return result ? result : soft_span_read(vcpu, &span, to);
}

static inline int write_linear(struct hv_engine_vcpu *vcpu, uint64_t linear, const void *from,
                               unsigned bytes)
{
    struct soft_span span;
    int result = soft_span_resolve(vcpu, vcpu->mode, SOFT_TLB_WRITE, linear, bytes, &span);

    soft_watch(vcpu, linear, bytes, SOFT_TLB_WRITE);
    return result ? result : soft_span_write(vcpu, &span, from);
}

int soft_read_slow(struct hv_engine_vcpu *vcpu, uint64_t gva, unsigned bytes, uint64_t *value_out)
{
    uint64_t linear = soft_linear(vcpu, gva);
    int result = soft_check_alignment(vcpu, vcpu->mode, linear, bytes);

    *value_out = 0;
    return result ? result : read_linear(vcpu, linear, value_out, bytes);
}

int soft_write_slow(struct hv_engine_vcpu *vcpu, uint64_t gva, unsigned bytes, uint64_t value)
{
    uint64_t linear = soft_linear(vcpu, gva);
    int result = soft_check_alignment(vcpu, vcpu->mode, linear, bytes);

    return result ? result : write_linear(vcpu, linear, &value, bytes);
}

int soft_read_bytes(struct hv_engine_vcpu *vcpu, uint64_t gva, void *to, unsigned bytes)
{
    return read_linear(vcpu, soft_linear(vcpu, gva), to, bytes);
}

int soft_write_bytes(struct hv_engine_vcpu *vcpu, uint64_t gva, const void *from, unsigned bytes)
{
    return write_linear(vcpu, soft_linear(vcpu, gva), from, bytes);
}

int soft_page_span(struct hv_engine_vcpu *vcpu, uint64_t gva, enum soft_tlb_kind kind,
                   void **place_out, unsigned *bytes_out)
{
    struct soft_piece piece;
    int result;

    gva = soft_linear(vcpu, gva);
    *place_out = NULL;
    *bytes_out = bytes_to_page_end(gva);
    result = soft_resolve(vcpu, vcpu->mode, kind, gva, &piece);
    /* While alignment is checked or data is watched, each element must come through the slow path. */
    if (!result && piece.kind == SOFT_PIECE_RAM && !vcpu->tlbs->alignment_checked &&
        !vcpu->tlbs->watched) {
        *place_out = piece.host;
    }
    return result;
}

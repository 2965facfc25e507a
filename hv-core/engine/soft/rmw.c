/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Read-modify-write: the instruction works on one pointer, which is
 *
 *     RAM itself       in one page; when locked, inside one cache line, so that the host's own LOCK
 *                      instruction does it
 *     RAM with code    likewise, the block cache being told afterwards
 *     vcpu->bounce     for all the rest: filled with the present value, stored at the commit; a
 *                      locked one keeps the domain's other vCPUs out in between
 *
 * A locked access across a cache line is not given to the host although it could do it: hosts may
 * throttle split locks to a thousand a second (split_lock_detect).
 */
#include "engine/soft/access-private.h"
#include "engine/soft/tlb-private.h"
#include "engine/soft/watch.h"

#include "base/assert.h"

static bool is_direct(const struct soft_span *span, uint64_t gva, unsigned bytes, bool locked)
{
    bool ram = span->piece[0].kind == SOFT_PIECE_RAM || span->piece[0].kind == SOFT_PIECE_CODE;
    bool splits = gva % HV_CACHE_LINE + bytes > HV_CACHE_LINE;

    return span->pieces == 1 && ram && !(locked && splits);
}

/* `bounce.exclusive` says whether the lock is held: more than the analysis can follow. */
HV_NO_TSA static void finish(struct hv_engine_vcpu *vcpu)
{
    if (vcpu->bounce.exclusive) {
        soft_exclusive_end(vcpu);
        vcpu->bounce.exclusive = false;
    }
    vcpu->bounce.active = false;
}

HV_NO_TSA int soft_rmw_begin(struct hv_engine_vcpu *vcpu, uint64_t gva, unsigned bytes, bool locked,
                             void **place_out)
{
    struct soft_span *span = &vcpu->bounce.span;
    int result;

    HV_ASSERT(!vcpu->bounce.active && bytes <= sizeof(vcpu->bounce.bytes));
    *place_out = NULL;
    gva = soft_linear(vcpu, gva);
    result = soft_check_alignment(vcpu, vcpu->mode, gva, bytes);
    if (!result) {
        result = soft_span_resolve(vcpu, vcpu->mode, SOFT_TLB_WRITE, gva, bytes, span);
    }
    if (result) {
        return result;
    }
    soft_watch(vcpu, gva, bytes, SOFT_TLB_WRITE);

    if (is_direct(span, gva, bytes, locked)) {
        vcpu->bounce.active = vcpu->bounce.direct = span->piece[0].kind == SOFT_PIECE_CODE;
        *place_out = span->piece[0].host;
        return 0;
    }

    if (locked) {
        soft_exclusive_begin(vcpu);
        vcpu->bounce.exclusive = true;
    }
    vcpu->bounce.active = true;
    vcpu->bounce.direct = false;
    result = soft_span_read(vcpu, span, vcpu->bounce.bytes);
    if (result) {
        finish(vcpu);
        return result;
    }
    *place_out = vcpu->bounce.bytes;
    return 0;
}

int soft_rmw_commit(struct hv_engine_vcpu *vcpu)
{
    int result = 0;

    if (HV_LIKELY(!vcpu->bounce.active)) {
        return 0;
    }
    if (vcpu->bounce.direct) {
        soft_piece_stored(vcpu, &vcpu->bounce.span.piece[0]);
    } else {
        result = soft_span_write(vcpu, &vcpu->bounce.span, vcpu->bounce.bytes);
    }
    finish(vcpu);
    return result;
}

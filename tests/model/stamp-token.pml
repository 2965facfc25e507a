/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Why STAMPING carries a token (hv-core/mem/frame-type.c).
 *
 * The word is {type, INUSE(count) | STAMPING(token) | STAMPED(stamp)}. A put that stalls after it
 * read the clock finds, when it comes back, the STAMPING of a later put: of the same type taken
 * again, or after a cycle through another type. Without a token it finishes that one with its own
 * old clock, and a TLB filled in between is not flushed.
 *
 *   TOKEN      finish only one's own STAMPING: holds
 *   (none)     violated, with either of
 *   CYCLE      the frame is a page table and WRITABLE again in between
 */
#define WRITABLE 0
#define PGTABLE  1
#define INUSE    0
#define PENDING  1
#define STAMPED  2

byte clock = 2;
byte flushed[2];
bit tlb[2];

byte type = WRITABLE;
byte state = INUSE;
byte count = 1;
byte stamp = 0;
byte token = 0;
byte next_token = 1;

inline flush(who)
{
    byte time;
    atomic { clock++; time = clock };
    tlb[who] = 0;
    flushed[who] = time
}

inline put(kind)
{
    bit last; byte now; byte mine;
    atomic {
        assert(type == kind && state == INUSE && count > 0);
        last = 0;
        count--;
        if
        :: count == 0 ->
            state = PENDING; last = 1;
#ifdef TOKEN
            mine = next_token; token = mine; next_token++
#else
            mine = 0; token = 0
#endif
        :: else -> skip
        fi
    };
    if
    :: last ->
        now = clock;
        atomic {
            if
            :: type == kind && state == PENDING && token == mine -> state = STAMPED; stamp = now
            :: else -> skip
            fi
        }
    :: else -> skip
    fi
}

inline change(from, to)
{
    byte since; bit unstamped;
    atomic {
        state != INUSE && type == from;
        unstamped = (state == PENDING); since = stamp;
        state = INUSE; count = 1; type = to
    };
    if :: unstamped -> since = clock :: else -> skip fi;
    if :: flushed[0] <= since -> flush(0) :: else -> skip fi;
    if :: flushed[1] <= since -> flush(1) :: else -> skip fi
}

/* The first user, whose put stalls. */
active proctype A()
{
    tlb[0] = 1;
    put(WRITABLE)
}

/* Another user of the same type; it may find the frame in use, STAMPING or stamped. */
active proctype B()
{
    bit held = 0;
    flush(1);
    atomic {
        if
        :: type == WRITABLE && state == INUSE -> count++; held = 1
        :: type == WRITABLE && state != INUSE -> state = INUSE; count = 1; held = 1
        :: else -> skip
        fi
    };
    if
    :: held -> tlb[1] = 1; put(WRITABLE)
    :: else -> skip
    fi
}

active proctype C()
{
#ifdef CYCLE
    change(WRITABLE, PGTABLE); assert(!tlb[0] && !tlb[1]);
    put(PGTABLE);
    change(PGTABLE, WRITABLE);
    tlb[1] = 1;
    put(WRITABLE);
#endif
    change(WRITABLE, PGTABLE);
    assert(!tlb[0] && !tlb[1])
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Why the last put of a type goes through STAMPING (hv-core/mem/frame-type.c).
 *
 * One frame, WRITABLE, two TLBs. A drops the last reference; B flushes for a reason of its own,
 * takes another reference, uses and drops it; C changes the type and flushes whoever is not newer
 * than the stamp. When C is done no TLB may have a writable entry.
 *
 *   CLOCK_FIRST  read the clock, then drop the reference and stamp in one step: violated
 *   STAMPING     drop the reference into a state of its own, read the clock, publish: holds
 *   FLUSH_FIRST  the same, but the change flushes before it has the reference (XSA-401): violated
 */
#define WRITABLE 0
#define PGTABLE  1

byte clock = 1;
byte flushed[2];
bit tlb[2]; /* has a writable entry */
bit leaf[2]; /* the page stands writable in that side's table */

byte type = WRITABLE;
byte references = 1;
bit stamping = 0;
byte stamp = 0;

inline flush(who)
{
    byte time;
    atomic { clock++; time = clock };
    tlb[who] = 0;
    flushed[who] = time
}

inline fill(who)
{
    atomic { if :: leaf[who] -> tlb[who] = 1 :: else -> skip fi }
}

#ifdef CLOCK_FIRST
inline put()
{
    byte seen; byte now; bit done = 0;
    do
    :: done -> break
    :: else ->
        seen = references;
        if
        :: seen == 1 -> now = clock; stamp = now
        :: else -> skip
        fi;
        atomic { if :: references == seen -> references = seen - 1; done = 1 :: else -> skip fi }
    od
}
#else
inline put()
{
    byte now; bit last = 0;
    atomic {
        references--;
        if :: references == 0 -> stamping = 1; last = 1 :: else -> skip fi
    };
    if
    :: last ->
        now = clock;
        atomic { if :: references == 0 && stamping -> stamp = now; stamping = 0 :: else -> skip fi }
    :: else -> skip
    fi
}
#endif

active proctype A()
{
    leaf[0] = 1; fill(0); leaf[0] = 0;
    put()
}

active proctype B()
{
    bit held = 0;
    flush(1);
    atomic {
        if
        :: type == WRITABLE && references > 0 -> references++; held = 1
        :: type == WRITABLE && references == 0 && !stamping -> references = 1; held = 1
        :: else -> skip
        fi
    };
    if
    :: held -> leaf[1] = 1; fill(1); leaf[1] = 0; put()
    :: else -> skip
    fi
}

active proctype C()
{
    byte since; bit unstamped;
#ifdef FLUSH_FIRST
    atomic { references == 0; unstamped = stamping; since = stamp };
#else
    atomic {
        references == 0 && type == WRITABLE;
        unstamped = stamping; since = stamp;
        stamping = 0; references = 1; type = PGTABLE
    };
#endif
    if :: unstamped -> since = clock :: else -> skip fi;
    if :: flushed[0] <= since -> flush(0) :: else -> skip fi;
    if :: flushed[1] <= since -> flush(1) :: else -> skip fi;
#ifdef FLUSH_FIRST
    atomic { references == 0; stamping = 0; references = 1; type = PGTABLE };
#endif
    assert(!tlb[0] && !tlb[1])
}

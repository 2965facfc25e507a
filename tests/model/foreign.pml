/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Whose TLBs to flush when a frame that was mapped by a stranger changes its type
 * (hv-core/mem/foreign-strategy.c).
 *
 * TLB 0 is the mapper's, which maps, uses and unmaps two pages of the owner; TLB 1 the owner's, whose
 * one or two threads make page tables of them. After a change nobody may have a writable entry.
 *
 *   (none)         the owner's TLBs only: violated, the attack of the source discussion
 *   PUT_FLUSH      the mapper flushes at each unmap: holds, at the price of a flush a page
 *   CLEAR_ALL      an owner-wide mask of mappers, taken and cleared by a change: violated
 *   CLEAR_AFTER    … cleared after the flush: violated
 *   CLEAR_BEFORE   … cleared before the flush: holds with one changer, violated with two
 *   LOCKED         … under a lock that is held over the flush: holds
 *   DOUBLE_BUFFER  two masks; a change reads both; bits leave the idle one with a flush since the
 *                  swap, and when it is empty they are swapped: holds
 *     ACTIVE_ONLY  … a change reads the active one: violated
 *     READ_EARLY   … an unmap reads which is active before the translation is gone: violated
 *     TIME_FIRST   … the time of the swap is read before it: violated
 *   ALL_FILTERED   every mapper at every change, unless it flushed since: holds
 *   TAINT          a bit of the frame, set with the foreign reference, cleared while the change has
 *                  the frame to itself: holds, and the product's
 *
 *   SHORT          the mapper uses one page, once: two swaps still come around it
 *   TWO_CHANGERS   a second thread of the owner changes types, too
 */
#define WRITABLE 0
#define PGTABLE  1
#define PAGES    2
#define SWEEPS   2
#ifdef SHORT
#define USES     1
#else
#define USES     2
#endif

byte clock = 1;
byte flushed[2];
bit tlb0[PAGES];
bit tlb1[PAGES];

byte references[PAGES];
byte type[PAGES];
byte stamp[PAGES];
bit stamping[PAGES];
bit taint[PAGES];

bit strangers = 0; /* the owner-wide mask of mappers: bit of TLB 0 */
bit masks[2]; /* the same twice, for DOUBLE_BUFFER */
byte active_mask = 0;
byte swapped = 0;
bit locked = 0;

inline flush0()
{
    byte time0;
    atomic { clock++; time0 = clock };
    d_step { tlb0[0] = 0; tlb0[1] = 0 };
    flushed[0] = time0
}

inline flush1()
{
    byte time1;
    atomic { clock++; time1 = clock };
    d_step { tlb1[0] = 0; tlb1[1] = 0 };
    flushed[1] = time1
}

inline put(page)
{
    bit last = 0; byte now;
    atomic {
        references[page]--;
        last = 0;
        if :: references[page] == 0 -> stamping[page] = 1; last = 1 :: else -> skip fi
    };
    if
    :: last ->
        now = clock;
        atomic {
            if
            :: references[page] == 0 && stamping[page] -> stamp[page] = now; stamping[page] = 0
            :: else -> skip
            fi
        }
    :: else -> skip
    fi
}

/* What the unmap does besides: the translation is gone already. */
inline note_unmap()
{
#ifdef PUT_FLUSH
    flush0();
#endif
#if defined(CLEAR_ALL) || defined(CLEAR_AFTER) || defined(CLEAR_BEFORE) || defined(LOCKED)
    strangers = 1;
#endif
#ifdef DOUBLE_BUFFER
#ifndef READ_EARLY
    which = active_mask;
#endif
    masks[which] = 1;
#endif
    skip
}

inline use_foreign(page)
{
    bit held = 0;
    atomic {
        held = 0;
        if
        :: type[page] == WRITABLE && references[page] == 0 && !stamping[page] ->
            references[page] = 1; held = 1
        :: type[page] == WRITABLE && references[page] > 0 -> references[page]++; held = 1
        :: else -> skip
        fi;
#ifdef TAINT
        if :: held -> taint[page] = 1 :: else -> skip fi
#else
        skip
#endif
    };
    if
    :: held ->
#ifdef READ_EARLY
        which = active_mask;
#endif
        tlb0[page] = 1; note_unmap(); put(page)
    :: else -> skip
    fi
}

proctype Mapper()
{
    byte left = USES; bit page; bit which;
    do
    :: left > 0 -> left--; page = 0; use_foreign(page)
    :: left > 0 -> left--; page = 1; use_foreign(page)
    :: left == 0 -> break
    od
}

/* Flush the mapper if the strategy says that it may have an entry older than @since. */
inline flush_mapper(page, since)
{
    bit asked = 0;
#ifdef LOCKED
    atomic { !locked -> locked = 1 };
#endif
#ifdef CLEAR_ALL
    d_step { asked = strangers; strangers = 0 };
#endif
#if defined(CLEAR_AFTER) || defined(LOCKED)
    asked = strangers;
#endif
#ifdef CLEAR_BEFORE
    atomic {
        asked = strangers;
        if :: asked && flushed[0] <= since -> strangers = 0 :: else -> skip fi
    };
#endif
#ifdef TAINT
    asked = taint[page];
#endif
#ifdef ALL_FILTERED
    asked = 1;
#endif
#ifdef ACTIVE_ONLY
    asked = masks[active_mask];
#else
#ifdef DOUBLE_BUFFER
    asked = masks[0];
    asked = asked || masks[1];
#endif
#endif
    if
    :: asked && flushed[0] <= since ->
#ifdef LOCKED
        strangers = 0;
#endif
        flush0();
#ifdef CLEAR_AFTER
        strangers = 0;
#endif
        skip
    :: else -> skip
    fi;
#ifdef LOCKED
    locked = 0;
#endif
    skip
}

inline change(page)
{
    bit changed = 0; bit unstamped; byte since;
    atomic {
        changed = 0;
        if
        :: references[page] == 0 && type[page] == WRITABLE ->
            unstamped = stamping[page]; since = stamp[page];
            stamping[page] = 0; references[page] = 1; type[page] = PGTABLE; changed = 1
        :: else -> skip
        fi
    };
    if
    :: changed ->
        if :: unstamped -> since = clock :: else -> skip fi;
        flush_mapper(page, since);
        if :: flushed[1] <= since -> flush1() :: else -> skip fi;
        assert(!tlb0[page] && !tlb1[page]);
        taint[page] = 0;
        atomic { references[page] = 0; stamping[page] = 0; stamp[page] = clock; type[page] = WRITABLE }
    :: else -> skip
    fi
}

proctype Changer()
{
    change(0); change(1); change(0)
}

proctype SecondChanger()
{
    change(1); change(0)
}

/* In the product a change does it; here it comes at any time. */
proctype Sweeper()
{
    byte left = SWEEPS; bit idle; bit stands;
    do
    :: left > 0 ->
        left--;
        idle = 1 - active_mask;
        stands = masks[idle];
        if :: stands && flushed[0] > swapped -> masks[idle] = 0; stands = 0 :: else -> skip fi;
        if
        :: !stands ->
#ifdef TIME_FIRST
            swapped = clock; active_mask = idle
#else
            active_mask = idle; swapped = clock
#endif
        :: else -> skip
        fi
    :: left == 0 -> break
    od
}

init
{
    atomic {
        run Mapper();
        run Changer();
#ifdef TWO_CHANGERS
        run SecondChanger();
#endif
#ifdef DOUBLE_BUFFER
        run Sweeper();
#endif
    }
}

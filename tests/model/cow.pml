/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A page of A that is shared with B, and written by a vCPU of A (hv-core/mem/share.h). A's other vCPU
 * stores and loads through what its TLB has, until it serves a flush.
 *
 *   FLUSH_FIRST   B gets the page after A's vCPUs have forgotten how to write it. Without: B sees a
 *                 store that came after it had the page.
 *   FORGET_FIRST  A's part in the shared frame is let go after A's vCPUs have forgotten it. Without:
 *                 the frame has another owner, whose bytes A loads.
 *   COPY_FIRST    the copy is whole before its leaf stands. Without: A loads from half a copy.
 *
 * Every step that reads or writes shared memory is one transition; sequentially consistent.
 */
#define SHARED_FRAME 0
#define COPY_FRAME   1
#define NO_FRAME     2

#define OLD    1 /* what the page held when it was shared */
#define STORED 2 /* what A's other vCPU stores */
#define ALIEN  3 /* what the frame's next owner stores */

byte frame[2];
byte references; /* leaves of the shared frame */
byte leaf;       /* A's */
bool writable;   /* A's leaf may be stored to */
bool done;       /* A's page is its own again */

/* The TLB of A's other vCPU. */
byte entry = SHARED_FRAME;
bool entry_writes = true;
bool flush_asked;

byte seen_by_b; /* 0: B does not have the page */

inline flush()
{
    flush_asked = true;
    !flush_asked
}

proctype vcpu()
{
    byte value;

    do
    :: atomic { flush_asked -> entry = NO_FRAME; entry_writes = false; flush_asked = false }
    :: atomic { !flush_asked && entry == NO_FRAME -> entry = leaf; entry_writes = writable }
    :: atomic { entry != NO_FRAME && entry_writes -> frame[entry] = STORED }
    :: atomic {
           entry != NO_FRAME -> value = frame[entry];
           assert(value == OLD || value == STORED)
       }
    :: atomic { done && !flush_asked -> break }
    od
}

proctype b()
{
    do
    :: atomic { seen_by_b != 0 && references > 0 -> assert(frame[SHARED_FRAME] == seen_by_b) }
    :: atomic { done -> break }
    od
}

proctype sharer()
{
    /* The leaf first: whoever fills from now on gets an entry that only reads. */
    writable = false;
#ifdef FLUSH_FIRST
    flush();
#endif
    atomic { references = 2; seen_by_b = frame[SHARED_FRAME] }
#ifndef FLUSH_FIRST
    flush();
#endif
    /* A store of A. */
#ifdef COPY_FIRST
    frame[COPY_FRAME] = frame[SHARED_FRAME];
#endif
    atomic { leaf = COPY_FRAME; writable = true }
#ifndef COPY_FIRST
    frame[COPY_FRAME] = frame[SHARED_FRAME];
#endif
#ifdef FORGET_FIRST
    flush();
#endif
    references--;
    /* B lets go as well: the frame is the next owner's. */
    atomic { references--; frame[SHARED_FRAME] = ALIEN }
#ifndef FORGET_FIRST
    flush();
#endif
    done = true
}

init {
    atomic {
        frame[SHARED_FRAME] = OLD;
        leaf = SHARED_FRAME;
        writable = true;
        references = 1;
        run vcpu();
        run b();
        run sharer()
    }
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A kick against the halt of who waits for it: KICK_CPU, the run loop's look before it blocks, and the
 * run queue (hv-core/sched/runqueue.c). The guest looks at its lock, finds it held, and halts; the
 * kick may come anywhere on that way, and the vCPU may lose its pCPU anywhere, too.
 *
 *   STICKY       the kick leaves a mark on the vCPU, which its next halt takes. Without: the wake
 *                alone is to end the halt, and one that comes while the vCPU is ready is nothing.
 *   PENDING      a wake of a running vCPU is remembered, and looked at with the queue locked before
 *                it blocks (invariant 2 of runqueue.h). Without: between the look at the mark and
 *                the block a kick is lost.
 *   MARK_FIRST   the mark stands before the wake. Without: the vCPU wakes, finds no mark, and blocks
 *                again before there is one.
 *
 * Sequentially consistent; what is done under the queue's lock is one transition.
 */
#define ROUNDS  2

#define BLOCKED 0
#define READY   1
#define RUNNING 2

byte state = RUNNING;
bool wake_pending, mark, lock_free;
byte taken;

/* Under the queue's lock. */
inline wake()
{
    atomic {
        if
        :: state == BLOCKED -> state = READY
        :: state == RUNNING -> wake_pending = true
        :: else -> skip
        fi
    }
}

inline pick()
{
    atomic { state == READY -> state = RUNNING; wake_pending = false }
}

/* The worker's own: the slice ends, and another begins. */
inline maybe_preempted()
{
    if
    :: true -> skip
    :: true -> state = READY; pick()
    fi
}

inline put_back_halted()
{
    atomic {
        if
#ifdef PENDING
        :: wake_pending -> state = READY
        :: else -> state = BLOCKED
#else
        :: true -> state = BLOCKED
#endif
        fi
    }
}

proctype waiter()
{
    bool awake;

    do
    :: taken == ROUNDS -> break
    :: taken < ROUNDS ->
        if
        :: atomic { lock_free -> lock_free = false; taken++ }
        :: else ->
            maybe_preempted();
            /* HLT: an exit. From here on the run loop goes round until the halt is over. */
            awake = false;
            do
            :: awake -> break
            :: else ->
#ifdef STICKY
                if
                :: atomic { mark -> mark = false; awake = true }
                :: else -> put_back_halted(); pick()
                fi
#else
                put_back_halted();
                pick();
                awake = true
#endif
            od
        fi
    od
}

proctype kicker()
{
    byte round;

    for (round : 1 .. ROUNDS) {
        taken == round - 1;
        lock_free = true;
#ifdef MARK_FIRST
        mark = true;
        wake()
#else
        wake();
        mark = true
#endif
    }
}

init
{
    run waiter();
    run kicker();
    /* Nothing moves any more. */
    timeout -> assert(taken == ROUNDS)
}

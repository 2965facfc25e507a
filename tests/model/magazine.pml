/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A magazine of free frames (hv-core/mem/magazine-private.h): its owner pushes and pops, two others
 * take all there is. A frame has one holder at a time.
 *
 *   TAKEN  the taker marks the word, so that nobody changes it while he copies the slots. Without:
 *          he copies and then swaps the word he saw for 0. The owner pops and pushes another frame
 *          in between, and the word is as it was.
 *
 * Every step that reads or writes shared memory is one transition; sequentially consistent.
 */
#define FRAMES 3
#define SLOTS  3
#define OPS    4

#define MAGAZINE 0
#define OWNER    1
#define TAKER    2 /* and on */

byte count;
bool taken;
byte slot[SLOTS];
byte holder[FRAMES];

/* The swap of {n} for another count: fails when it is not {n} any more, or TAKEN. */
inline swap(n, more)
{
    atomic {
        if
        :: count == n && !taken -> count = more; swapped = true
        :: else -> swapped = false
        fi
    }
}

proctype owner_thread()
{
    byte n, frame, left = OPS;
    bool swapped;

    do
    :: left == 0 -> break
    :: left > 0 ->
        left--;
        atomic { n = count; swapped = taken };
        if
        :: swapped -> skip /* to the other magazine, or a shard */
        :: !swapped && n > 0 -> /* pop */
            frame = slot[n - 1];
            swap(n, n - 1);
            if
            :: swapped -> atomic { assert(holder[frame] == MAGAZINE); holder[frame] = OWNER }
            :: else -> skip
            fi
        :: !swapped && n < SLOTS -> /* push one it holds, if there is one */
            frame = 0;
            do
            :: frame < FRAMES && holder[frame] != OWNER -> frame++
            :: else -> break
            od;
            if
            :: frame < FRAMES ->
                slot[n] = frame;
                atomic { /* its being in the magazine begins with the swap */
                    if
                    :: count == n && !taken -> count = n + 1; holder[frame] = MAGAZINE
                    :: else -> skip
                    fi
                }
            :: else -> skip
            fi
        fi
    od
}

proctype taker_thread(byte me)
{
    byte n, i, frame;
    byte copy[SLOTS];
    bool swapped, mine;

    n = count;
    if
    :: n == 0 -> goto out
    :: else -> skip
    fi;
#ifdef TAKEN
    atomic { mine = !taken; taken = true; n = count };
    if
    :: !mine -> goto out
    :: else -> skip
    fi;
#endif
    i = 0;
    do
    :: i < n -> copy[i] = slot[i]; i++
    :: else -> break
    od;
    atomic {
#ifdef TAKEN
        count = 0;
        taken = false;
#else
        swap(n, 0);
        if
        :: !swapped -> goto out
        :: else -> skip
        fi;
#endif
        i = 0;
        do
        :: i < n ->
            frame = copy[i];
            assert(holder[frame] == MAGAZINE);
            holder[frame] = me;
            i++
        :: else -> break
        od
    };
out:
    skip
}

init {
    atomic {
        count = 1;
        slot[0] = 0;
        holder[0] = MAGAZINE;
        holder[1] = OWNER;
        holder[2] = OWNER;
        run owner_thread();
        run taker_thread(TAKER);
        run taker_thread(TAKER + 1)
    }
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Credit of free frames on its way from the words of two magazines to `unclaimed`, and a claim that
 * needs all of it (hv-core/mem/magazine-private.h, invariant 4). It may never be refused.
 *
 *   COUNTED     who moves credit says so from before it leaves the word until it is booked, and the
 *               claim looks at the words first, then whether anybody says so, then at `unclaimed`.
 *               Without: the words are empty, and it is not booked yet.
 *   LOOK_FIRST  the same, but the claim asks who is moving before it looks at the words: wrong.
 *
 * Every step that reads or writes shared memory is one transition; sequentially consistent.
 */
#define MAGAZINES 2
#define EACH      1
#define ALL       2

byte credit[MAGAZINES] = EACH;
byte unclaimed;
byte crediting;

/* book_credit(), or take() and put_back(). */
proctype mover(byte which)
{
    byte mine;

#ifdef COUNTED
    crediting++;
#endif
    atomic { mine = credit[which]; credit[which] = 0 };
    unclaimed = unclaimed + mine;
#ifdef COUNTED
    crediting--
#endif
}

proctype claim()
{
    byte i, mine;
    bool found, moving;

again:
    found = false;
    moving = false;
#ifdef LOOK_FIRST
    moving = crediting > 0;
#endif
    i = 0;
    do
    :: i < MAGAZINES ->
        mine = credit[i];
        if
        :: mine > 0 ->
            atomic {
                mine = credit[i];
                credit[i] = 0;
                unclaimed = unclaimed + mine;
                found = mine > 0
            }
        :: else -> skip
        fi;
        i++
    :: else -> break
    od;
#ifndef LOOK_FIRST
#ifdef COUNTED
    moving = crediting > 0;
#endif
#endif
    mine = unclaimed;
    if
    :: mine < ALL && (found || moving) -> goto again
    :: else -> assert(mine >= ALL) /* else it is refused */
    fi
}

init {
    atomic {
        run mover(0);
        run mover(1);
        run claim()
    }
}

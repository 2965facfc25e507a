/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Dirty epochs (hv-core/mem/dirty.c): one page, a writer whose write permission is good for one
 * epoch, a migrator that runs two rounds, pauses the writer and copies the rest. The copy must be
 * the page.
 *
 *   ACK          a round waits until the writer has adopted the epoch or is outside the guest
 *   TWO_BITMAPS  a bitmap for each parity; only the ended epoch's is harvested
 *
 * Both: holds. Either alone, or none: a write is lost.
 */
byte epoch = 1;
byte adopted = 1;
byte permission = 0; /* the epoch of the writer's translation */
bit dirty[2];
bit in_guest = 0;
bit paused = 0;

byte page = 0;
byte copy = 0;

#ifdef TWO_BITMAPS
#define SIDE(of) ((of) & 1)
#else
#define SIDE(of) 0
#endif

active proctype Writer()
{
    byte writes = 0; byte mine;
    do
    :: writes < 3 && !paused ->
        atomic { !paused -> in_guest = 1 };
        adopted = epoch;
        mine = adopted;
        if
        :: permission != mine -> dirty[SIDE(mine)] = 1; permission = mine
        :: else -> skip
        fi;
        page++;
        writes++;
        in_guest = 0
    :: paused -> break
    :: writes >= 3 -> break
    od
}

/* The bit goes before the page is copied. */
inline harvest(side)
{
    if :: dirty[side] -> dirty[side] = 0; copy = page :: else -> skip fi
}

active proctype Migrator()
{
    byte rounds = 0;
    do
    :: rounds < 2 ->
        rounds++;
        epoch++;
#ifdef ACK
        (adopted == epoch || !in_guest);
#endif
        harvest(SIDE(epoch - 1))
    :: rounds >= 2 -> break
    od;
    paused = 1;
    (in_guest == 0);
    harvest(0);
    harvest(1);
    assert(copy == page)
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * One timer and two vCPUs (hv-core/platform/vpt-strategy.h): its callback (class 2), its moves from
 * the one to the other (class 3), and the exit paths of both (class 1).
 *
 *   LEGACY    who unlocks reads anew whose lock it is: unlocks one that is not his
 *   REMEMBER  he remembers it, but did not look whether it was the right one: two are at the timer
 *   XSA336    a lock over all timers' places, read by all
 *   MID       … by classes 2 and 3 alone
 *   PERTIMER  a lock of the timer's own, before its vCPU's
 *   RETRY     lock, then look; while it moves it is nobody's
 *
 * Every step that reads or writes shared memory is one transition; sequentially consistent.
 */
#define MIGRATING 2
#define ROUNDS    2

byte tm[2];          /* who holds a vCPU's lock, plus 1 */
byte place;          /* whose the timer is, or MIGRATING */
bool listed[2];      /* in whose list */
byte readers;        /* of the lock over all places */
bool writer;
bool own;            /* the timer's own lock */
bool used;           /* somebody is at the timer's fields */

inline lock(x) { atomic { tm[x] == 0 -> tm[x] = _pid + 1 } }
inline unlock(x) { atomic { assert(tm[x] == _pid + 1); tm[x] = 0 } }
inline use()
{
    atomic { assert(!used); used = true };
    used = false
}

proctype callback()
{
    byte vcpu, round = 0;

    do
    :: round == ROUNDS -> break
    :: else ->
        round++;
#ifdef LEGACY
        vcpu = place; lock(vcpu); use(); vcpu = place; unlock(vcpu)
#endif
#ifdef REMEMBER
        vcpu = place; lock(vcpu); use(); unlock(vcpu)
#endif
#ifdef SHARED
        atomic { !writer -> readers++ };
        vcpu = place; lock(vcpu); use(); unlock(vcpu);
        readers--
#endif
#ifdef PERTIMER
        atomic { !own -> own = true };
        vcpu = place; lock(vcpu); use(); unlock(vcpu);
        own = false
#endif
#ifdef RETRY
        do
        :: vcpu = place;
            if
            :: vcpu == MIGRATING -> skip
            :: else ->
                lock(vcpu);
                if
                :: place == vcpu -> break
                :: else -> unlock(vcpu)
                fi
            fi
        od;
        use();
        unlock(vcpu)
#endif
    od
}

inline move_by_locks(s, d)
{
    lock(s); use(); listed[s] = false;
#ifdef RETRY
    place = MIGRATING;
#endif
    unlock(s);
    lock(d); listed[d] = true; place = d; unlock(d)
}

proctype mover()
{
    byte from, to, round = 0;

    do
    :: round == ROUNDS -> break
    :: else ->
        round++;
        from = place;
        to = 1 - from;
#ifdef LEGACY
        lock(to); use(); listed[from] = false; place = to; listed[to] = true; unlock(to)
#endif
#ifdef XSA336
        atomic { !writer && readers == 0 -> writer = true };
        use(); listed[from] = false; place = to; listed[to] = true;
        writer = false
#endif
#ifdef MID
        atomic { !writer && readers == 0 -> writer = true };
        move_by_locks(from, to);
        writer = false
#endif
#ifdef PERTIMER
        atomic { !own -> own = true };
        move_by_locks(from, to);
        own = false
#endif
#ifdef REMEMBER
        move_by_locks(from, to)
#endif
#ifdef RETRY
        move_by_locks(from, to)
#endif
    od
}

proctype exit_path(byte me)
{
    byte round = 0;

    do
    :: round == ROUNDS -> break
    :: else ->
        round++;
#ifdef XSA336
        atomic { !writer -> readers++ };
#endif
        lock(me);
        if
        :: listed[me] -> use()
        :: else -> skip
        fi;
        unlock(me)
#ifdef XSA336
        ; readers--
#endif
    od
}

init {
    atomic {
        listed[0] = true;
        run callback();
        run mover();
        run exit_path(0);
        run exit_path(1)
    }
}

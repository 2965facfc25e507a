/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Every lock of the core in the order of acquisition, outer to inner, and what it protects. The
 * long form, with who takes it and the longest hold, is docs/locking.md (checked by
 * tools/check-locks).
 *
 * A thread takes locks of strictly rising rank. Two of one rank only by hv_lock_take_pair(), which
 * takes them in the order of their index. Waits are pseudo-locks: they are checked as if a lock of
 * their rank were taken and dropped.
 *
 * Nothing that can block in the host (madvise, mprotect, a completion) may happen under a rank
 * >= HV_RANK_DEVICE, nor a call through a table handed down by an upper floor.
 */
#pragma once

enum hv_rank {
    HV_RANK_CONTROL = 15,   /* the machines that a control socket has made */
    HV_RANK_LIFECYCLE = 20, /* state transitions of one domain, but for its end */
    HV_RANK_EXCLUSIVE = 25, /* one vCPU's locked access that the host cannot do; may block */
    HV_RANK_FOREIGN = 27,   /* a mask of mappers, not the product's: held over a flush; may block */
    /* Waits: a flush that is waited for; hv_timer_kill() is declared per timer. */
    HV_RANK_FLUSH_WAIT = 29,
    HV_RANK_DEVICE = 30,     /* registers of one platform device */
    HV_RANK_IRQ_CHIP = 32,   /* PIC and IOAPIC pins: raised from under a device's lock */
    HV_RANK_VPT = 35,        /* virtual platform timer strategies */
    HV_RANK_TM = 40,         /* timers of one vCPU; never two at once */
    HV_RANK_LAPIC = 42,      /* one local APIC's registers that other vCPUs may change */
    HV_RANK_TIMER_BASE = 45, /* one timer queue; never held while a callback runs */
    HV_RANK_P2M = 50,        /* changes of one domain's p2m */
    HV_RANK_PAGE_ALLOC = 55, /* one domain's page list and claim */
    HV_RANK_HEAP = 60,       /* one shard of the heap */
    HV_RANK_CODE = 65,       /* one domain's blocks, and thunks: insertion and removal */
    HV_RANK_RUNQUEUE = 70,   /* one pCPU's run queue; two by ascending index */
    HV_RANK_LEAF = 90,       /* registries and trace rings: nothing but the next under them */
    HV_RANK_DOORBELL = 95,   /* taken inside a ring, which any lock allows */
};

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The operations of the core, as the control side sees them. In process they are these functions;
 * behind a socket they become the messages of the same names, and nothing above this header
 * changes.
 *
 * A domain is named by a handle, for ever, and reached by a pointer one has a reference on: that of
 * hv_domain_create(), or of hv_domain_get(). Any thread may call anything with it, at any time; once
 * somebody has killed the domain, what would change it or look inside says -ECANCELED.
 *
 * Results: 0 or a negative errno of the closed vocabulary in docs/errors.md.
 */
#pragma once

#include <hv/guest-copy.h>
#include <hv/sched.h>
#include <hv/timers.h>
#include <hv/types.h>

struct hv_core;
struct hv_domain;

struct hv_core_config {
    unsigned workers; /* pCPU workers, 1 to the host's CPUs but at most 256; 0 means that many */
    uint64_t memory_bytes; /* arena, a multiple of 2 MiB, at least one */
    unsigned reapers; /* threads that take killed domains apart, at most 16; 0: 2, but no more than
                         workers */
    uint64_t stat_period_ns; /* how often statistics go to shared pages (hv/stat-pages.h), at least
                                10 ms; 0: there are none */
    enum hv_sched_policy policy;
    bool no_boost; /* directed yields are counted and do nothing: for comparison */
};

/**
 * Start a core: arena, workers, reapers. It opens no file after this.
 *
 * Returns 0 and *core_out, owned by the caller until hv_core_destroy(); -EINVAL for more workers
 * than there may be, for the size, or the period; -ENOMEM; -EAGAIN when the host starts no more
 * threads, or opens no more files; -ENOTSUP when it cannot seal shared pages.
 */
HV_MUST_CHECK int hv_core_create(const struct hv_core_config *config, struct hv_core **core_out);
/** All domains are killed, and none is held; waits until they are gone. NULL is accepted. */
void hv_core_destroy(struct hv_core *core);

/* What a serial port's other end is: called by the core without locks, on any vCPU's thread. */
struct hv_console_ops {
    /** Take up to @bytes; returns how many were taken. Less than all: hv_console_writable() later. */
    size_t (*write)(void *context, const uint8_t *data, size_t bytes);
};

enum hv_domain_flag {
    HV_DOMAIN_TESTDEV = 1u << 0,       /* fw_cfg, isa-debug-exit, pc-testdev ports */
    HV_DOMAIN_FORCE_IO_EXIT = 1u << 1, /* debugging: every device access leaves the engine */
    HV_DOMAIN_TRACE_BLOCKS = 1u << 2,  /* debugging: a crash report holds all last blocks; slow */
};

/* Parts of KVM's paravirtual interface, which guests find by CPUID and use instead of devices. */
enum hv_pv_part {
    HV_PV_PART_CLOCK = 1u << 0,  /* kvmclock */
    HV_PV_PART_STEAL = 1u << 1,  /* steal time, and whether a vCPU is preempted */
    HV_PV_PART_EOI = 1u << 2,    /* end of interrupt in memory */
    HV_PV_PART_UNHALT = 1u << 3, /* spin locks that halt and kick */
    HV_PV_PART_FLUSH = 1u << 4,  /* TLB flushes that spare preempted vCPUs; needs STEAL */
    HV_PV_PART_IPI = 1u << 5,    /* interrupts to many vCPUs at once */
    HV_PV_PART_YIELD = 1u << 6,  /* directed yields */
    HV_PV_PART_POLL = 1u << 7,   /* a say in whether halts are polled for */
    HV_PV_PART_ALL = (1u << 8) - 1,
};

struct hv_domain_config {
    const char *name;                     /* copied; 1 to 63 bytes */
    const char *engine;                   /* "auto", "soft", … */
    uint64_t memory_bytes;                /* a multiple of 1 MiB, at least 2 MiB */
    unsigned vcpus;                       /* 1 to HV_MAX_VCPUS */
    unsigned flags;                       /* enum hv_domain_flag */
    unsigned pv_hidden;                   /* enum hv_pv_part: what the guest is not to see */
    const struct hv_console_ops *console; /* borrowed for the domain's life; NULL: none */
    void *console_context;
    struct hv_sched_parameters sched; /* zeros: an ordinary one */
    /* hv/timers.h. */
    enum hv_clock_policy clock_policy;
    enum hv_rtc_track rtc_track;
    unsigned timers_absent; /* enum hv_timer_part: what the machine lacks; not the LAPIC */
};

/**
 * Make a paused domain: claim memory, make devices and vCPUs. Nothing is half made on failure.
 *
 * @why  @why_size bytes for a sentence that names the bad value; may be NULL.
 *
 * Returns 0 and *domain_out, a reference that the caller drops by hv_domain_destroy() or
 * hv_domain_put(); -EINVAL for a value missing or out of range; -ENOTSUP when the engine is unknown
 * or cannot run here, or for a share of the CPUs under HV_SCHED_POLICY_HOST; -ENOMEM; -ENOSPC when
 * 65,000 domains exist.
 */
HV_MUST_CHECK int hv_domain_create(struct hv_core *core, const struct hv_domain_config *config,
                                   struct hv_domain **domain_out, char *why, size_t why_size);

/**
 * Change its part in the CPUs; it may run meanwhile.
 *
 * @why  as for hv_domain_create().
 *
 * Returns 0; -EINVAL for a value out of range; -ENOTSUP under HV_SCHED_POLICY_HOST for anything but
 * the defaults; -ECANCELED when it is dying.
 */
HV_MUST_CHECK int hv_domain_set_sched(struct hv_domain *domain,
                                      const struct hv_sched_parameters *parameters, char *why,
                                      size_t why_size);
void hv_domain_get_sched(const struct hv_domain *domain,
                         struct hv_sched_parameters *parameters_out);

/**
 * Change what becomes of missed ticks of a timer; it may run meanwhile. Of a local APIC's: of all of
 * them.
 *
 * @why  as for hv_domain_create().
 *
 * Returns 0; -EINVAL for a policy that the timer cannot have, or a timer that the machine lacks;
 * -ECANCELED when it is dying.
 */
HV_MUST_CHECK int hv_domain_set_tick_policy(struct hv_domain *domain, enum hv_vpt_source source,
                                            const struct hv_vpt_policy *policy, char *why,
                                            size_t why_size);

/** What names the domain, also to whom it was not given. */
hv_handle hv_domain_handle(const struct hv_domain *domain);
/** What it was called when it was made; lives as long as it is held. */
const char *hv_domain_name(const struct hv_domain *domain);

/**
 * Find a domain by name, and hold it.
 *
 * Returns 0 and *domain_out; -ENOENT when it is not made yet, is gone, or never was; -EOVERFLOW when
 * 65,535 hold it. Takes no lock and never waits. Context: any thread, any lock.
 */
HV_MUST_CHECK int hv_domain_get(struct hv_core *core, hv_handle handle,
                                struct hv_domain **domain_out);
/**
 * The names of all domains that hv_domain_get() may find, the dying and the dead too, by rising id:
 * of each that is there all the while, and perhaps of those that come or go meanwhile.
 *
 * Returns how many there are; at most @max are written to @handles. Context: as hv_domain_get().
 */
size_t hv_core_list(const struct hv_core *core, hv_handle *handles, size_t max);

/** Let go. It lives on, unless it is killed. NULL is accepted. Context: as hv_domain_get(). */
void hv_domain_put(struct hv_domain *domain);

/**
 * Kill it, whatever it does. Returns at once: it is taken apart by the core's reapers, and stays where
 * it is for those who hold it. hv/teardown.h says how far that is.
 *
 * Returns 0 to the first; -ECANCELED when it is killed already.
 * Context: any thread, its own vCPUs' too, and any lock of rank < HV_RANK_LEAF; never blocks.
 */
HV_MUST_CHECK int hv_domain_kill(struct hv_domain *domain);

/**
 * Kill it, if nobody has; wait until its memory is back in the heap, but for what others have mapped;
 * and let go. Legal in every state. NULL is accepted. Context: a control thread.
 */
void hv_domain_destroy(struct hv_domain *domain);

/*
 * There is none between NEW and PAUSED for a machine that is loaded: a machine without a kernel may
 * run, and fault; so nothing is allowed in one that is forbidden in the other.
 */
enum hv_domain_state {
    HV_DOMAIN_STATE_NEW, /* being made */
    HV_DOMAIN_STATE_PAUSED,
    HV_DOMAIN_STATE_RUNNING,
    HV_DOMAIN_STATE_SHUTDOWN, /* ended by itself; see hv_domain_end */
    HV_DOMAIN_STATE_DYING,    /* killed, and being taken apart */
    HV_DOMAIN_STATE_DEAD,     /* taken apart, but for pages that others have mapped: a zombie */
    HV_DOMAIN_STATE_GONE,     /* nothing is left, but for those who hold it to see that */
};

enum hv_domain_end {
    HV_DOMAIN_END_NONE,
    HV_DOMAIN_END_POWEROFF,
    HV_DOMAIN_END_REBOOT, /* the guest asked for a reset */
    HV_DOMAIN_END_TRIPLE_FAULT,
    HV_DOMAIN_END_DEBUG_EXIT, /* isa-debug-exit: code holds the value written */
    HV_DOMAIN_END_CRASH,      /* hv_domain_crash(): reason says why */
    HV_DOMAIN_END_HALTED,     /* every vCPU halted with interrupts off, and no NMI can come */
    HV_DOMAIN_END_NO_MEMORY,  /* paused: the host has no memory for a page */
};

struct hv_domain_status {
    enum hv_domain_state state;
    enum hv_domain_end end;
    uint32_t code;
    char reason[128];
    uint32_t vcpu; /* whose it was, where that makes sense */
};

/**
 * Let it run (again). -EBUSY unless paused. One that was ended while it was paused does not run, but
 * goes to SHUTDOWN.
 */
HV_MUST_CHECK int hv_domain_unpause(struct hv_domain *domain);
/**
 * Stop all vCPUs and wait until each is out of the guest. -EBUSY unless running or paused; after one
 * that has ended by itself, they are out all the same, and what they counted is in the statistics.
 */
HV_MUST_CHECK int hv_domain_pause(struct hv_domain *domain);
/**
 * Put vCPUs and devices to their power-up state; the domain is paused afterwards and the builder
 * loads it anew. From PAUSED and SHUTDOWN. -EBUSY otherwise.
 *
 * Memory holds what it held, as a PC's does when its reset line is pulled: guests count on it
 * (kexec, crash dumps, a console's log), and no other domain ever sees it. So a builder writes all
 * that its boot protocol promises, zeros included, and leaves the rest alone.
 */
HV_MUST_CHECK int hv_domain_reset(struct hv_domain *domain);
/** Press the power button (ACPI). -EBUSY unless running. */
HV_MUST_CHECK int hv_domain_press_power(struct hv_domain *domain);
/**
 * Press the NMI button: an edge at LINT1 of every vCPU's local APIC, which is an NMI where the guest
 * has it so (Linux: of its first vCPU). -EBUSY unless running.
 */
HV_MUST_CHECK int hv_domain_press_nmi(struct hv_domain *domain);

void hv_domain_get_status(struct hv_domain *domain, struct hv_domain_status *status_out);

/**
 * Wait until the state is no longer @than, or @timeout_ns has passed.
 *
 * Returns 0, or -ETIMEDOUT. Context: a control thread.
 */
HV_MUST_CHECK int hv_domain_wait_change(struct hv_domain *domain, enum hv_domain_state than,
                                        uint64_t timeout_ns);

/** Bytes for the guest's serial port; returns how many were taken (its queue is bounded). */
size_t hv_domain_console_input(struct hv_domain *domain, const uint8_t *data, size_t bytes);
/** The console takes bytes again after a short write. */
void hv_domain_console_writable(struct hv_domain *domain);

/* The registers with which a vCPU starts, beyond reset: what a boot protocol asks for. */
struct hv_boot_state {
    bool long_mode; /* 64-bit, paging on with cr3; else 32-bit protected, flat, paging off */
    uint64_t rip, rsp, rsi, rbx, rax, cr3;
    uint64_t gdt_base;
    uint16_t gdt_limit, cs, ds;
};

/** Set the bootstrap vCPU's entry state. -EBUSY unless paused; -EINVAL for a non-canonical rip. */
HV_MUST_CHECK int hv_domain_set_boot(struct hv_domain *domain, const struct hv_boot_state *boot);

/* Where the guest finds things: what the builder writes into ACPI tables and E820. */
struct hv_platform_layout {
    uint64_t low_ram_bytes;  /* RAM [0, low_ram_bytes), at most 3 GiB */
    uint64_t high_ram_bytes; /* RAM [4 GiB, 4 GiB + high_ram_bytes) */
    uint64_t ioapic_base, lapic_base, hpet_base;
    uint16_t pm_event_port, pm_control_port, pm_timer_port, sci_irq, reset_port;
    uint8_t reset_value;
    uint8_t s5_sleep_type; /* SLP_TYP of soft-off */
    unsigned vcpus;
    unsigned timers_absent; /* enum hv_timer_part; hpet_base is 0 without an HPET */
};

void hv_domain_get_layout(const struct hv_domain *domain, struct hv_platform_layout *layout_out);

/* Statistics: a flat list of names and values (docs/stats.md). */
struct hv_stat {
    char name[80];
    bool is_text;
    uint64_t value;
    char text[48];
};

/**
 * A snapshot of all statistics of the domain; once it is killed, of its state, and of who holds pages
 * of it. Takes no core lock.
 *
 * Returns how many there are; at most @max are written to @stats.
 */
size_t hv_domain_get_stats(struct hv_domain *domain, struct hv_stat *stats, size_t max);

/** The same of the core: memory, reapers, and workers. */
size_t hv_core_get_stats(struct hv_core *core, struct hv_stat *stats, size_t max);

/**
 * All locks of all cores and domains of this process, under the names of a domain's own and
 * lock.<i>.domain.
 */
size_t hv_core_get_lock_stats(struct hv_core *core, struct hv_stat *stats, size_t max);

/* What a crash report shows: registers, last blocks and code bytes of @vcpu. */
struct hv_crash_report {
    uint32_t vcpu;
    uint64_t gpr[16], rip, rflags, cr0, cr2, cr3, cr4, efer;
    uint16_t cs, ss, ds, es, fs, gs;
    uint64_t fs_base, gs_base;
    uint8_t cpl, code_bits; /* 16, 32, 64 */
    unsigned blocks;        /* pieces of straight code, oldest first */
    bool all_blocks; /* HV_DOMAIN_TRACE_BLOCKS; else those between them are left out that others led
                      * to at full speed */
    uint64_t block_rip[16];
    uint8_t code[32];
    unsigned code_bytes;
};
/** Of the vCPU that ended the domain, or the first. -EBUSY unless paused or shut down. */
HV_MUST_CHECK int hv_domain_get_crash(struct hv_domain *domain, struct hv_crash_report *report_out);

/** How often it was reset: which life of the guest it is. Takes no lock; any thread. */
uint64_t hv_domain_life(const struct hv_domain *domain);

/**
 * End a domain because its guest's state is beyond repair or it misbehaves. The rest goes on.
 *
 * @life  what hv_domain_life() said before the caller looked at that state: when the domain was reset
 *        since, nothing happens.
 *
 * Context: any thread, any lock but those of rank >= HV_RANK_RUNQUEUE; never blocks.
 */
void hv_domain_crash(struct hv_domain *domain, uint64_t life, const char *reason);

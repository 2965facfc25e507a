/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What follows the header of a message (hv/op.h): requests, answers and events, one structure each,
 * laid out the same by every compiler.
 */
#pragma once

#include <hv/domain.h>

/* Console bytes in a message, and those that may be sent and not accepted yet. */
#define HV_OP_CONSOLE_BYTES  4096u
#define HV_OP_CONSOLE_WINDOW 16384u

struct hv_op_refusal {
    char why[128]; /* a sentence that names the bad value, or nothing */
};

struct hv_op_hello {
    uint64_t magic;
    uint32_t version;
    uint32_t lease; /* 1: take it; 0: only ask how it is, after which the connection ends */
};

struct hv_op_welcome {
    uint64_t magic;
    uint32_t version;
    uint32_t staging_bytes;
    uint64_t epoch;         /* leases that there were, with this one */
    uint64_t refused_calls; /* host calls that the core's sandbox has refused it: a mistake in it */
    uint32_t refused_call;  /* the number of the last */
    uint32_t held;          /* whether somebody has the lease */
    uint32_t domains;
    uint32_t statistics; /* 1: a second descriptor, of hv/stat-pages.h, follows that of staging */
};

struct hv_op_after {
    uint64_t handle; /* those whose ids are higher; HV_HANDLE_NONE: all */
};

#define HV_OP_LISTED_MAX 48u

struct hv_op_listed {
    uint64_t handle;
    uint32_t state; /* enum hv_domain_state */
    uint32_t kept;
    char name[64];
};

struct hv_op_listing {
    uint32_t count; /* fewer than HV_OP_LISTED_MAX: these were the last */
    uint32_t reserved;
    struct hv_op_listed listed[HV_OP_LISTED_MAX];
};

struct hv_op_stats {
    uint32_t kind;       /* enum hv_stat_pages_kind; not FREE */
    uint32_t histograms; /* 1: of LOCKS, their distributions as well; else 0 */
    uint64_t handle;     /* of DOMAIN; else 0 */
};

struct hv_op_export {
    uint64_t reserved;
};

/*
 * The file holds as many struct hv_stat_pages_record, and then as many distributions as is said here;
 * when there is no record, there is no file.
 */
struct hv_op_stats_list {
    uint64_t count;
    uint64_t wanted; /* records there would have been: more than @count when the list was cut */
    uint64_t histograms;
    uint64_t histograms_wanted;
};

/* Followed by its counts, uint32_t each, and zeros to a multiple of 8 bytes (hv/lock-stats.h). */
struct hv_op_histogram {
    uint64_t row;
    uint32_t span;    /* enum hv_lock_histogram_span */
    uint32_t buckets; /* at most HV_LOCK_HISTOGRAM_BUCKETS */
    uint64_t total_ns;
    uint64_t max_ns;
};

struct hv_op_sampling {
    char class_name[60];
    uint32_t one_in;
};

struct hv_op_create {
    char name[64];
    char engine[16];
    uint64_t memory_bytes;
    uint32_t vcpus;
    uint32_t flags;
    uint32_t pv_hidden;
    uint32_t console; /* 1: its output is kept, and sent to who attaches; its maker does at once */
    uint32_t clock_policy;  /* enum hv_clock_policy */
    uint32_t rtc_track;     /* enum hv_rtc_track */
    uint32_t timers_absent; /* enum hv_timer_part */
    uint32_t reserved;
    struct hv_sched_parameters sched;
};

struct hv_op_layout {
    uint64_t low_ram_bytes;
    uint64_t high_ram_bytes;
    uint64_t ioapic_base;
    uint64_t lapic_base;
    uint64_t hpet_base;
    uint16_t pm_event_port;
    uint16_t pm_control_port;
    uint16_t pm_timer_port;
    uint16_t sci_irq;
    uint16_t reset_port;
    uint8_t reset_value;
    uint8_t s5_sleep_type;
    uint32_t vcpus;
    uint32_t timers_absent;
    uint32_t reserved;
};

struct hv_op_made {
    uint64_t handle;
    char name[64];
    struct hv_op_layout layout;
};

struct hv_op_domain {
    uint64_t handle;
};

struct hv_op_status {
    uint32_t state; /* enum hv_domain_state */
    uint32_t end;   /* enum hv_domain_end */
    uint32_t code;
    uint32_t vcpu;
    uint64_t life;
    char reason[128];
};

struct hv_op_set_boot {
    uint64_t handle;
    uint64_t rip;
    uint64_t rsp;
    uint64_t rsi;
    uint64_t rbx;
    uint64_t rax;
    uint64_t cr3;
    uint64_t gdt_base;
    uint16_t gdt_limit;
    uint16_t cs;
    uint16_t ds;
    uint16_t long_mode; /* 0 or 1 */
};

struct hv_op_copy {
    uint64_t handle;
    uint64_t gpa;
    uint32_t bytes;     /* at most HV_OP_STAGING_BYTES */
    uint32_t staging;   /* where they are, or go, in the staging area */
    uint32_t direction; /* enum hv_copy_direction */
    uint32_t reserved;
};

struct hv_op_set_sched {
    uint64_t handle;
    struct hv_sched_parameters sched;
};

struct hv_op_set_tick {
    uint64_t handle;
    uint32_t source; /* enum hv_vpt_source */
    uint32_t kind;   /* enum hv_tick_policy */
    uint64_t threshold_ns;
    uint64_t limit_ns;
    uint32_t slew_per_cent;
    uint32_t reserved;
};

struct hv_op_crash {
    uint64_t gpr[16];
    uint64_t rip;
    uint64_t rflags;
    uint64_t cr0;
    uint64_t cr2;
    uint64_t cr3;
    uint64_t cr4;
    uint64_t efer;
    uint64_t fs_base;
    uint64_t gs_base;
    uint64_t block_rip[16];
    uint16_t cs;
    uint16_t ss;
    uint16_t ds;
    uint16_t es;
    uint16_t fs;
    uint16_t gs;
    uint32_t vcpu;
    uint8_t cpl;
    uint8_t code_bits;
    uint8_t blocks;
    uint8_t all_blocks;
    uint32_t code_bytes;
    uint8_t code[32];
    uint32_t reserved;
    uint32_t reserved2;
};

struct hv_op_teardown {
    uint32_t phase; /* enum hv_teardown_phase */
    uint32_t reserved;
    uint64_t pages_total;
    uint64_t pages_left;
    uint64_t pages_held;
    uint64_t pages_per_s;
};

#define HV_OP_HOLDS_MAX 32u

struct hv_op_hold {
    char mapper[32];
    uint64_t frames;
};

struct hv_op_holds {
    uint64_t count; /* that there are; as many as there is room for stand here */
    struct hv_op_hold hold[HV_OP_HOLDS_MAX];
};

/* Only as many of @data are sent as there are bytes. */
struct hv_op_console {
    uint64_t handle;
    uint64_t position; /* output: how many came before these, lost ones too; input: 0 */
    uint32_t bytes;    /* at least 1 */
    uint32_t reserved;
    uint8_t data[HV_OP_CONSOLE_BYTES];
};

struct hv_op_taken {
    uint64_t bytes;
};

struct hv_op_attached {
    uint64_t position; /* of the oldest byte that is still there: it comes next */
};

struct hv_op_accept {
    uint64_t handle;
    uint64_t position; /* all before it */
};

/*
 * It has changed: this is how it is now. States in between may be left out, the last one never is.
 * After HV_DOMAIN_STATE_GONE nothing of it comes any more.
 */
struct hv_op_state {
    uint64_t handle;
    struct hv_op_status status;
};

/* No compiler puts anything between members. */
HV_STATIC_ASSERT(sizeof(struct hv_op_welcome) == 48, "version 1");
HV_STATIC_ASSERT(sizeof(struct hv_op_listed) == 80 && sizeof(struct hv_op_listing) == 3848,
                 "version 1");
HV_STATIC_ASSERT(sizeof(struct hv_op_stats_list) == 32 && sizeof(struct hv_op_histogram) == 32,
                 "version 1");
HV_STATIC_ASSERT(sizeof(struct hv_op_sampling) == 64, "version 1");
HV_STATIC_ASSERT(sizeof(struct hv_sched_parameters) == 40, "version 1");
HV_STATIC_ASSERT(sizeof(struct hv_op_create) == 160, "version 1");
HV_STATIC_ASSERT(sizeof(struct hv_op_layout) == 64 && sizeof(struct hv_op_made) == 136,
                 "version 1");
HV_STATIC_ASSERT(sizeof(struct hv_op_status) == 152, "version 1");
HV_STATIC_ASSERT(sizeof(struct hv_op_set_boot) == 72, "version 1");
HV_STATIC_ASSERT(sizeof(struct hv_op_copy) == 32, "version 1");
HV_STATIC_ASSERT(sizeof(struct hv_op_set_tick) == 40, "version 1");
HV_STATIC_ASSERT(sizeof(struct hv_op_crash) == 392, "version 1");
HV_STATIC_ASSERT(sizeof(struct hv_op_teardown) == 40, "version 1");
HV_STATIC_ASSERT(sizeof(struct hv_op_holds) == 1288, "version 1");
HV_STATIC_ASSERT(sizeof(struct hv_op_console) == 24 + HV_OP_CONSOLE_BYTES, "version 1");

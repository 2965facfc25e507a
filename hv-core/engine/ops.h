/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What executes guest code: one table an engine, and thin wrappers that are the only callers.
 *
 * The run loop (domain/run.c) owns everything around a run: interrupts chosen, timers, exits. An
 * engine returns at an instruction boundary with all of struct hv_cpu exact.
 *
 * Source: NetBSD NVMM's nvmm_impl for the shape of the seam.
 */
#pragma once

#include "cpu/access.h"
#include "mem/memory.h"

enum hv_exit_kind {
    HV_EXIT_PREEMPT,    /* the doorbell rang: requests are to be served */
    HV_EXIT_DEADLINE,   /* deadline or instruction budget reached */
    HV_EXIT_HLT,        /* HLT with nothing deliverable */
    HV_EXIT_IO,         /* a device access is outstanding (decisions D9): run again when done */
    HV_EXIT_HYPERCALL,  /* VMCALL or VMMCALL in CPL 0: result in RAX, RIP is behind it */
    HV_EXIT_SHUTDOWN,   /* triple fault */
    HV_EXIT_RESET_CPU,  /* INIT was taken */
    HV_EXIT_PAUSE_LOOP, /* many PAUSEs in a row: let another run */
    HV_EXIT_NO_MEMORY,  /* the host has no memory for a page: pause the domain */
    HV_EXIT_ERROR,      /* exit->error: the engine cannot go on; crash the domain */
    HV_EXIT_KINDS,
};

struct hv_exit {
    enum hv_exit_kind kind;
    int error;          /* HV_EXIT_ERROR: negative errno */
    const char *reason; /* static text for HV_EXIT_ERROR */
};

/* Device accesses, handed down at creation: complete inline, or -EAGAIN (see platform/bus.h). */
struct hv_engine_io {
    int (*pio_read)(void *context, uint16_t port, unsigned bytes, uint64_t *value_out);
    int (*pio_write)(void *context, uint16_t port, unsigned bytes, uint64_t value);
    int (*mmio_read)(void *context, hv_gpa gpa, unsigned bytes, uint64_t *value_out);
    int (*mmio_write)(void *context, hv_gpa gpa, unsigned bytes, uint64_t value);
};

struct hv_engine_domain; /* engine's own, one a domain: the block cache */
struct hv_engine_vcpu;   /* engine's own, one a vCPU: TLBs */

struct hv_engine_vcpu_config {
    unsigned index;
    struct hv_cpu *cpu;       /* borrowed for the vCPU's life */
    struct hv_memory *memory; /* borrowed */
    struct hv_doorbell *bell; /* borrowed: polled at block edges */
    struct hv_holder *holder; /* borrowed, registered by the caller */
    const struct hv_clock *clock;
    /* Borrowed, the vCPU thread's own: PAUSEs in one burst that make a HV_EXIT_PAUSE_LOOP; looked at
     * at each. NULL: 1,024. */
    const uint32_t *pause_window;
    const struct hv_engine_io *io;
    void *io_context;
    bool force_io_exit; /* debugging: leave with HV_EXIT_IO at every device access */
    bool trace_blocks;  /* debugging: record every block, whatever it costs */
};

/* What an engine counts; single writer, relaxed readers. Names as in docs/stats.md. */
struct hv_engine_counters {
    _Atomic uint64_t instructions, blocks, block_invalidations, tlb_fills;
    _Atomic uint64_t exits[HV_EXIT_KINDS];
};

/*
 * The way to where a vCPU crashed, for the report of a triple fault: pieces of straight code as the
 * engine knows them. Without trace_blocks those are left out that others led to at full speed.
 */
#define HV_ENGINE_TRACE_BLOCKS 16
struct hv_engine_trace {
    unsigned count;
    bool complete;                              /* nothing is left out */
    uint64_t block_rip[HV_ENGINE_TRACE_BLOCKS]; /* linear addresses, oldest first */
    uint8_t code[32]; /* bytes at the last RIP, as far as they can be read */
    unsigned code_bytes;
};

struct hv_engine_ops {
    const char *name; /* "soft", "kvm" */
    /** Can it run here? False with a reason in @why (@size bytes). */
    bool (*probe)(char *why, size_t size);
    int (*domain_create)(struct hv_memory *memory, struct hv_engine_domain **domain_out);
    /**
     * All its vCPUs are destroyed: free some of the memory it has, about a MiB. False when what is left
     * is small. So a domain's end is steps that take no one's CPU for long.
     */
    bool (*domain_shrink)(struct hv_engine_domain *domain);
    void (*domain_destroy)(struct hv_engine_domain *domain);
    int (*vcpu_create)(struct hv_engine_domain *domain, const struct hv_engine_vcpu_config *config,
                       struct hv_engine_vcpu **vcpu_out);
    void (*vcpu_destroy)(struct hv_engine_vcpu *vcpu);
    void (*run)(struct hv_engine_vcpu *vcpu, hv_ns deadline, uint64_t insn_budget,
                struct hv_exit *exit_out);
    /** The registers in struct hv_cpu were changed from outside: forget what was derived. */
    void (*state_changed)(struct hv_engine_vcpu *vcpu);
    /** Serve flush, epoch and code requests while OUTSIDE. Called by the run loop before entry. */
    void (*serve)(struct hv_engine_vcpu *vcpu, uint32_t requests);
    void (*revoke_code)(struct hv_engine_domain *domain, hv_gfn gfn);
    void (*get_trace)(struct hv_engine_vcpu *vcpu, struct hv_engine_trace *trace_out);
    const struct hv_engine_counters *(*counters)(const struct hv_engine_vcpu *vcpu);
    /** Of the memory that the domain keeps translations in, what is in use now. */
    uint64_t (*cache_bytes)(const struct hv_engine_domain *domain);
    const struct hv_access *(*access)(struct hv_engine_vcpu *vcpu);
};

/** The engines built in, first choice first, NULL at the end. */
extern const struct hv_engine_ops *const hv_engines[];

/**
 * Choose an engine.
 *
 * @name  "auto" for the first whose probe says yes, or one's own name.
 *
 * Returns it; NULL with the reason in @why (@size bytes) when it is unknown or cannot run here.
 */
const struct hv_engine_ops *hv_engine_find(const char *name, char *why, size_t size);

/**
 * Run until an exit.
 *
 * @deadline     by the vCPU's clock; the deadline thread rings the bell then.
 * @insn_budget  guest instructions, 0 for no bound; overrun by less than one block.
 *
 * Context: the vCPU's thread, mode OUTSIDE, no lock held. Delivers what hv_event_poll() finds
 * before the first instruction and whenever the bell says EVENT.
 */
void hv_engine_run(const struct hv_engine_ops *ops, struct hv_engine_vcpu *vcpu, hv_ns deadline,
                   uint64_t insn_budget, struct hv_exit *exit_out);

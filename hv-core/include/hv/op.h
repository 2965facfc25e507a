/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The operations of hv/domain.h as messages, for a control side that is another process: packets of a
 * Unix SOCK_SEQPACKET socket, each one message, some with file descriptors (SCM_RIGHTS).
 *
 *     controller                              core
 *     HELLO                      ------>
 *                                <------      its answer, with staging and statistics
 *     requests, any serials      ------>      some are at work at a time, the others wait
 *                                <------      answers, as they are ready: in any order
 *                                <------      events, of serial 0, at any time
 *
 * One controller holds the lease. The next who wants it takes it away: the connection of the one
 * before is closed, what was still to be begun for it is forgotten, and machines that it made and did
 * not keep (HV_OP_KEEP, HV_OP_UNPAUSE) are undone; only then is the next one's HELLO answered, so that
 * requests of two leases never overlap. Machines that were kept live on without a controller.
 *
 * Guest memory is copied through the staging area, a file in memory that the core has made for this
 * lease; each request names a part of it. Both have it mapped, so that it may change at any moment: the
 * core reads nothing there that it would have to believe. Lists of statistics come in files of their
 * own, sealed whole.
 *
 * Numbers are the host's own, little endian; structures have no holes; `reserved` is 0, and texts are
 * zero from their end on. A request that is not so is answered by -EPROTO; one without a whole header,
 * or that is longer than any, or brings a descriptor, ends the connection.
 */
#pragma once

#include <hv/op-body.h>

/* "LodgeCor", in that order in memory. */
#define HV_OP_MAGIC            UINT64_C(0x726f436567646f4c)
/* Another layout, or meaning, is another number. */
#define HV_OP_VERSION          1u

/* The staging area. */
#define HV_OP_STAGING_BYTES    (2 * HV_MIB)
/* Descriptors with a message, at most. */
#define HV_OP_FDS_MAX          2u
/* Of a list of statistics; what there is beyond is left out. */
#define HV_OP_STAT_RECORDS_MAX 500000u
#define HV_OP_HISTOGRAMS_MAX   20000u

/*
 * A new one comes last: cores that run outlive the program that is updated, and each number is theirs too.
 * Who is asked for one that it does not know answers -EPROTO, and goes on.
 */
enum hv_op {
    HV_OP_HELLO = 1,  /* hv_op_hello -> hv_op_welcome, and descriptors */
    HV_OP_LIST,       /* hv_op_after -> hv_op_listing */
    HV_OP_STATS,      /* hv_op_stats -> hv_op_stats_list, and a descriptor */
    HV_OP_SAMPLING,   /* hv_op_sampling -> nothing */
    HV_OP_CREATE,     /* hv_op_create -> hv_op_made */
    HV_OP_GET,        /* hv_op_domain -> hv_op_made */
    HV_OP_KEEP,       /* hv_op_domain -> nothing: it is whole, and outlives its controller */
    HV_OP_UNPAUSE,    /* hv_op_domain -> nothing; it is kept */
    HV_OP_PAUSE,      /* hv_op_domain -> nothing */
    HV_OP_RESET,      /* hv_op_domain -> nothing */
    HV_OP_POWER,      /* hv_op_domain -> nothing: hv_domain_press_power() */
    HV_OP_KILL,       /* hv_op_domain -> nothing */
    HV_OP_STATUS,     /* hv_op_domain -> hv_op_status */
    HV_OP_SET_BOOT,   /* hv_op_set_boot -> nothing */
    HV_OP_COPY,       /* hv_op_copy -> nothing: hv_guest_copy() */
    HV_OP_SET_SCHED,  /* hv_op_set_sched -> nothing */
    HV_OP_GET_SCHED,  /* hv_op_domain -> hv_sched_parameters */
    HV_OP_SET_TICK,   /* hv_op_set_tick -> nothing */
    HV_OP_CRASH,      /* hv_op_domain -> hv_op_crash: hv_domain_get_crash() */
    HV_OP_TEARDOWN,   /* hv_op_domain -> hv_op_teardown */
    HV_OP_HOLDS,      /* hv_op_domain -> hv_op_holds */
    HV_OP_CONSOLE_IN, /* hv_op_console, as long as its bytes -> hv_op_taken */
    HV_OP_ATTACH,     /* hv_op_domain -> hv_op_attached: its console's output, from now on */
    HV_OP_ACCEPT,     /* hv_op_accept: output that was taken; there is no answer */
    HV_OP_STATE,      /* event: hv_op_state */
    HV_OP_CONSOLE,    /* event: hv_op_console, as long as its bytes */
    HV_OP_NMI,        /* hv_op_domain -> nothing: hv_domain_press_nmi() */
    HV_OP_EXPORT,     /* hv_op_export -> nothing: hv_core_write_stats() */
    HV_OPS,
};

struct hv_op_header {
    uint32_t bytes;  /* of the whole message */
    uint32_t op;     /* enum hv_op; an answer's is its request's */
    uint64_t serial; /* the controller's choice, not 0; an answer's is its request's */
    int32_t result;  /* of an answer: 0, or a negative errno, and then hv_op_refusal follows */
    uint32_t reserved;
};

struct hv_op_request {
    struct hv_op_header header;
    union {
        struct hv_op_hello hello;
        struct hv_op_after after;
        struct hv_op_stats stats;
        struct hv_op_export export;
        struct hv_op_sampling sampling;
        struct hv_op_create create;
        struct hv_op_domain domain;
        struct hv_op_set_boot set_boot;
        struct hv_op_copy copy;
        struct hv_op_set_sched set_sched;
        struct hv_op_set_tick set_tick;
        struct hv_op_console console;
        struct hv_op_accept accept;
    } body;
};

/* An answer, or an event. */
struct hv_op_answer {
    struct hv_op_header header;
    union {
        struct hv_op_refusal refusal;
        struct hv_op_welcome welcome;
        struct hv_op_listing listing;
        struct hv_op_stats_list stats;
        struct hv_op_made made;
        struct hv_op_status status;
        struct hv_sched_parameters sched;
        struct hv_op_crash crash;
        struct hv_op_teardown teardown;
        struct hv_op_holds holds;
        struct hv_op_taken taken;
        struct hv_op_attached attached;
        struct hv_op_state state;
        struct hv_op_console console;
    } body;
};

HV_STATIC_ASSERT(sizeof(struct hv_op_header) == 24, "version 1");
HV_STATIC_ASSERT(offsetof(struct hv_op_request, body) == sizeof(struct hv_op_header) &&
                     offsetof(struct hv_op_answer, body) == sizeof(struct hv_op_header),
                 "a body follows its header");

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The threads that do what requests ask for, and the requests that wait for one of them. Some
 * operations wait for vCPUs; the others need not wait for them.
 *
 *     free --hv_workers_take--> (server's) --hv_workers_submit--> ready --a thread--> at work --> free
 *     (server's) --hv_workers_give_back--> free          ready --hv_workers_cancel--> free
 *
 * There are no more requests than HV_WORKERS_REQUESTS: who wants to read another one waits until one
 * is free, and its peer with it.
 */
#pragma once

#include "base/list.h"
#include "sync/eventcount.h"
#include "sync/lock.h"

#include <pthread.h>

#include <hv/op.h>

#define HV_WORKERS_THREADS  4u
#define HV_WORKERS_REQUESTS 32u

struct hv_link;

struct hv_work {
    struct hv_list list;
    struct hv_link *link; /* borrowed: it stays until its requests are done */
    const char *fault;    /* NULL, or what is wrong with the request */
    struct hv_op_request request;
};

struct hv_workers {
    struct hv_lock lock; /* HV_RANK_LEAF */
    /* Guarded by &lock. */
    struct hv_list free, ready;
    unsigned at_work;
    bool server_waits; /* for the next that is done */
    /* Atomic. */
    _Atomic uint32_t stopping;
    struct hv_eventcount work; /* something is ready, or it stops */
    /* Set at creation. */
    struct hv_lock_owner *owner; /* borrowed: whose locks those are that requests make */
    void (*run)(void *context, const struct hv_work *work);
    void (*done)(void *context); /* for a server that waits; no lock held */
    void *context;
    unsigned threads;
    pthread_t thread[HV_WORKERS_THREADS];
    struct hv_work works[HV_WORKERS_REQUESTS];
};

/**
 * Start the threads; what is set at creation stands in @workers already, zeros elsewhere. -EAGAIN.
 * hv_workers_finish() after that, too.
 */
HV_MUST_CHECK int hv_workers_init(struct hv_workers *workers);
/** Nothing is ready, nor at work. */
void hv_workers_finish(struct hv_workers *workers);

/** One that is free, or NULL; then done() is called when there is one. */
HV_MUST_CHECK struct hv_work *hv_workers_take(struct hv_workers *workers);
void hv_workers_give_back(struct hv_workers *workers, struct hv_work *work);
void hv_workers_submit(struct hv_workers *workers, struct hv_work *work);

/** Forget what is ready. */
void hv_workers_cancel(struct hv_workers *workers);
/** Whether nothing is ready, nor at work; if something is, done() is called when one is done. */
HV_MUST_CHECK bool hv_workers_idle(struct hv_workers *workers);

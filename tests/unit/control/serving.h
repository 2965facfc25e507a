/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A core that is served in this process, on a thread of its own, to peers of a socket. */
#pragma once

#include "control/server.h"
#include "peer.h"

#include <pthread.h>

struct serving {
    struct hv_core *core;
    struct hv_control *control;
    int listener;
    char name[32]; /* of the abstract socket */
    pthread_t thread;
    _Atomic bool ended; /* hv_control_run() has returned */
};

/** Room for four machines of 16 MiB. False: the case has failed. */
bool serving_start(struct serving *serving, uint64_t linger_ns);
void serving_stop(struct serving *serving);

/** Connect a socket. */
bool serving_reach(const struct serving *serving, int fd);
/** A connected descriptor, or -1. */
int serving_connect(const struct serving *serving);
/** Connect, and ask for the lease. */
bool serving_join(const struct serving *serving, struct peer *peer);
/** How many domains there are, dead ones too. */
size_t serving_domains(const struct serving *serving);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The keyboard controller with a keyboard and a mouse that answer when they are spoken to and are
 * never touched; and system control port A (92h). What guests need it for is to be found, and to
 * reset the machine.
 *
 * Threads: any; one lock, HV_RANK_DEVICE. The hook is called without it.
 * Source: IBM PS/2 Hardware Interface Technical Reference (1988), keyboard and auxiliary device
 * controller; 82371SB (PIIX3) 2.5.7 for port 92h.
 */
#pragma once

#include "platform/bus.h"
#include "platform/irq.h"
#include "platform/record.h"
#include "sync/lock.h"

#define HV_I8042_QUEUE          16u
#define HV_I8042_RECORD_VERSION 1

enum hv_i8042_source {
    HV_I8042_KEYBOARD, /* and the controller itself */
    HV_I8042_MOUSE,
};

struct hv_i8042 {
    struct hv_lock lock; /* HV_RANK_DEVICE */
    /* Set at creation. */
    struct hv_irq_line irq[2];    /* IRQ 1 and IRQ 12, by enum hv_i8042_source */
    void (*reset)(void *context); /* no lock held */
    void *reset_context;
    /* Guarded by &lock. */
    uint8_t command_byte;
    uint8_t output_port;
    uint8_t port92;
    uint8_t command;      /* the controller command that waits for its byte; 0 for none */
    uint8_t parameter[2]; /* the devices' commands that wait for theirs; 0 for none */
    uint8_t last;         /* what port 60h reads when the queue is empty */
    /* Bytes for port 60h; the first is in the output buffer. */
    uint8_t count;
    uint8_t byte[HV_I8042_QUEUE];
    uint8_t source[HV_I8042_QUEUE]; /* enum hv_i8042_source */
};

struct hv_i8042_record {
    uint32_t version;
    uint8_t command_byte, output_port, port92, command, parameter[2], last, count;
    uint8_t byte[HV_I8042_QUEUE], source[HV_I8042_QUEUE];
};

/** Make it on ports 60h, 64h and 92h. @irq are IRQ 1 and IRQ 12. Errors of hv_bus_add(). */
HV_MUST_CHECK int hv_i8042_init(struct hv_i8042 *i8042, struct hv_bus *bus,
                                const struct hv_irq_line irq[2], void (*reset)(void *context),
                                void *reset_context);
void hv_i8042_finish(struct hv_i8042 *i8042);
void hv_i8042_reset(struct hv_i8042 *i8042);

void hv_i8042_save(struct hv_i8042 *i8042, struct hv_i8042_record *record_out);
const char *hv_i8042_check(const struct hv_i8042_record *record);
void hv_i8042_load(struct hv_i8042 *i8042, const struct hv_i8042_record *record);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A 16550A serial port of infinite speed.
 *
 *     THR --> output ring --drain, no lock held--> console sink
 *     console --> input ring --> RBR          (its first 16 bytes are the receiver FIFO)
 *
 * Both rings are bounded. While the sink takes nothing the output ring fills, and then the
 * transmitter holding register is not empty: the guest waits or gives up as it would on a line with
 * flow control, and what it writes all the same is lost and counted. No vCPU is ever held up.
 *
 * Threads: any; one lock, HV_RANK_DEVICE. One thread at a time drains, so that bytes stay in order.
 * Source: National Semiconductor PC16550D data sheet (1995), section 8.
 */
#pragma once

#include "platform/bus.h"
#include "platform/irq.h"
#include "platform/record.h"
#include "sync/lock.h"

#include <hv/domain.h>

#define HV_UART_PORT           0x3f8
#define HV_UART_IRQ            4
#define HV_UART_RING           2048u /* bytes, a power of two */
#define HV_UART_FIFO           16u
#define HV_UART_RECORD_VERSION 1

struct hv_uart_ring {
    uint32_t head, count; /* first byte, bytes */
    uint8_t byte[HV_UART_RING];
};

struct hv_uart_counters {
    _Atomic uint64_t transmitted, received, lost;
};

struct hv_uart {
    struct hv_lock lock; /* HV_RANK_DEVICE */
    /* Set at creation. */
    struct hv_irq_line irq;
    const struct hv_console_ops *console; /* borrowed; NULL: output goes nowhere */
    void *console_context;
    /* Guarded by &lock. */
    uint8_t ier, lcr, mcr, scr, fcr;
    uint8_t lsr_errors; /* overrun */
    uint8_t msr_delta;
    uint16_t divisor;
    bool thr_interrupt; /* THR has become empty, and IIR has not told yet */
    bool irq_high;
    bool draining; /* a thread is in the sink */
    bool blocked;  /* the sink took less than it was given: wait until it is writable */
    bool unblock;  /* it has become writable while a thread was in it */
    struct hv_uart_ring input, output;
    struct hv_uart_counters counters;
};

struct hv_uart_record {
    uint32_t version;
    uint32_t input_bytes, output_bytes;
    uint16_t divisor;
    uint8_t ier, lcr, mcr, scr, fcr, lsr_errors, msr_delta, thr_interrupt, irq_high;
    uint8_t reserved[1];
    uint8_t input[HV_UART_RING], output[HV_UART_RING];
};

/** Make it on ports 3f8h to 3ffh. @console is borrowed. Errors of hv_bus_add(). */
HV_MUST_CHECK int hv_uart_init(struct hv_uart *uart, struct hv_bus *bus,
                               const struct hv_irq_line *irq, const struct hv_console_ops *console,
                               void *console_context);
void hv_uart_finish(struct hv_uart *uart);
/** Master reset. Output that the sink has not taken yet stays in its ring. */
void hv_uart_reset(struct hv_uart *uart);

/** Bytes from the other end; returns how many were taken. Any thread. */
size_t hv_uart_input(struct hv_uart *uart, const uint8_t *data, size_t bytes);
/** The sink takes bytes again. Any thread, no lock held. */
void hv_uart_writable(struct hv_uart *uart);

void hv_uart_save(struct hv_uart *uart, struct hv_uart_record *record_out);
const char *hv_uart_check(const struct hv_uart_record *record);
void hv_uart_load(struct hv_uart *uart, const struct hv_uart_record *record);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The 16550A: registers, interrupts, and the way of its bytes. */
#include "platform/uart.h"

#include <string.h>

/* Register offsets (PC16550D, table II). */
enum uart_register {
    UART_DATA,
    UART_IER,
    UART_IIR, /* read; written: FCR */
    UART_LCR,
    UART_MCR,
    UART_LSR,
    UART_MSR,
    UART_SCR,
};

enum uart_ier { /* 8.5 */
                UART_IER_RECEIVED = 1u << 0,
                UART_IER_THR = 1u << 1,
                UART_IER_LINE = 1u << 2,
                UART_IER_MODEM = 1u << 3,
                UART_IER_MASK = 0x0f,
};

enum uart_iir { /* table IV */
                UART_IIR_MODEM = 0x0,
                UART_IIR_NONE = 0x1,
                UART_IIR_THR = 0x2,
                UART_IIR_RECEIVED = 0x4,
                UART_IIR_LINE = 0x6,
                UART_IIR_TIMEOUT = 0xc,
                UART_IIR_FIFOS = 0xc0,
};

enum uart_fcr { /* 8.4 */
                UART_FCR_ENABLE = 1u << 0,
                UART_FCR_CLEAR_RECEIVER = 1u << 1,
                UART_FCR_KEPT = 0xc9,
                UART_FCR_TRIGGER_SHIFT = 6,
};

enum uart_mcr { /* 8.6 */
                UART_MCR_DTR = 1u << 0,
                UART_MCR_RTS = 1u << 1,
                UART_MCR_OUT1 = 1u << 2,
                UART_MCR_OUT2 = 1u << 3, /* on a PC: lets the interrupt out */
                UART_MCR_LOOP = 1u << 4,
                UART_MCR_MASK = 0x1f,
};

enum uart_lsr { /* 8.3 */
                UART_LSR_READY = 1u << 0,
                UART_LSR_OVERRUN = 1u << 1,
                UART_LSR_THR_EMPTY = 1u << 5,
                UART_LSR_EMPTY = 1u << 6,
};

enum uart_msr { /* 8.8; the low four bits say which of the high four has changed */
                UART_MSR_CTS = 1u << 4,
                UART_MSR_DSR = 1u << 5,
                UART_MSR_RI = 1u << 6,
                UART_MSR_DCD = 1u << 7,
                UART_MSR_RI_ENDED = 1u << 2,
};

#define UART_LCR_DLAB 0x80u
#define UART_CHUNK    256u /* bytes given to the sink at once */

static const uint8_t uart_trigger[] = {1, 4, 8, 14}; /* 8.4, bits 6 and 7 */

static bool uart_push(struct hv_uart_ring *ring, uint8_t byte)
{
    if (ring->count == HV_UART_RING) {
        return false;
    }
    ring->byte[(ring->head + ring->count) % HV_UART_RING] = byte;
    ring->count++;
    return true;
}

/* Copy out the first bytes, at most @bytes, and leave them there. */
static uint32_t uart_peek(const struct hv_uart_ring *ring, uint8_t *to, uint32_t bytes)
{
    uint32_t count = ring->count < bytes ? ring->count : bytes;

    for (uint32_t i = 0; i < count; i++) {
        to[i] = ring->byte[(ring->head + i) % HV_UART_RING];
    }
    return count;
}

static void uart_pop(struct hv_uart_ring *ring, uint32_t bytes)
{
    ring->head = (ring->head + bytes) % HV_UART_RING;
    ring->count -= bytes;
}

static bool uart_fifos(const struct hv_uart *uart)
{
    return uart->fcr & UART_FCR_ENABLE;
}

/* A whole transmitter FIFO fits: that is what "empty" promises the guest. */
static bool uart_thr_empty(const struct hv_uart *uart)
{
    return uart->output.count + HV_UART_FIFO <= HV_UART_RING;
}

static uint8_t uart_modem(const struct hv_uart *uart)
{
    unsigned mcr = uart->mcr;

    if (!(mcr & UART_MCR_LOOP)) {
        return UART_MSR_CTS | UART_MSR_DSR | UART_MSR_DCD;
    }
    return (uint8_t)((mcr & UART_MCR_RTS ? UART_MSR_CTS : 0u) |
                     (mcr & UART_MCR_DTR ? UART_MSR_DSR : 0u) |
                     (mcr & UART_MCR_OUT1 ? UART_MSR_RI : 0u) |
                     (mcr & UART_MCR_OUT2 ? UART_MSR_DCD : 0u));
}

/* Table IV, by priority. No time passes between characters: below the trigger level is a timeout.*/
static uint8_t uart_iir(const struct hv_uart *uart)
{
    uint32_t trigger = uart_trigger[uart->fcr >> UART_FCR_TRIGGER_SHIFT];

    if ((uart->ier & UART_IER_LINE) && uart->lsr_errors) {
        return UART_IIR_LINE;
    }
    if ((uart->ier & UART_IER_RECEIVED) && uart->input.count) {
        return uart_fifos(uart) && uart->input.count < trigger ? UART_IIR_TIMEOUT
                                                               : UART_IIR_RECEIVED;
    }
    if ((uart->ier & UART_IER_THR) && uart->thr_interrupt) {
        return UART_IIR_THR;
    }
    if ((uart->ier & UART_IER_MODEM) && uart->msr_delta) {
        return UART_IIR_MODEM;
    }
    return UART_IIR_NONE;
}

/* OUT2 gates the interrupt; in loopback it is held inactive (8.6, bit 4). */
static bool uart_interrupts(const struct hv_uart *uart)
{
    return (uart->mcr & (UART_MCR_OUT2 | UART_MCR_LOOP)) == UART_MCR_OUT2 &&
           uart_iir(uart) != UART_IIR_NONE;
}

static void uart_drive_locked(struct hv_uart *uart) HV_REQUIRES(&uart->lock)
{
    bool high = uart_interrupts(uart);

    if (high != uart->irq_high) {
        uart->irq_high = high;
        hv_irq_line_set(&uart->irq, high);
    }
}

/*
 * Take a chunk for the sink and be the one who drains; 0 when there is nothing to do or somebody
 * does it already.
 */
static uint32_t uart_drain_begin(struct hv_uart *uart, uint8_t chunk[UART_CHUNK])
{
    uint32_t bytes = 0;

    hv_lock_take(&uart->lock);
    if (!uart->draining && !uart->blocked && uart->output.count > 0) {
        bytes = uart_peek(&uart->output, chunk, UART_CHUNK);
        uart->draining = true;
    }
    hv_lock_drop(&uart->lock);
    return bytes;
}

static void uart_drain_end(struct hv_uart *uart, uint32_t bytes, uint32_t taken)
{
    bool was_empty;

    hv_lock_take(&uart->lock);
    was_empty = uart_thr_empty(uart);
    uart_pop(&uart->output, taken);
    hv_count(&uart->counters.transmitted, taken);
    uart->draining = false;
    uart->blocked = taken < bytes && !uart->unblock;
    uart->unblock = false;
    if (!was_empty && uart_thr_empty(uart)) {
        uart->thr_interrupt = true;
        uart_drive_locked(uart);
    }
    hv_lock_drop(&uart->lock);
}

static void uart_drain(struct hv_uart *uart)
{
    uint8_t chunk[UART_CHUNK];
    uint32_t bytes;

    for (bytes = uart_drain_begin(uart, chunk); bytes > 0; bytes = uart_drain_begin(uart, chunk)) {
        size_t taken = bytes;

        if (uart->console) {
            taken = uart->console->write(uart->console_context, chunk, bytes);
        }
        uart_drain_end(uart, bytes, taken < bytes ? (uint32_t)taken : bytes);
    }
}

static void uart_write_thr_locked(struct hv_uart *uart, uint8_t byte) HV_REQUIRES(&uart->lock)
{
    if (uart->mcr & UART_MCR_LOOP) {
        /* Only as much as the receiver holds: the input ring behind it is the host's. */
        if (uart->input.count >= (uart_fifos(uart) ? HV_UART_FIFO : 1) ||
            !uart_push(&uart->input, byte)) {
            uart->lsr_errors |= UART_LSR_OVERRUN;
        }
    } else if (!uart_push(&uart->output, byte)) {
        hv_count(&uart->counters.lost, 1);
    }
    /* The byte leaves at once; unless the ring is full, THR is empty again. */
    uart->thr_interrupt = uart_thr_empty(uart);
}

static void uart_write_fcr_locked(struct hv_uart *uart, uint8_t value) HV_REQUIRES(&uart->lock)
{
    bool switched = (uart->fcr ^ value) & UART_FCR_ENABLE;

    /* 8.4: the other bits are written only together with the enable bit. */
    if (switched || (value & UART_FCR_CLEAR_RECEIVER)) {
        uint32_t held = uart_fifos(uart) ? HV_UART_FIFO : 1;

        uart_pop(&uart->input, uart->input.count < held ? uart->input.count : held);
    }
    uart->fcr = value & UART_FCR_ENABLE ? value & UART_FCR_KEPT : 0;
}

static void uart_write_mcr_locked(struct hv_uart *uart, uint8_t value) HV_REQUIRES(&uart->lock)
{
    uint8_t before = uart_modem(uart);
    uint8_t change;

    uart->mcr = value & UART_MCR_MASK;
    change = before ^ uart_modem(uart);
    if (change & UART_MSR_RI) {
        /* Of the ring indicator only the end counts (8.8, bit 2). */
        change &= (uint8_t)~UART_MSR_RI;
        uart->msr_delta |= before & UART_MSR_RI ? UART_MSR_RI_ENDED : 0;
    }
    uart->msr_delta |= change >> 4;
}

static void uart_write_ier_locked(struct hv_uart *uart, uint8_t value) HV_REQUIRES(&uart->lock)
{
    if ((value & UART_IER_THR) && !(uart->ier & UART_IER_THR) && uart_thr_empty(uart)) {
        uart->thr_interrupt = true; /* enabling it while THR is empty interrupts at once */
    }
    uart->ier = value & UART_IER_MASK;
}

static void uart_write_locked(struct hv_uart *uart, uint64_t offset, uint8_t value)
    HV_REQUIRES(&uart->lock)
{
    bool divisor = uart->lcr & UART_LCR_DLAB;

    switch ((enum uart_register)offset) {
    case UART_DATA:
        if (divisor) {
            uart->divisor = (uint16_t)((uart->divisor & 0xff00) | value);
        } else {
            uart_write_thr_locked(uart, value);
        }
        break;
    case UART_IER:
        if (divisor) {
            uart->divisor = (uint16_t)((uart->divisor & 0x00ff) | value << 8);
        } else {
            uart_write_ier_locked(uart, value);
        }
        break;
    case UART_IIR:
        uart_write_fcr_locked(uart, value);
        break;
    case UART_LCR:
        uart->lcr = value;
        break;
    case UART_MCR:
        uart_write_mcr_locked(uart, value);
        break;
    case UART_SCR:
        uart->scr = value;
        break;
    case UART_LSR:
    case UART_MSR: /* read-only but for factory tests */
        break;
    }
}

static int uart_write(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes, uint64_t value)
{
    struct hv_uart *uart = context;

    (void)vcpu;
    (void)bytes;
    hv_lock_take(&uart->lock);
    uart_write_locked(uart, offset, (uint8_t)value);
    uart_drive_locked(uart);
    hv_lock_drop(&uart->lock);
    if (offset == UART_DATA) {
        uart_drain(uart);
    }
    return 0;
}

static uint8_t uart_read_rbr_locked(struct hv_uart *uart) HV_REQUIRES(&uart->lock)
{
    uint8_t byte = 0;

    if (uart_peek(&uart->input, &byte, 1)) {
        uart_pop(&uart->input, 1);
    }
    return byte;
}

static uint8_t uart_read_locked(struct hv_uart *uart, uint64_t offset) HV_REQUIRES(&uart->lock)
{
    bool divisor = uart->lcr & UART_LCR_DLAB;
    uint8_t value = 0;

    switch ((enum uart_register)offset) {
    case UART_DATA:
        return divisor ? (uint8_t)uart->divisor : uart_read_rbr_locked(uart);
    case UART_IER:
        return divisor ? (uint8_t)(uart->divisor >> 8) : uart->ier;
    case UART_IIR:
        value = uart_iir(uart);
        if (value == UART_IIR_THR) {
            uart->thr_interrupt = false; /* table IV: reading it is its reset */
        }
        return value | (uart_fifos(uart) ? UART_IIR_FIFOS : 0);
    case UART_LCR:
        return uart->lcr;
    case UART_MCR:
        return uart->mcr;
    case UART_LSR:
        value = uart->lsr_errors;
        uart->lsr_errors = 0;
        value |= uart->input.count ? UART_LSR_READY : 0;
        value |= uart_thr_empty(uart) ? UART_LSR_THR_EMPTY : 0;
        return value | (uart->output.count ? 0 : UART_LSR_EMPTY);
    case UART_MSR:
        value = uart_modem(uart) | uart->msr_delta;
        uart->msr_delta = 0;
        return value;
    case UART_SCR:
        return uart->scr;
    }
    return value;
}

static int uart_read(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                     uint64_t *value_out)
{
    struct hv_uart *uart = context;

    (void)vcpu;
    (void)bytes;
    hv_lock_take(&uart->lock);
    *value_out = uart_read_locked(uart, offset);
    uart_drive_locked(uart);
    hv_lock_drop(&uart->lock);
    return 0;
}

static const struct hv_bus_ops uart_ops = {uart_read, uart_write};

int hv_uart_init(struct hv_uart *uart, struct hv_bus *bus, const struct hv_irq_line *irq,
                 const struct hv_console_ops *console, void *console_context)
{
    const struct hv_bus_range ports = {HV_UART_PORT, 8, &uart_ops, uart, "uart", 1};

    memset(uart, 0, sizeof(*uart));
    hv_lock_init(&uart->lock, HV_RANK_DEVICE, "platform.uart", 0);
    uart->irq = *irq;
    uart->console = console;
    uart->console_context = console_context;
    hv_uart_reset(uart);
    return hv_bus_add(bus, HV_BUS_PORT, &ports);
}

void hv_uart_finish(struct hv_uart *uart)
{
    hv_lock_finish(&uart->lock);
}

/* Table I: what master reset does. */
void hv_uart_reset(struct hv_uart *uart)
{
    hv_lock_take(&uart->lock);
    uart->ier = 0;
    uart->lcr = 0;
    uart->mcr = 0;
    uart->fcr = 0;
    uart->lsr_errors = 0;
    uart->msr_delta = 0;
    uart->thr_interrupt = false;
    uart_pop(&uart->input, uart->input.count);
    uart_drive_locked(uart);
    hv_lock_drop(&uart->lock);
}

size_t hv_uart_input(struct hv_uart *uart, const uint8_t *data, size_t bytes)
{
    size_t taken = 0;

    hv_lock_take(&uart->lock);
    while (taken < bytes && uart_push(&uart->input, data[taken])) {
        taken++;
    }
    hv_count(&uart->counters.received, taken);
    uart_drive_locked(uart);
    hv_lock_drop(&uart->lock);
    return taken;
}

void hv_uart_writable(struct hv_uart *uart)
{
    hv_lock_take(&uart->lock);
    uart->blocked = false;
    uart->unblock = uart->draining;
    hv_lock_drop(&uart->lock);
    uart_drain(uart);
}

void hv_uart_save(struct hv_uart *uart, struct hv_uart_record *record_out)
{
    memset(record_out, 0, sizeof(*record_out));
    hv_lock_take(&uart->lock);
    record_out->version = HV_UART_RECORD_VERSION;
    record_out->divisor = uart->divisor;
    record_out->ier = uart->ier;
    record_out->lcr = uart->lcr;
    record_out->mcr = uart->mcr;
    record_out->scr = uart->scr;
    record_out->fcr = uart->fcr;
    record_out->lsr_errors = uart->lsr_errors;
    record_out->msr_delta = uart->msr_delta;
    record_out->thr_interrupt = uart->thr_interrupt;
    record_out->irq_high = uart->irq_high;
    record_out->input_bytes = uart_peek(&uart->input, record_out->input, HV_UART_RING);
    record_out->output_bytes = uart_peek(&uart->output, record_out->output, HV_UART_RING);
    hv_lock_drop(&uart->lock);
}

const char *hv_uart_check(const struct hv_uart_record *record)
{
    if (record->version != HV_UART_RECORD_VERSION) {
        return "uart.version";
    }
    if (record->input_bytes > HV_UART_RING) {
        return "uart.input_bytes";
    }
    if (record->output_bytes > HV_UART_RING) {
        return "uart.output_bytes";
    }
    if (record->ier & ~UART_IER_MASK) {
        return "uart.ier";
    }
    if (record->mcr & ~UART_MCR_MASK) {
        return "uart.mcr";
    }
    if (record->fcr & ~UART_FCR_KEPT) {
        return "uart.fcr";
    }
    if (record->lsr_errors & ~UART_LSR_OVERRUN) {
        return "uart.lsr_errors";
    }
    if (record->msr_delta > 0xf) {
        return "uart.msr_delta";
    }
    if (hv_record_not_bool(record->thr_interrupt) || hv_record_not_bool(record->irq_high)) {
        return "uart.flags";
    }
    return NULL;
}

void hv_uart_load(struct hv_uart *uart, const struct hv_uart_record *record)
{
    hv_lock_take(&uart->lock);
    uart->divisor = record->divisor;
    uart->ier = record->ier;
    uart->lcr = record->lcr;
    uart->mcr = record->mcr;
    uart->scr = record->scr;
    uart->fcr = record->fcr;
    uart->lsr_errors = record->lsr_errors;
    uart->msr_delta = record->msr_delta;
    uart->thr_interrupt = record->thr_interrupt;
    uart->irq_high = record->irq_high;
    uart->input = (struct hv_uart_ring){.count = record->input_bytes};
    uart->output = (struct hv_uart_ring){.count = record->output_bytes};
    memcpy(uart->input.byte, record->input, record->input_bytes);
    memcpy(uart->output.byte, record->output, record->output_bytes);
    hv_lock_drop(&uart->lock);
    uart_drain(uart);
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The 16550A: registers, interrupts, loopback, and a console that will not take any more. */
#include "platform/uart.h"

#include <pthread.h>
#include <string.h>

#include "lib/tap.h"
#include "unit/platform/rig.h"

#define PORT 0x3f8
#define DATA (PORT + 0)
#define IER  (PORT + 1)
#define IIR  (PORT + 2)
#define LCR  (PORT + 3)
#define MCR  (PORT + 4)
#define LSR  (PORT + 5)
#define MSR  (PORT + 6)

static bool irq(struct rig *rig)
{
    return rig->platform.ioapic.lines & 1u << HV_UART_IRQ;
}

static struct rig *start(void)
{
    struct rig *rig = rig_new();

    rig_outb(rig, IIR, 0x07); /* FIFOs on and empty */
    rig_outb(rig, MCR, 0x0b); /* DTR, RTS, OUT2 */
    return rig;
}

static void send(struct rig *rig, const char *text)
{
    for (; *text; text++) {
        rig_outb(rig, DATA, (uint8_t)*text);
    }
}

static void test_registers(void)
{
    struct rig *rig = rig_new();

    TAP_EQ(rig_inb(rig, IIR), 0x01);
    TAP_EQ(rig_inb(rig, LSR), 0x60);
    TAP_EQ(rig_inb(rig, MSR), 0xb0);
    rig_outb(rig, LCR, 0x83);
    rig_outb(rig, DATA, 0x01);
    rig_outb(rig, IER, 0x02);
    TAP_EQ(rig_inb(rig, DATA), 0x01);
    TAP_EQ(rig_inb(rig, IER), 0x02);
    rig_outb(rig, LCR, 0x03);
    TAP_EQ(rig_inb(rig, IER), 0x00);
    TAP_EQ(rig_inb(rig, LCR), 0x03);
    rig_outb(rig, IER, 0xff);
    TAP_EQ(rig_inb(rig, IER), 0x0f);
    rig_outb(rig, PORT + 7, 0x5a);
    TAP_EQ(rig_inb(rig, PORT + 7), 0x5a);
    rig_outb(rig, MCR, 0xff);
    TAP_EQ(rig_inb(rig, MCR), 0x1f);
    rig_outb(rig, IIR, 0x00);
    TAP_EQ(rig_inb(rig, IIR) & 0xc0, 0x00);
    rig_outb(rig, IIR, 0x01);
    TAP_EQ(rig_inb(rig, IIR) & 0xc0, 0xc0);
    TAP_EQ(rig->written, 0);
}

static void test_output(void)
{
    struct rig *rig = start();

    send(rig, "Lodge\n");
    TAP_EQ(rig->written, 6);
    TAP_OK(memcmp(rig->output, "Lodge\n", 6) == 0);
    TAP_EQ(rig_inb(rig, LSR), 0x60);
    /* A word goes out as its bytes, the second into IER. */
    rig_outw(rig, DATA, 0x0058);
    TAP_EQ(rig->written, 7);
}

static void test_transmit_interrupt(void)
{
    struct rig *rig = start();

    rig_outb(rig, IER, 0x02);
    TAP_OK(irq(rig)); /* empty already */
    TAP_EQ(rig_inb(rig, IIR), 0xc2);
    TAP_OK(!irq(rig)); /* reading it is its reset */
    TAP_EQ(rig_inb(rig, IIR), 0xc1);
    send(rig, "x");
    TAP_OK(irq(rig));
    rig_outb(rig, MCR, 0x03); /* OUT2 gates it */
    TAP_OK(!irq(rig));
    rig_outb(rig, MCR, 0x0b);
    TAP_OK(irq(rig));
    rig_outb(rig, IER, 0x00);
    TAP_OK(!irq(rig));
}

static void test_input(void)
{
    static const uint8_t text[] = "0123456789abcdef";
    struct rig *rig = start();

    TAP_EQ(hv_platform_console_input(&rig->platform, text, 16), 16);
    TAP_EQ(rig_inb(rig, LSR), 0x61);
    TAP_OK(!irq(rig));
    rig_outb(rig, IER, 0x01);
    TAP_OK(irq(rig));
    rig_outb(rig, IIR, 0xc1); /* trigger at 14 */
    TAP_EQ(rig_inb(rig, IIR), 0xc4);
    for (unsigned i = 0; i < 16; i++) {
        TAP_EQ(rig_inb(rig, IIR), 16 - i >= 14 ? 0xc4 : 0xcc); /* then: character timeout */
        TAP_EQ(rig_inb(rig, DATA), text[i]);
    }
    TAP_OK(!irq(rig));
    TAP_EQ(rig_inb(rig, LSR), 0x60);
    TAP_EQ(rig_inb(rig, DATA), 0x00);
    /* Without FIFOs there is no timeout. */
    rig_outb(rig, IIR, 0x00);
    TAP_EQ(hv_platform_console_input(&rig->platform, text, 1), 1);
    TAP_EQ(rig_inb(rig, IIR), 0x04);
    /* A cleared receiver drops what its FIFO holds, not what waits behind. */
    rig_outb(rig, IIR, 0x01);
    TAP_EQ(hv_platform_console_input(&rig->platform, text, 16), 16);
    TAP_EQ(hv_platform_console_input(&rig->platform, text, 3), 3);
    rig_outb(rig, IIR, 0x03);
    TAP_EQ(rig_inb(rig, DATA), '0');
    TAP_EQ(rig_inb(rig, DATA), '1');
    TAP_EQ(rig_inb(rig, DATA), '2');
    TAP_EQ(rig_inb(rig, LSR), 0x60);
}

static void test_input_is_bounded(void)
{
    struct rig *rig = start();
    static uint8_t flood[3 * HV_UART_RING];
    size_t taken = hv_platform_console_input(&rig->platform, flood, sizeof(flood));

    TAP_EQ(taken, HV_UART_RING);
    TAP_EQ(hv_platform_console_input(&rig->platform, flood, 1), 0);
    rig_inb(rig, DATA);
    TAP_EQ(hv_platform_console_input(&rig->platform, flood, 2), 1);
}

static void test_back_pressure(void)
{
    struct rig *rig = start();
    unsigned accepted = 0;

    rig->room = 3;
    send(rig, "abcd");
    TAP_EQ(rig->written, 3);
    TAP_EQ(rig_inb(rig, LSR) & 0x60, 0x20); /* room for a FIFO, but not all is out */
    rig->room = 100;
    send(rig, "e"); /* blocked until the sink says so */
    TAP_EQ(rig->written, 3);
    while (rig_inb(rig, LSR) & 0x20) {
        send(rig, "0123456789abcdef");
        accepted += 16;
        TAP_OK(accepted <= HV_UART_RING);
    }
    TAP_EQ(hv_load_relaxed(&rig->platform.uart.counters.lost), 0);
    rig_outb(rig, IER, 0x02);
    TAP_OK(!irq(rig)); /* not empty */
    /* What is written all the same is lost, not waited for. */
    for (unsigned i = 0; i < 100; i++) {
        send(rig, "z");
    }
    TAP_OK(hv_load_relaxed(&rig->platform.uart.counters.lost) >= 84);
    rig->room = SIZE_MAX;
    hv_platform_console_writable(&rig->platform);
    TAP_OK(irq(rig));
    TAP_EQ(rig_inb(rig, LSR), 0x60);
    TAP_OK(memcmp(rig->output, "abcde0123456789abcdef0", 22) == 0);
    TAP_EQ(rig->written + hv_load_relaxed(&rig->platform.uart.counters.lost), 5 + accepted + 100);
}

static void test_loopback(void)
{
    struct rig *rig = start();
    unsigned received = 0;

    rig_outb(rig, MCR, 0x10);
    TAP_EQ(rig_inb(rig, MSR) & 0xf0, 0x00);
    rig_outb(rig, MCR, 0x1a);
    TAP_EQ(rig_inb(rig, MSR) & 0xf0, 0x90); /* RTS to CTS, OUT2 to DCD: what Linux looks for */
    TAP_EQ(rig_inb(rig, MSR) & 0x0f, 0x00);
    rig_outb(rig, MCR, 0x1f);
    TAP_EQ(rig_inb(rig, MSR), 0xf2); /* DSR changed; the ring only began */
    rig_outb(rig, MCR, 0x1b);
    TAP_EQ(rig_inb(rig, MSR), 0xb4); /* and has ended */
    send(rig, "0123456789abcdefX");
    TAP_EQ(rig->written, 0);
    TAP_EQ(rig_inb(rig, LSR) & 0x03, 0x03); /* overrun by the seventeenth */
    TAP_EQ(rig_inb(rig, LSR) & 0x03, 0x01);
    while (rig_inb(rig, LSR) & 1) {
        rig_inb(rig, DATA);
        received++;
    }
    TAP_EQ(received, 16);
    TAP_OK(!irq(rig)); /* OUT2 is held inactive */
}

static void test_interrupt_order(void)
{
    struct rig *rig = start();
    static const uint8_t byte = 'x';

    rig_outb(rig, MCR, 0x1a); /* loop, without DTR */
    send(rig, "0123456789abcdefX");
    rig_outb(rig, MCR, 0x0b);
    rig_outb(rig, IER, 0x0f);
    TAP_EQ(rig_inb(rig, IIR), 0xc6); /* line status */
    rig_inb(rig, LSR);
    TAP_EQ(rig_inb(rig, IIR), 0xc4); /* received data */
    for (unsigned i = 0; i < 16; i++) {
        rig_inb(rig, DATA);
    }
    TAP_EQ(rig_inb(rig, IIR), 0xc2); /* transmitter */
    TAP_EQ(rig_inb(rig, IIR), 0xc0); /* modem */
    rig_inb(rig, MSR);
    TAP_EQ(rig_inb(rig, IIR), 0xc1);
    TAP_EQ(hv_platform_console_input(&rig->platform, &byte, 1), 1);
    TAP_OK(irq(rig));
}

/* Two vCPUs write, a third thread makes the sink stutter: each one's bytes stay in order. */
static void *writer(void *argument)
{
    struct rig *rig = argument;

    for (unsigned i = 0; i < 1500; i++) {
        while (!(rig_inb(rig, LSR) & 0x20)) {
            hv_platform_console_writable(&rig->platform);
        }
        rig_outb(rig, DATA, (uint8_t)(i & 0x7f));
    }
    return NULL;
}

static void test_threads(void)
{
    struct rig *rig = start();
    pthread_t thread;
    unsigned seen[128] = {0};

    TAP_EQ(pthread_create(&thread, NULL, writer, rig), 0);
    writer(rig);
    pthread_join(thread, NULL);
    hv_platform_console_writable(&rig->platform);
    TAP_EQ(rig->written, 3000);
    for (size_t i = 0; i < rig->written; i++) {
        seen[rig->output[i]]++;
    }
    for (unsigned i = 0; i < 128; i++) {
        TAP_EQ(seen[i], 2 * (1500 / 128 + (i < 1500 % 128)));
    }
}

static void test_record(void)
{
    static struct hv_uart_record record, again;

    for (unsigned round = 0; round < 300; round++) {
        struct rig *rig = rig_new();
        struct hv_uart *uart = &rig->platform.uart;
        uint8_t bytes[40], reads[40];

        rig->room = tap_rng() % 4 ? 0 : 20;
        for (unsigned i = 0; i < 40; i++) {
            bytes[i] = (uint8_t)tap_rng();
            rig_outb(rig, (uint16_t)(PORT + tap_rng() % 8), bytes[i]);
            if (tap_rng() % 4 == 0) {
                hv_uart_input(uart, bytes, i);
            }
        }
        hv_uart_save(uart, &record);
        TAP_OK(hv_uart_check(&record) == NULL);
        for (unsigned i = 0; i < 40; i++) {
            reads[i] = rig_inb(rig, (uint16_t)(PORT + i % 8));
        }
        rig = rig_new();
        rig->room = 0;
        hv_uart_load(uart, &record);
        hv_uart_save(uart, &again);
        TAP_OK(memcmp(&record, &again, sizeof(record)) == 0);
        for (unsigned i = 0; i < 40; i++) {
            TAP_EQ(rig_inb(rig, (uint16_t)(PORT + i % 8)), reads[i]);
        }
        /* What the first machine's console had not taken, the second's gets. */
        rig->room = SIZE_MAX;
        hv_platform_console_writable(&rig->platform);
        TAP_EQ(rig->written, record.output_bytes);
        TAP_OK(memcmp(rig->output, record.output, record.output_bytes) == 0);
    }
    record.input_bytes = HV_UART_RING + 1;
    TAP_STR(hv_uart_check(&record), "uart.input_bytes");
    record.input_bytes = 0;
    record.mcr = 0x20;
    TAP_STR(hv_uart_check(&record), "uart.mcr");
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"platform.uart.registers", test_registers},
        {"platform.uart.output", test_output},
        {"platform.uart.transmit-interrupt", test_transmit_interrupt},
        {"platform.uart.input", test_input},
        {"platform.uart.input-is-bounded", test_input_is_bounded},
        {"platform.uart.back-pressure", test_back_pressure},
        {"platform.uart.loopback", test_loopback},
        {"platform.uart.interrupt-order", test_interrupt_order},
        {"platform.uart.threads", test_threads},
        {"platform.uart.record", test_record},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

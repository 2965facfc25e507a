/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The keyboard controller as Linux probes it, the resets, and its silent devices. */
#include "platform/i8042.h"

#include <string.h>

#include "lib/tap.h"
#include "unit/platform/rig-irq.h"

#define DATA   0x60
#define STATUS 0x64

static unsigned irqs(struct rig *rig)
{
    return rig->platform.ioapic.lines & (1u << 1 | 1u << 12);
}

static void command(struct rig *rig, uint8_t value)
{
    rig_outb(rig, STATUS, value);
}

/* The next byte, with the mouse's flag in bit 8; 200h when there is none. */
static unsigned next(struct rig *rig)
{
    uint8_t status = rig_inb(rig, STATUS);

    if (!(status & 1)) {
        return 0x200;
    }
    return (status & 0x20) << 3 | rig_inb(rig, DATA);
}

static void test_controller(void)
{
    struct rig *rig = rig_new();

    TAP_EQ(rig_inb(rig, STATUS), 0x14);
    command(rig, 0xaa);
    TAP_EQ(next(rig), 0x55);
    command(rig, 0xab);
    TAP_EQ(next(rig), 0x00);
    command(rig, 0xa9);
    TAP_EQ(next(rig), 0x00);
    command(rig, 0x20);
    TAP_EQ(next(rig), 0x47);
    command(rig, 0x60);
    rig_outb(rig, DATA, 0x30);
    command(rig, 0xa8);
    command(rig, 0xae);
    command(rig, 0x20);
    TAP_EQ(next(rig), 0x00);
    command(rig, 0xa7);
    command(rig, 0xad);
    command(rig, 0x20);
    TAP_EQ(next(rig), 0x30);
    command(rig, 0xc7); /* no command */
    TAP_EQ(next(rig), 0x200);
    TAP_EQ(rig_inb(rig, DATA), 0x30); /* the buffer keeps its last byte */
    /* Linux finds the mouse's port by a byte that comes back from it. */
    command(rig, 0xd3);
    rig_outb(rig, DATA, 0x5a);
    TAP_EQ(next(rig), 0x15a);
    command(rig, 0xd2);
    rig_outb(rig, DATA, 0xa5);
    TAP_EQ(next(rig), 0x0a5);
}

static void test_devices(void)
{
    static const struct {
        bool mouse;
        uint8_t bytes[3];
        unsigned sent;
        uint8_t answers[5];
        unsigned answered;
    } rows[] = {
        {false, {0xff}, 1, {0xfa, 0xaa}, 2},
        {false, {0xf2}, 1, {0xfa, 0xab, 0x83}, 3},
        {false, {0xed, 0x07}, 2, {0xfa, 0xfa}, 2},
        {false, {0xf3, 0x20}, 2, {0xfa, 0xfa}, 2},
        {false, {0xf0, 0x00}, 2, {0xfa, 0xfa, 0x02}, 3},
        {false, {0xf0, 0x02}, 2, {0xfa, 0xfa}, 2},
        {false, {0xf4}, 1, {0xfa}, 1},
        {false, {0xee}, 1, {0xee}, 1},
        {false, {0x05}, 1, {0xfe}, 1},
        {true, {0xff}, 1, {0xfa, 0xaa, 0x00}, 3},
        {true, {0xf2}, 1, {0xfa, 0x00}, 2},
        {true, {0xe8, 0x03}, 2, {0xfa, 0xfa}, 2},
        {true, {0xf3, 0x64}, 2, {0xfa, 0xfa}, 2},
        {true, {0xe9}, 1, {0xfa, 0x00, 0x02, 0x64}, 4},
        {true, {0xeb}, 1, {0xfa, 0x08, 0x00, 0x00}, 4},
        {true, {0xe6}, 1, {0xfa}, 1},
        {true, {0x12}, 1, {0xfe}, 1},
    };
    struct rig *rig = rig_new();

    command(rig, 0x60);
    rig_outb(rig, DATA, 0x07); /* no translation */
    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        for (unsigned j = 0; j < rows[i].sent; j++) {
            if (rows[i].mouse) {
                command(rig, 0xd4);
            }
            rig_outb(rig, DATA, rows[i].bytes[j]);
        }
        for (unsigned j = 0; j < rows[i].answered; j++) {
            TAP_EQ(next(rig), rows[i].answers[j] | (rows[i].mouse ? 0x100 : 0));
        }
        TAP_EQ(next(rig), 0x200);
    }
    rig_advance(rig, 100 * HV_NS_PER_S);
    TAP_EQ(next(rig), 0x200); /* nobody touches them */
}

static void test_interrupts(void)
{
    struct rig *rig = rig_new();

    rig_outb(rig, DATA, 0xff);
    TAP_EQ(irqs(rig), 1u << 1);
    TAP_EQ(next(rig), 0xfa);
    TAP_EQ(irqs(rig), 1u << 1);
    TAP_EQ(next(rig), 0xaa);
    TAP_EQ(irqs(rig), 0);
    command(rig, 0xd4);
    rig_outb(rig, DATA, 0xf4);
    TAP_EQ(irqs(rig), 1u << 12);
    command(rig, 0x60);
    rig_outb(rig, DATA, 0x45); /* without the mouse's interrupt */
    TAP_EQ(irqs(rig), 0);
    TAP_EQ(next(rig), 0x1fa);
    /* Each byte is an edge of its own at the 8259A. */
    rig_pic_start(rig, 0, true);
    rig_outb(rig, DATA, 0xff);
    TAP_EQ(rig_take(rig, 0), 0x31);
    TAP_EQ(rig_take(rig, 0), -1);
    next(rig);
    TAP_EQ(rig_take(rig, 0), 0x31);
}

static void test_resets(void)
{
    struct rig *rig = rig_new();
    uint8_t port;

    command(rig, 0xfe);
    TAP_EQ(rig->resets, 1);
    command(rig, 0xff); /* pulses nothing */
    TAP_EQ(rig->resets, 1);
    command(rig, 0xd0);
    port = (uint8_t)next(rig);
    TAP_EQ(port & 3, 3);
    command(rig, 0xd1);
    rig_outb(rig, DATA, port);
    TAP_EQ(rig->resets, 1);
    command(rig, 0xd1);
    rig_outb(rig, DATA, port & 0xfe);
    TAP_EQ(rig->resets, 2);
    TAP_EQ(rig_inb(rig, 0x92), 0x02);
    rig_outb(rig, 0x92, 0x02);
    TAP_EQ(rig->resets, 2);
    rig_outb(rig, 0x92, 0x03);
    TAP_EQ(rig->resets, 3);
    rig_outb(rig, 0x92, 0x03);
    TAP_EQ(rig->resets, 3);
}

static void test_flood(void)
{
    struct rig *rig = rig_new();
    unsigned answers = 0;

    for (unsigned i = 0; i < 1000; i++) {
        rig_outb(rig, DATA, 0xf4);
    }
    while (next(rig) != 0x200) {
        answers++;
    }
    TAP_EQ(answers, HV_I8042_QUEUE);
    for (unsigned i = 0; i < 10; i++) {
        command(rig, 0xaa); /* empties it */
    }
    TAP_EQ(next(rig), 0x55);
    TAP_EQ(next(rig), 0x200);
}

static void test_record(void)
{
    struct hv_i8042_record record, again;

    for (unsigned round = 0; round < 300; round++) {
        struct rig *rig = rig_new();
        struct hv_i8042 *i8042 = &rig->platform.i8042;
        unsigned answers[20];

        for (unsigned i = 0; i < 20; i++) {
            rig_outb(rig, tap_rng() % 2 ? DATA : STATUS,
                     (uint8_t)(tap_rng() % 2 ? 0xd4 : tap_rng()));
        }
        hv_i8042_save(i8042, &record);
        TAP_OK(hv_i8042_check(&record) == NULL);
        for (unsigned i = 0; i < 20; i++) {
            rig_outb(rig, DATA, 0xf4);
            answers[i] = next(rig);
        }
        rig = rig_new();
        hv_i8042_load(i8042, &record);
        hv_i8042_save(i8042, &again);
        TAP_OK(memcmp(&record, &again, sizeof(record)) == 0);
        for (unsigned i = 0; i < 20; i++) {
            rig_outb(rig, DATA, 0xf4);
            TAP_EQ(next(rig), answers[i]);
        }
    }
    record.count = HV_I8042_QUEUE + 1;
    TAP_STR(hv_i8042_check(&record), "i8042.count");
    record.count = 1;
    record.source[0] = 2;
    TAP_STR(hv_i8042_check(&record), "i8042.source");
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"platform.i8042.controller", test_controller}, {"platform.i8042.devices", test_devices},
        {"platform.i8042.interrupts", test_interrupts}, {"platform.i8042.resets", test_resets},
        {"platform.i8042.flood", test_flood},           {"platform.i8042.record", test_record},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

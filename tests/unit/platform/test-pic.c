/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The 8259A pair by its data sheet. Interrupts are taken by acknowledge cycles, without APICs. */
#include "platform/pic.h"

#include <string.h>

#include "lib/tap.h"

static struct hv_bus bus;
static struct hv_pic pic;
static bool intr;
static unsigned intr_edges;

static void set_intr(void *context, unsigned number, bool high)
{
    (void)context;
    (void)number;
    intr_edges += high && !intr;
    intr = high;
}

static const struct hv_irq_line intr_line = {.set = set_intr};

static void out(uint16_t port, uint8_t value)
{
    TAP_EQ(hv_bus_write(&bus, HV_BUS_PORT, 0, port, 1, value), 0);
}

static uint8_t in(uint16_t port)
{
    uint64_t value = 0;

    return hv_bus_read(&bus, HV_BUS_PORT, 0, port, 1, &value) == 0 ? (uint8_t)value : 0xee;
}

/* As Linux does: vectors 30h and 38h, everything unmasked. */
static void start(uint8_t icw4)
{
    intr = false;
    intr_edges = 0;
    hv_bus_init(&bus);
    TAP_EQ(hv_pic_init(&pic, &bus, &intr_line), 0);
    out(0x20, 0x11);
    out(0x21, 0x30);
    out(0x21, 0x04);
    out(0x21, icw4);
    out(0xa0, 0x11);
    out(0xa1, 0x38);
    out(0xa1, 0x02);
    out(0xa1, icw4 & 0x0f);
    out(0x21, 0x00);
    out(0xa1, 0x00);
}

static void pulse(unsigned irq)
{
    hv_pic_set(&pic, irq, true);
    hv_pic_set(&pic, irq, false);
}

static void test_power_up(void)
{
    hv_bus_init(&bus);
    TAP_EQ(hv_pic_init(&pic, &bus, &intr_line), 0);
    intr = false;
    pulse(0);
    TAP_OK(!intr); /* masked */
    TAP_EQ(in(0x21), 0xff);
    TAP_EQ(in(0xa1), 0xff);
}

static void test_priority(void)
{
    start(0x01);
    pulse(6);
    pulse(3);
    TAP_OK(intr);
    TAP_EQ(in(0x20), 0x48); /* IRR */
    TAP_EQ(hv_pic_acknowledge(&pic).vector, 0x33);
    TAP_OK(!intr); /* 6 waits for the end of 3 */
    pulse(1);
    TAP_OK(intr); /* more urgent: nests */
    TAP_EQ(hv_pic_acknowledge(&pic).vector, 0x31);
    out(0x20, 0x0b);
    TAP_EQ(in(0x20), 0x0a); /* ISR */
    out(0x20, 0x20);
    TAP_EQ(in(0x20), 0x08);
    TAP_OK(!intr);
    out(0x20, 0x63); /* specific EOI of 3 */
    TAP_OK(intr);
    TAP_EQ(hv_pic_acknowledge(&pic).vector, 0x36);
    out(0x20, 0x20);
    TAP_EQ(in(0x20), 0x00);
}

static void test_cascade(void)
{
    struct hv_taken taken;

    start(0x01);
    pulse(12);
    TAP_EQ(in(0x20) & 4, 4);
    taken = hv_pic_acknowledge(&pic);
    TAP_EQ(taken.vector, 0x3c);
    TAP_EQ(taken.irq, 12);
    TAP_OK(!intr);
    pulse(9); /* more urgent at the slave, but the master has its pin in service */
    TAP_OK(!intr);
    out(0xa0, 0x20);
    out(0x20, 0x20);
    TAP_OK(intr);
    TAP_EQ(hv_pic_acknowledge(&pic).vector, 0x39);
    pulse(7); /* below the cascade */
    TAP_OK(!intr);
    out(0xa0, 0x20);
    out(0x20, 0x20);
    TAP_EQ(hv_pic_acknowledge(&pic).vector, 0x37);
    hv_pic_set(&pic, 2, true); /* the cascade's pin is no wire */
    TAP_OK(!intr);
}

static void test_fully_nested(void)
{
    start(0x11); /* SFNM at the master */
    pulse(12);
    TAP_EQ(hv_pic_acknowledge(&pic).vector, 0x3c);
    pulse(9);
    TAP_OK(intr);
    TAP_EQ(hv_pic_acknowledge(&pic).vector, 0x39);
    pulse(13);
    TAP_OK(!intr);
}

static void test_masks(void)
{
    start(0x01);
    out(0x21, 0x08);
    TAP_EQ(in(0x21), 0x08);
    pulse(3);
    TAP_OK(!intr);
    TAP_EQ(in(0x20), 0x08); /* latched behind the mask */
    out(0x21, 0x00);
    TAP_OK(intr);
    out(0x21, 0xff);
    TAP_OK(!intr);
}

static void test_spurious(void)
{
    struct hv_taken taken;

    start(0x01);
    pulse(3);
    out(0x21, 0xff); /* masked between request and acknowledge */
    taken = hv_pic_acknowledge(&pic);
    TAP_EQ(taken.vector, 0x37);
    TAP_EQ(taken.irq, -1); /* and not pin 7 */
    out(0x20, 0x0b);
    TAP_EQ(in(0x20), 0x00); /* not in service */
    out(0x21, 0x00);
    TAP_EQ(hv_pic_acknowledge(&pic).vector, 0x33);
    out(0x20, 0x20);
    /* At the slave: level-triggered 11 goes away after the master has asked. */
    out(0x4d1, 0x08);
    hv_pic_set(&pic, 11, true);
    TAP_OK(intr);
    hv_pic_set(&pic, 11, false);
    TAP_OK(!intr);
    TAP_EQ(hv_pic_acknowledge(&pic).vector, 0x37);
    TAP_EQ(hv_load_relaxed(&pic.counters.spurious), 2);
}

static void test_level(void)
{
    start(0x01);
    out(0x4d0, 0xff);
    TAP_EQ(in(0x4d0), 0xf8); /* 0 to 2 cannot be */
    out(0x4d1, 0xff);
    TAP_EQ(in(0x4d1), 0xde);
    hv_pic_set(&pic, 5, true);
    TAP_EQ(hv_pic_acknowledge(&pic).vector, 0x35);
    out(0x20, 0x20);
    TAP_OK(intr); /* still high */
    hv_pic_set(&pic, 5, false);
    TAP_OK(!intr);
    /* An edge pin that stays high asks once. */
    hv_pic_set(&pic, 1, true);
    TAP_EQ(hv_pic_acknowledge(&pic).vector, 0x31);
    out(0x20, 0x20);
    TAP_OK(!intr);
    hv_pic_set(&pic, 1, true);
    TAP_OK(!intr);
}

static void test_rotation(void)
{
    start(0x01);
    out(0x20, 0xc4); /* 4 is lowest: 5 6 7 0 1 2 3 4 */
    pulse(4);
    pulse(6);
    pulse(0);
    TAP_EQ(hv_pic_acknowledge(&pic).vector, 0x36);
    out(0x20, 0xa0); /* rotate on non-specific EOI: 7 0 1 … 6 */
    TAP_EQ(hv_pic_acknowledge(&pic).vector, 0x30);
    out(0x20, 0xe0); /* rotate on specific EOI of 0 */
    pulse(0);
    TAP_EQ(hv_pic_acknowledge(&pic).vector, 0x34);
    out(0x20, 0x20);
    TAP_EQ(hv_pic_acknowledge(&pic).vector, 0x30);
}

static void test_auto_eoi(void)
{
    start(0x03);
    pulse(3);
    TAP_EQ(hv_pic_acknowledge(&pic).vector, 0x33);
    out(0x20, 0x0b);
    TAP_EQ(in(0x20), 0x00);
    out(0x20, 0x80); /* rotate in automatic EOI */
    pulse(3);
    pulse(4);
    TAP_EQ(hv_pic_acknowledge(&pic).vector, 0x33);
    pulse(3);
    TAP_EQ(hv_pic_acknowledge(&pic).vector, 0x34); /* 3 has become the lowest */
    TAP_EQ(hv_pic_acknowledge(&pic).vector, 0x33);
    out(0x20, 0x00);
    pulse(0);
    pulse(7);
    TAP_EQ(hv_pic_acknowledge(&pic).vector, 0x37); /* 4 5 6 7 0 … */
}

static void test_special_mask(void)
{
    start(0x01);
    pulse(2 + 1);
    TAP_EQ(hv_pic_acknowledge(&pic).vector, 0x33);
    pulse(6);
    TAP_OK(!intr);
    out(0x21, 0x08); /* mask the level in service */
    TAP_OK(!intr);
    out(0x20, 0x68); /* set special mask mode */
    TAP_OK(intr);
    TAP_EQ(hv_pic_acknowledge(&pic).vector, 0x36);
    out(0x20, 0x20); /* non-specific: not the masked one */
    out(0x20, 0x0b);
    TAP_EQ(in(0x20), 0x08);
    out(0x20, 0x48); /* clear it */
    pulse(5);
    TAP_OK(!intr);
}

static void test_poll(void)
{
    start(0x01);
    out(0x20, 0x0c);
    TAP_EQ(in(0x20), 0x00);
    pulse(4);
    out(0x20, 0x0c);
    TAP_EQ(in(0x20), 0x84);
    TAP_OK(!intr);
    out(0x20, 0x0b);
    TAP_EQ(in(0x20), 0x10);
}

static void test_icw(void)
{
    start(0x01);
    pulse(3);
    out(0x21, 0x55);
    out(0x20, 0x12); /* ICW1: single, no ICW4 */
    TAP_OK(!intr);
    TAP_EQ(in(0x21), 0x00);
    out(0x21, 0x57); /* ICW2: low bits are not its */
    out(0x21, 0xf0); /* OCW1 already */
    TAP_EQ(in(0x21), 0xf0);
    pulse(1);
    TAP_EQ(hv_pic_acknowledge(&pic).vector, 0x51);
    /* A single chip's pin 2 is an ordinary one, and the slave is not heard. */
    out(0x20, 0x20);
    pulse(8);
    TAP_OK(!intr);
}

static void test_record(void)
{
    static struct hv_pic other;
    static struct hv_bus other_bus;
    struct hv_pic_record record, again;

    hv_bus_init(&other_bus);
    TAP_EQ(hv_pic_init(&other, &other_bus, &intr_line), 0);
    start(0x01);
    for (unsigned round = 0; round < 2000; round++) {
        static const uint16_t ports[] = {0x20, 0x21, 0xa0, 0xa1, 0x4d0, 0x4d1};
        uint64_t dice = tap_rng();

        if (dice & 1) {
            hv_pic_set(&pic, (unsigned)(dice >> 8 & 15), dice & 2);
        } else if (dice & 2) {
            out(ports[(dice >> 8) % 6], (uint8_t)(dice >> 16));
        } else {
            (void)hv_pic_acknowledge(&pic);
        }
        hv_pic_save(&pic, &record);
        TAP_OK(hv_pic_check(&record) == NULL);
        hv_pic_load(&other, &record);
        hv_pic_save(&other, &again);
        TAP_OK(memcmp(&record, &again, sizeof(record)) == 0);
        TAP_EQ(other.output_high, pic.output_high);
    }
    record.chip[0].lowest = 8;
    TAP_STR(hv_pic_check(&record), "pic.lowest");
    record.chip[0].lowest = 7;
    record.chip[1].vector_base = 0x71;
    TAP_STR(hv_pic_check(&record), "pic.vector_base");
    record.version++;
    TAP_STR(hv_pic_check(&record), "pic.version");
    hv_pic_finish(&other);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"platform.pic.power-up", test_power_up}, {"platform.pic.priority", test_priority},
        {"platform.pic.cascade", test_cascade},   {"platform.pic.fully-nested", test_fully_nested},
        {"platform.pic.masks", test_masks},       {"platform.pic.spurious", test_spurious},
        {"platform.pic.level", test_level},       {"platform.pic.rotation", test_rotation},
        {"platform.pic.auto-eoi", test_auto_eoi}, {"platform.pic.special-mask", test_special_mask},
        {"platform.pic.poll", test_poll},         {"platform.pic.icw", test_icw},
        {"platform.pic.record", test_record},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The 8259A pair: priorities, command words, acknowledge. Names of words as in the data sheet. */
#include "platform/pic.h"

#include <string.h>

#include "base/bits.h"

#define PIC_MASTER  0
#define PIC_SLAVE   1
#define PIC_CASCADE 2u /* the master's pin for the slave */
#define PIC_NONE    8u /* rank of no pin at all */

/* Initialization and operation command words (data sheet, figures 7 and 8). */
enum pic_bits {
    PIC_ICW1 = 1u << 4, /* D4 tells ICW1 from OCW2 and OCW3 */
    PIC_ICW1_IC4 = 1u << 0,
    PIC_ICW1_SNGL = 1u << 1,
    PIC_ICW1_LTIM = 1u << 3,
    PIC_ICW2_VECTOR = 0xf8,
    PIC_ICW4_AEOI = 1u << 1,
    PIC_ICW4_SFNM = 1u << 4,
    PIC_OCW2_LEVEL = 0x07,
    PIC_OCW3 = 1u << 3, /* D3 tells OCW3 from OCW2 */
    PIC_OCW3_RIS = 1u << 0,
    PIC_OCW3_RR = 1u << 1,
    PIC_OCW3_POLL = 1u << 2,
    PIC_OCW3_SMM = 1u << 5,
    PIC_OCW3_ESMM = 1u << 6,
    PIC_POLL_REQUEST = 1u << 7,
};

/* OCW2 bits R, SL, EOI. */
enum pic_ocw2 {
    PIC_OCW2_ROTATE_AUTO_CLEAR,
    PIC_OCW2_EOI,
    PIC_OCW2_NOTHING,
    PIC_OCW2_EOI_SPECIFIC,
    PIC_OCW2_ROTATE_AUTO_SET,
    PIC_OCW2_ROTATE_EOI,
    PIC_OCW2_SET_PRIORITY,
    PIC_OCW2_ROTATE_EOI_SPECIFIC,
};

/* Pins that may be level-triggered: not timer, keyboard, cascade, RTC, FPU (PIIX3 2.5.4). */
static const uint8_t pic_elcr_writable[2] = {0xf8, 0xde};

/* Rank of the most urgent of @pins: 0 is the highest priority, PIC_NONE when there is none. */
static unsigned pic_rank(const struct hv_pic_chip *chip, uint8_t pins)
{
    unsigned first = (chip->lowest + 1u) & 7;
    unsigned rotated = (unsigned)(pins >> first) | ((unsigned)pins << (8 - first));

    return pins ? (unsigned)__builtin_ctz(rotated & 0xff) : PIC_NONE;
}

static unsigned pic_pin(const struct hv_pic_chip *chip, unsigned rank)
{
    return (chip->lowest + 1u + rank) & 7;
}

static int pic_request(const struct hv_pic *pic, unsigned which);

/* What IRR reads: latched edges, standing levels and, on the master, the slave's output. */
static uint8_t pic_requests(const struct hv_pic *pic, unsigned which)
{
    const struct hv_pic_chip *chip = &pic->chip[which];
    uint8_t level = chip->level_all ? 0xff : chip->elcr;
    uint8_t requests = (uint8_t)((chip->irr & ~level) | (chip->lines & level));

    if (which == PIC_MASTER && !chip->single) {
        requests &= (uint8_t) ~(1u << PIC_CASCADE);
        if (pic_request(pic, PIC_SLAVE) >= 0) {
            requests |= 1u << PIC_CASCADE;
        }
    }
    return requests;
}

/* The pin whose interrupt the chip would give now, or -1: priority against what is in service. */
static int pic_request(const struct hv_pic *pic, unsigned which)
{
    const struct hv_pic_chip *chip = &pic->chip[which];
    unsigned rank = pic_rank(chip, pic_requests(pic, which) & (uint8_t)~chip->imr);
    uint8_t in_service = chip->isr;
    unsigned served;

    if (rank == PIC_NONE || chip->expect != HV_PIC_EXPECT_OCW1) {
        return -1;
    }
    if (chip->special_mask) {
        in_service &= (uint8_t)~chip->imr;
    }
    served = pic_rank(chip, in_service);
    if (rank < served || (rank == served && chip->nested && which == PIC_MASTER &&
                          pic_pin(chip, rank) == PIC_CASCADE)) {
        return (int)pic_pin(chip, rank);
    }
    return -1;
}

static void pic_drive_locked(struct hv_pic *pic) HV_REQUIRES(&pic->lock)
{
    bool high = pic_request(pic, PIC_MASTER) >= 0;

    if (high != pic->output_high) {
        pic->output_high = high;
        hv_irq_line_set(&pic->output, high);
    }
}

/* Take @pin in service; with automatic EOI it is out of it at once. */
static void pic_accept(struct hv_pic_chip *chip, unsigned pin)
{
    chip->irr &= (uint8_t) ~(1u << pin);
    if (!chip->auto_eoi) {
        chip->isr |= (uint8_t)(1u << pin);
    } else if (chip->rotate_auto) {
        chip->lowest = (uint8_t)pin;
    }
}

static struct hv_taken pic_acknowledge_locked(struct hv_pic *pic) HV_REQUIRES(&pic->lock)
{
    struct hv_pic_chip *master = &pic->chip[PIC_MASTER];
    struct hv_pic_chip *chip = master;
    int pin = pic_request(pic, PIC_MASTER);

    if (pin == PIC_CASCADE && !master->single) {
        pic_accept(master, PIC_CASCADE);
        chip = &pic->chip[PIC_SLAVE];
        pin = pic_request(pic, PIC_SLAVE);
    }
    if (pin < 0) {
        hv_count(&pic->counters.spurious, 1);
        return (struct hv_taken){chip->vector_base | 7, true, -1};
    }
    hv_count(&pic->counters.acknowledged, 1);
    /* Before it leaves the requests: a level-triggered pin goes on asking by its wire. */
    pic_accept(chip, (unsigned)pin);
    return (struct hv_taken){
        .vector = chip->vector_base | pin, .extint = true, .irq = chip == master ? pin : pin + 8};
}

struct hv_taken hv_pic_acknowledge(struct hv_pic *pic)
{
    struct hv_taken taken;

    hv_lock_take(&pic->lock);
    taken = pic_acknowledge_locked(pic);
    pic_drive_locked(pic);
    hv_lock_drop(&pic->lock);
    return taken;
}

bool hv_pic_requested(struct hv_pic *pic, unsigned irq)
{
    bool requested;

    hv_lock_take(&pic->lock);
    requested = pic->chip[irq >> 3 & 1].irr & 1u << (irq & 7);
    hv_lock_drop(&pic->lock);
    return requested;
}

bool hv_pic_masked(struct hv_pic *pic, unsigned irq)
{
    const struct hv_pic_chip *chip = &pic->chip[irq >> 3 & 1];
    bool masked;

    hv_lock_take(&pic->lock);
    masked = (chip->imr & 1u << (irq & 7)) ||
             (irq >= 8 && (pic->chip[PIC_MASTER].imr & 1u << PIC_CASCADE));
    hv_lock_drop(&pic->lock);
    return masked;
}

void hv_pic_set(struct hv_pic *pic, unsigned irq, bool high)
{
    struct hv_pic_chip *chip = &pic->chip[irq >> 3 & 1];
    uint8_t bit = (uint8_t)(1u << (irq & 7));

    if (irq == PIC_CASCADE) {
        return;
    }
    hv_lock_take(&pic->lock);
    if (high) {
        chip->irr |= (uint8_t)(bit & ~chip->lines);
        chip->lines |= bit;
    } else {
        chip->lines &= (uint8_t)~bit;
    }
    pic_drive_locked(pic);
    hv_lock_drop(&pic->lock);
}

/* ICW1 (data sheet, "Initialization command words 1 and 2", a to f). */
static void pic_write_icw1(struct hv_pic_chip *chip, uint8_t value)
{
    chip->irr = 0;
    chip->isr = 0;
    chip->imr = 0;
    chip->lowest = 7;
    chip->special_mask = false;
    chip->read_isr = false;
    chip->poll = false;
    chip->rotate_auto = false;
    chip->auto_eoi = false;
    chip->nested = false;
    chip->level_all = value & PIC_ICW1_LTIM;
    chip->single = value & PIC_ICW1_SNGL;
    chip->want_icw4 = value & PIC_ICW1_IC4;
    chip->expect = HV_PIC_EXPECT_ICW2;
}

static void pic_end_of_interrupt(struct hv_pic_chip *chip, unsigned pin, bool rotate)
{
    chip->isr &= (uint8_t) ~(1u << pin);
    if (rotate) {
        chip->lowest = (uint8_t)pin;
    }
}

static void pic_write_ocw2(struct hv_pic_chip *chip, uint8_t value)
{
    unsigned level = value & PIC_OCW2_LEVEL;
    enum pic_ocw2 command = value >> 5;
    unsigned rank;

    switch (command) {
    case PIC_OCW2_ROTATE_AUTO_CLEAR:
    case PIC_OCW2_ROTATE_AUTO_SET:
        chip->rotate_auto = command == PIC_OCW2_ROTATE_AUTO_SET;
        break;
    case PIC_OCW2_EOI:
    case PIC_OCW2_ROTATE_EOI:
        /* In special mask mode, masked levels are not found by a non-specific EOI. */
        rank = pic_rank(chip, chip->special_mask ? chip->isr & (uint8_t)~chip->imr : chip->isr);
        if (rank != PIC_NONE) {
            pic_end_of_interrupt(chip, pic_pin(chip, rank), command == PIC_OCW2_ROTATE_EOI);
        }
        break;
    case PIC_OCW2_EOI_SPECIFIC:
    case PIC_OCW2_ROTATE_EOI_SPECIFIC:
        pic_end_of_interrupt(chip, level, command == PIC_OCW2_ROTATE_EOI_SPECIFIC);
        break;
    case PIC_OCW2_SET_PRIORITY:
        chip->lowest = (uint8_t)level;
        break;
    case PIC_OCW2_NOTHING:
        break;
    }
}

static void pic_write_ocw3(struct hv_pic_chip *chip, uint8_t value)
{
    if (value & PIC_OCW3_POLL) {
        chip->poll = true;
    }
    if (value & PIC_OCW3_RR) {
        chip->read_isr = value & PIC_OCW3_RIS;
    }
    if (value & PIC_OCW3_ESMM) {
        chip->special_mask = value & PIC_OCW3_SMM;
    }
}

/* The odd port: OCW1, or the rest of an initialization sequence. */
static void pic_write_odd(struct hv_pic_chip *chip, uint8_t value)
{
    switch ((enum hv_pic_expect)chip->expect) {
    case HV_PIC_EXPECT_OCW1:
        chip->imr = value;
        return;
    case HV_PIC_EXPECT_ICW2:
        chip->vector_base = value & PIC_ICW2_VECTOR;
        if (!chip->single) {
            chip->expect = HV_PIC_EXPECT_ICW3;
            return;
        }
        break;
    case HV_PIC_EXPECT_ICW3:
        /* Which pin is the cascade's is soldered. */
        break;
    case HV_PIC_EXPECT_ICW4:
        chip->auto_eoi = value & PIC_ICW4_AEOI;
        chip->nested = value & PIC_ICW4_SFNM;
        chip->expect = HV_PIC_EXPECT_OCW1;
        return;
    }
    chip->expect = chip->want_icw4 ? HV_PIC_EXPECT_ICW4 : HV_PIC_EXPECT_OCW1;
}

static int pic_write(struct hv_pic *pic, unsigned which, uint64_t offset, uint64_t value)
{
    struct hv_pic_chip *chip = &pic->chip[which];
    uint8_t byte = (uint8_t)value;

    hv_lock_take(&pic->lock);
    if (offset & 1) {
        pic_write_odd(chip, byte);
    } else if (byte & PIC_ICW1) {
        pic_write_icw1(chip, byte);
    } else if (byte & PIC_OCW3) {
        pic_write_ocw3(chip, byte);
    } else {
        pic_write_ocw2(chip, byte);
    }
    pic_drive_locked(pic);
    hv_lock_drop(&pic->lock);
    return 0;
}

static uint8_t pic_poll_locked(struct hv_pic *pic, unsigned which) HV_REQUIRES(&pic->lock)
{
    int pin = pic_request(pic, which);

    pic->chip[which].poll = false;
    if (pin < 0) {
        return 0;
    }
    pic_accept(&pic->chip[which], (unsigned)pin);
    pic_drive_locked(pic);
    return (uint8_t)(PIC_POLL_REQUEST | (unsigned)pin);
}

static int pic_read(struct hv_pic *pic, unsigned which, uint64_t offset, uint64_t *value_out)
{
    struct hv_pic_chip *chip = &pic->chip[which];

    hv_lock_take(&pic->lock);
    if (chip->poll) {
        *value_out = pic_poll_locked(pic, which);
    } else if (offset & 1) {
        *value_out = chip->imr;
    } else {
        *value_out = chip->read_isr ? chip->isr : pic_requests(pic, which);
    }
    hv_lock_drop(&pic->lock);
    return 0;
}

static int pic_master_read(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                           uint64_t *value_out)
{
    (void)vcpu;
    (void)bytes;
    return pic_read(context, PIC_MASTER, offset, value_out);
}

static int pic_master_write(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                            uint64_t value)
{
    (void)vcpu;
    (void)bytes;
    return pic_write(context, PIC_MASTER, offset, value);
}

static int pic_slave_read(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                          uint64_t *value_out)
{
    (void)vcpu;
    (void)bytes;
    return pic_read(context, PIC_SLAVE, offset, value_out);
}

static int pic_slave_write(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                           uint64_t value)
{
    (void)vcpu;
    (void)bytes;
    return pic_write(context, PIC_SLAVE, offset, value);
}

/* ELCR1 and ELCR2, one port for each chip. */
static int pic_elcr_read(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                         uint64_t *value_out)
{
    struct hv_pic *pic = context;

    (void)vcpu;
    (void)bytes;
    hv_lock_take(&pic->lock);
    *value_out = pic->chip[offset].elcr;
    hv_lock_drop(&pic->lock);
    return 0;
}

static int pic_elcr_write(void *context, uint32_t vcpu, uint64_t offset, unsigned bytes,
                          uint64_t value)
{
    struct hv_pic *pic = context;

    (void)vcpu;
    (void)bytes;
    hv_lock_take(&pic->lock);
    pic->chip[offset].elcr = (uint8_t)(value & pic_elcr_writable[offset]);
    pic_drive_locked(pic);
    hv_lock_drop(&pic->lock);
    return 0;
}

static const struct hv_bus_ops pic_master_ops = {pic_master_read, pic_master_write};
static const struct hv_bus_ops pic_slave_ops = {pic_slave_read, pic_slave_write};
static const struct hv_bus_ops pic_elcr_ops = {pic_elcr_read, pic_elcr_write};

int hv_pic_init(struct hv_pic *pic, struct hv_bus *bus, const struct hv_irq_line *output)
{
    const struct hv_bus_range ranges[] = {
        {0x20, 2, &pic_master_ops, pic, "pic.master", 1},
        {0xa0, 2, &pic_slave_ops, pic, "pic.slave", 1},
        {0x4d0, 2, &pic_elcr_ops, pic, "pic.elcr", 1},
    };

    memset(pic, 0, sizeof(*pic));
    hv_lock_init(&pic->lock, HV_RANK_IRQ_CHIP, "platform.pic", 0);
    pic->output = *output;
    hv_pic_reset(pic);
    return hv_bus_add_all(bus, HV_BUS_PORT, ranges, HV_ARRAY_LEN(ranges));
}

void hv_pic_finish(struct hv_pic *pic)
{
    hv_lock_finish(&pic->lock);
}

void hv_pic_reset(struct hv_pic *pic)
{
    hv_lock_take(&pic->lock);
    for (unsigned i = 0; i < 2; i++) {
        /* As after ICW1 to ICW4 with everything masked: there is no firmware to program it. */
        pic->chip[i] = (struct hv_pic_chip){
            .lines = pic->chip[i].lines,
            .imr = 0xff,
            .lowest = 7,
            .vector_base = i == PIC_MASTER ? 0x08 : 0x70,
        };
    }
    pic_drive_locked(pic);
    hv_lock_drop(&pic->lock);
}

void hv_pic_save(struct hv_pic *pic, struct hv_pic_record *record_out)
{
    memset(record_out, 0, sizeof(*record_out));
    record_out->version = HV_PIC_RECORD_VERSION;
    hv_lock_take(&pic->lock);
    for (unsigned i = 0; i < 2; i++) {
        const struct hv_pic_chip *chip = &pic->chip[i];

        record_out->chip[i] = (struct hv_pic_chip_record){
            .lines = chip->lines,
            .irr = chip->irr,
            .isr = chip->isr,
            .imr = chip->imr,
            .elcr = chip->elcr,
            .vector_base = chip->vector_base,
            .lowest = chip->lowest,
            .expect = chip->expect,
            .level_all = chip->level_all,
            .single = chip->single,
            .want_icw4 = chip->want_icw4,
            .auto_eoi = chip->auto_eoi,
            .rotate_auto = chip->rotate_auto,
            .nested = chip->nested,
            .special_mask = chip->special_mask,
            .read_isr = chip->read_isr,
            .poll = chip->poll,
        };
    }
    hv_lock_drop(&pic->lock);
}

const char *hv_pic_check(const struct hv_pic_record *record)
{
    if (record->version != HV_PIC_RECORD_VERSION) {
        return "pic.version";
    }
    for (unsigned i = 0; i < 2; i++) {
        const struct hv_pic_chip_record *chip = &record->chip[i];

        if (chip->elcr & ~pic_elcr_writable[i]) {
            return "pic.elcr";
        }
        if (chip->vector_base & ~PIC_ICW2_VECTOR) {
            return "pic.vector_base";
        }
        if (chip->lowest > 7) {
            return "pic.lowest";
        }
        if (chip->expect > HV_PIC_EXPECT_ICW4) {
            return "pic.expect";
        }
        if (i == PIC_MASTER && (chip->lines & 1u << PIC_CASCADE)) {
            return "pic.lines";
        }
        if ((chip->level_all | chip->single | chip->want_icw4 | chip->auto_eoi | chip->rotate_auto |
             chip->nested | chip->special_mask | chip->read_isr | chip->poll) > 1) {
            return "pic.flags";
        }
    }
    return NULL;
}

void hv_pic_load(struct hv_pic *pic, const struct hv_pic_record *record)
{
    hv_lock_take(&pic->lock);
    for (unsigned i = 0; i < 2; i++) {
        const struct hv_pic_chip_record *from = &record->chip[i];

        pic->chip[i] = (struct hv_pic_chip){
            .lines = from->lines,
            .irr = from->irr,
            .isr = from->isr,
            .imr = from->imr,
            .elcr = from->elcr,
            .vector_base = from->vector_base,
            .lowest = from->lowest,
            .expect = from->expect,
            .level_all = from->level_all,
            .single = from->single,
            .want_icw4 = from->want_icw4,
            .auto_eoi = from->auto_eoi,
            .rotate_auto = from->rotate_auto,
            .nested = from->nested,
            .special_mask = from->special_mask,
            .read_isr = from->read_isr,
            .poll = from->poll,
        };
    }
    pic_drive_locked(pic);
    hv_lock_drop(&pic->lock);
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One counter of the 8254. Figures and terms of the data sheet's "Mode definitions". */
#include "platform/pit-counter.h"

#include "platform/tick.h"

/* Control word and status byte (figures 7 and 12). */
enum pit_word {
    PIT_WORD_BCD = 1u << 0,
    PIT_WORD_MODE_SHIFT = 1,
    PIT_WORD_ACCESS_SHIFT = 4,
    PIT_STATUS_NULL = 1u << 6, /* the count written is not in the counter yet */
    PIT_STATUS_OUT = 1u << 7,
};

bool pit_counter_periodic(const struct hv_pit_counter *counter)
{
    return counter->mode == HV_PIT_MODE_RATE || counter->mode == HV_PIT_MODE_SQUARE;
}

/* Modes in which the gate's rising edge starts a count. */
static bool pit_counter_triggered(const struct hv_pit_counter *counter)
{
    return counter->mode == HV_PIT_MODE_ONE_SHOT || counter->mode == HV_PIT_MODE_HARD_STROBE;
}

/* In modes 1 and 5 the gate's level means nothing. */
static bool pit_counter_runs(const struct hv_pit_counter *counter)
{
    return counter->counting && (counter->gate || pit_counter_triggered(counter));
}

static uint64_t pit_counter_elapsed(const struct hv_pit_counter *counter, uint64_t now_ns)
{
    return pit_counter_runs(counter) ? hv_ticks_from_ns(now_ns - counter->start_ns, HV_PIT_HZ)
                                     : counter->held;
}

void pit_counter_follow(struct hv_pit_counter *counter, uint64_t now_ns)
{
    if (counter->next_count != 0 && pit_counter_periodic(counter) &&
        pit_counter_elapsed(counter, now_ns) >= counter->next_at) {
        /* A gate that has stopped the counter loads it anew when it rises: never here. */
        counter->start_ns += hv_ticks_to_ns(counter->next_at, HV_PIT_HZ);
        counter->count = counter->next_count;
        counter->next_count = 0;
    }
}

static uint32_t pit_counter_modulus(const struct hv_pit_counter *counter)
{
    return counter->bcd ? 10000 : 0x10000;
}

static uint16_t pit_to_bcd(uint32_t value)
{
    return (uint16_t)(value % 10 | value / 10 % 10 << 4 | value / 100 % 10 << 8 |
                      value / 1000 % 10 << 12);
}

/*
 * Mode 3 counts by two: down to 2 in each half of an even count; an odd count is taken less one and
 * its high half holds one clock more ("Mode 3: Square wave mode", implementation).
 */
static uint32_t pit_square_value(uint32_t count, uint32_t phase)
{
    uint32_t high = (count + 1) / 2;
    uint32_t position = phase < high ? phase : phase - high;

    return (count & ~1u) - 2 * position;
}

/* The 16 bits that a read gives, BCD where set (data sheet, "Mode definitions"). */
static uint16_t pit_counter_value(const struct hv_pit_counter *counter, uint64_t now_ns)
{
    uint32_t modulus = pit_counter_modulus(counter);
    uint64_t elapsed = pit_counter_elapsed(counter, now_ns);
    uint32_t value;

    if (!counter->counting) {
        value = counter->count;
    } else if (counter->mode == HV_PIT_MODE_RATE) {
        value = counter->count - (uint32_t)(elapsed % counter->count);
    } else if (counter->mode == HV_PIT_MODE_SQUARE) {
        value = pit_square_value(counter->count, (uint32_t)(elapsed % counter->count));
    } else {
        /* The others go on through zero. */
        value = counter->count + modulus - (uint32_t)(elapsed % modulus);
    }
    value %= modulus;
    return counter->bcd ? pit_to_bcd(value) : (uint16_t)value;
}

bool pit_counter_output(const struct hv_pit_counter *counter, uint64_t now_ns)
{
    uint64_t elapsed;

    if (!counter->counting) {
        return counter->mode != HV_PIT_MODE_TERMINAL_COUNT;
    }
    elapsed = pit_counter_elapsed(counter, now_ns);
    switch ((enum hv_pit_mode)counter->mode) {
    case HV_PIT_MODE_TERMINAL_COUNT:
    case HV_PIT_MODE_ONE_SHOT:
        return elapsed >= counter->count;
    case HV_PIT_MODE_RATE: /* low for the last clock; the gate's low makes it high at once */
        return !counter->gate || elapsed % counter->count != counter->count - 1;
    case HV_PIT_MODE_SQUARE:
        return !counter->gate || elapsed % counter->count < (counter->count + 1) / 2;
    case HV_PIT_MODE_STROBE:
    case HV_PIT_MODE_HARD_STROBE:
        return elapsed != counter->count;
    }
    return true;
}

void pit_counter_program(struct hv_pit_counter *counter, uint8_t control)
{
    uint8_t mode = control >> PIT_WORD_MODE_SHIFT & 7;

    /* M2 is a don't care for modes 2 and 3. */
    counter->mode = mode > HV_PIT_MODE_HARD_STROBE ? mode & 3 : mode;
    counter->access = control >> PIT_WORD_ACCESS_SHIFT & 3;
    counter->bcd = control & PIT_WORD_BCD;
    counter->write_high = counter->access == HV_PIT_ACCESS_HIGH;
    counter->read_high = counter->access == HV_PIT_ACCESS_HIGH;
    counter->write_low = 0;
    counter->latched_bytes = 0;
    counter->status_latched = false;
    counter->count = 0;
    counter->next_count = 0;
    counter->counting = false;
    counter->held = 0;
}

/* 0 stands for the largest count. Digits above 9 cannot be counted down to: taken at their worth. */
static uint32_t pit_counter_decode(const struct hv_pit_counter *counter, uint16_t value)
{
    uint32_t modulus = pit_counter_modulus(counter);
    uint32_t count = value;

    if (counter->bcd) {
        count = (value & 0xfu) + (value >> 4 & 0xfu) * 10 + (value >> 8 & 0xfu) * 100 +
                (value >> 12 & 0xfu) * 1000;
    }
    return count == 0 || count > modulus ? modulus : count;
}

static bool pit_counter_load(struct hv_pit_counter *counter, uint16_t value, uint64_t now_ns)
{
    uint32_t count = pit_counter_decode(counter, value);

    if (pit_counter_periodic(counter) && counter->counting) {
        uint64_t elapsed = pit_counter_elapsed(counter, now_ns);

        counter->next_count = count;
        counter->next_at = (elapsed / counter->count + 1) * counter->count;
        return false;
    }
    if (pit_counter_triggered(counter)) {
        /* Waits for the gate; a count under way is not disturbed. */
        if (counter->counting) {
            counter->next_count = count;
        } else {
            counter->count = count;
        }
        return false;
    }
    counter->count = count;
    counter->counting = true;
    counter->start_ns = now_ns;
    counter->held = 0;
    return true;
}

bool pit_counter_write(struct hv_pit_counter *counter, uint8_t byte, uint64_t now_ns)
{
    bool stopped = false;

    pit_counter_follow(counter, now_ns);
    switch ((enum hv_pit_access)counter->access) {
    case HV_PIT_ACCESS_LOW:
        return pit_counter_load(counter, byte, now_ns);
    case HV_PIT_ACCESS_HIGH:
        return pit_counter_load(counter, (uint16_t)(byte << 8), now_ns);
    case HV_PIT_ACCESS_BOTH:
        if (counter->write_high) {
            counter->write_high = false;
            return pit_counter_load(counter, (uint16_t)(byte << 8 | counter->write_low), now_ns);
        }
        counter->write_high = true;
        counter->write_low = byte;
        if (counter->mode == HV_PIT_MODE_TERMINAL_COUNT) {
            /* "Writing the first byte disables counting. OUT is set low immediately." */
            stopped = counter->counting;
            counter->counting = false;
        }
        break;
    case HV_PIT_ACCESS_LATCH:
        break;
    }
    return stopped;
}

void pit_counter_latch(struct hv_pit_counter *counter, uint64_t now_ns)
{
    if (counter->latched_bytes == 0) {
        pit_counter_follow(counter, now_ns);
        counter->latch = pit_counter_value(counter, now_ns);
        counter->latched_bytes = counter->access == HV_PIT_ACCESS_BOTH ? 2 : 1;
    }
}

void pit_counter_latch_status(struct hv_pit_counter *counter, uint64_t now_ns)
{
    bool null;

    if (counter->status_latched) {
        return;
    }
    pit_counter_follow(counter, now_ns);
    null = !counter->counting || counter->next_count != 0;
    counter->status_latched = true;
    counter->status =
        (uint8_t)((pit_counter_output(counter, now_ns) ? (unsigned)PIT_STATUS_OUT : 0) |
                  (null ? (unsigned)PIT_STATUS_NULL : 0) |
                  (unsigned)counter->access << PIT_WORD_ACCESS_SHIFT |
                  (unsigned)counter->mode << PIT_WORD_MODE_SHIFT | counter->bcd);
}

uint8_t pit_counter_read(struct hv_pit_counter *counter, uint64_t now_ns)
{
    uint16_t value;
    bool high = counter->read_high;

    if (counter->status_latched) { /* read first, whichever was latched first */
        counter->status_latched = false;
        return counter->status;
    }
    pit_counter_follow(counter, now_ns);
    value = counter->latched_bytes ? counter->latch : pit_counter_value(counter, now_ns);
    if (counter->latched_bytes) {
        counter->latched_bytes--;
    }
    if (counter->access == HV_PIT_ACCESS_BOTH) {
        counter->read_high = !high;
    }
    return (uint8_t)(high ? value >> 8 : value);
}

void pit_counter_set_gate(struct hv_pit_counter *counter, bool gate, uint64_t now_ns)
{
    uint64_t elapsed;

    pit_counter_follow(counter, now_ns);
    if (gate == counter->gate) {
        return;
    }
    elapsed = pit_counter_elapsed(counter, now_ns);
    counter->gate = gate;
    if (pit_counter_triggered(counter)) {
        if (gate && counter->count) {
            counter->count = counter->next_count ? counter->next_count : counter->count;
            counter->next_count = 0;
            counter->counting = true;
            counter->start_ns = now_ns;
        }
    } else if (!gate) {
        counter->held = elapsed;
    } else if (pit_counter_periodic(counter)) { /* the rising edge loads it anew */
        counter->count = counter->next_count ? counter->next_count : counter->count;
        counter->next_count = 0;
        counter->start_ns = now_ns;
    } else {
        counter->start_ns = now_ns - hv_ticks_to_ns(counter->held, HV_PIT_HZ);
    }
}

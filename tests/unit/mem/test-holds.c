/* SPDX-License-Identifier: GPL-3.0-or-later */
/* mem/holds: who is named, what the others have, and that no reader sees half of a change. */
#include "mem/holds.h"

#include <stdio.h>
#include <string.h>

#include "lib/threads.h"

static struct hv_holds holds;

static void add(const char *name, int64_t frames)
{
    char words[sizeof(((struct hv_foreign_hold *)0)->mapper)] = "";

    snprintf(words, sizeof(words), "%s", name);
    hv_holds_add(&holds, words, frames);
}

/* What @name has; @all_out is the sum over all names. */
static uint64_t frames_of(const char *name, uint64_t *all_out)
{
    struct hv_foreign_hold out[HV_HOLDS_MAX];
    size_t count = hv_holds_read(&holds, out);
    uint64_t frames = 0;

    *all_out = 0;
    for (size_t i = 0; i < count; i++) {
        frames += strcmp(out[i].mapper, name) == 0 ? out[i].frames : 0;
        *all_out += out[i].frames;
    }
    return frames;
}

static void test_names(void)
{
    struct hv_foreign_hold out[HV_HOLDS_MAX];
    uint64_t all;

    memset(&holds, 0, sizeof(holds));
    TAP_EQ(hv_holds_read(&holds, out), 0);
    add("migration worker 3", 12);
    add("saver", 1);
    add("migration worker 3", 30);
    TAP_EQ(hv_holds_read(&holds, out), 2);
    TAP_EQ(frames_of("migration worker 3", &all), 42);
    TAP_EQ(frames_of("saver", &all), 1);
    TAP_EQ(all, 43);
    add("migration worker 3", -30);
    add("saver", -1);
    TAP_EQ(hv_holds_read(&holds, out), 1);
    TAP_STR(out[0].mapper, "migration worker 3");
    TAP_EQ(out[0].frames, 12);
    /* A name as long as may be, and the place of who has left. */
    add("0123456789012345678901234567890", 5);
    TAP_EQ(frames_of("0123456789012345678901234567890", &all), 5);
    add("0123456789012345678901234567890", -5);
    add("migration worker 3", -12);
    TAP_EQ(hv_holds_read(&holds, out), 0);
}

/* More names than places: the sum is right, whoever leaves in whatever order. */
static void test_others(void)
{
    char name[16];
    uint64_t all;

    memset(&holds, 0, sizeof(holds));
    for (unsigned i = 0; i < HV_HOLDS_NAMED + 2; i++) {
        snprintf(name, sizeof(name), "mapper %u", i);
        add(name, 10 + i);
    }
    TAP_EQ(frames_of("others", &all), 18 + 19);
    TAP_EQ(frames_of("mapper 7", &all), 17);
    TAP_EQ(all, 10 + 11 + 12 + 13 + 14 + 15 + 16 + 17 + 18 + 19);
    add("mapper 0", -10);
    /* It finds a place now; what it has from before stands with the others still. */
    add("mapper 9", 3);
    TAP_EQ(frames_of("mapper 9", &all), 3);
    TAP_EQ(frames_of("others", &all), 18 + 19);
    add("mapper 9", -19);
    TAP_EQ(frames_of("mapper 9", &all), 0);
    TAP_EQ(frames_of("others", &all), 18 + 3);
    add("mapper 9", -3);
    add("mapper 8", -18);
    TAP_EQ(frames_of("others", &all), 0);
    TAP_EQ(all, 11 + 12 + 13 + 14 + 15 + 16 + 17);
}

static struct {
    _Atomic uint32_t over, torn;
} race;

/* One place that is two mappers' in turn: each name has its own number. */
static void hold_or_read(unsigned index, void *context)
{
    (void)context;
    if (index == 0) {
        for (unsigned i = 0; i < threads_rounds(20000); i++) {
            add(i % 2 ? "even the odd one" : "odd", i % 2 ? 7 : 1000);
            add(i % 2 ? "even the odd one" : "odd", i % 2 ? -7 : -1000);
        }
        hv_store_seq(&race.over, 1);
        return;
    }
    do {
        struct hv_foreign_hold out[HV_HOLDS_MAX];
        size_t count = hv_holds_read(&holds, out);

        if (count > 0) {
            bool odd = strcmp(out[0].mapper, "odd") == 0;

            hv_add_relaxed(&race.torn, out[0].frames != (odd ? 1000 : 7));
            hv_add_relaxed(&race.torn, !odd && strcmp(out[0].mapper, "even the odd one") != 0);
        }
        hv_add_relaxed(&race.torn, count > 1);
    } while (!hv_load_seq(&race.over));
}

static void test_not_torn(void)
{
    memset(&holds, 0, sizeof(holds));
    hv_store_seq(&race.over, 0);
    threads_run(2, hold_or_read, NULL);
    TAP_EQ(hv_load_relaxed(&race.torn), 0);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"mem.holds.names", test_names},
        {"mem.holds.others", test_others},
        {"mem.holds.not-torn", test_not_torn},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

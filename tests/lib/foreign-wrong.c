/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The wrong ways to deal with stale translations of mappers. */
#include "lib/foreign-wrong.h"

#include "sync/race.h"

static void mask_unmap(struct hv_arena *arena, uint16_t owner, const struct hv_holder *mapper)
{
    hv_or_seq(&hv_foreign_mask(arena, owner)->bits[0], UINT64_C(1) << mapper->index);
}

static void flush(struct hv_arena *arena, struct hv_memory *memory, uint64_t mappers,
                  uint64_t stamp)
{
    hv_holders_flush(&arena->holders, NULL, 0, mappers, stamp, &memory->flushes);
}

static bool clear_all(struct hv_arena *arena, struct hv_memory *memory, uint64_t old,
                      uint64_t stamp)
{
    (void)old;
    flush(arena, memory, hv_swap_seq(&hv_foreign_mask(arena, memory->owner)->bits[0], 0), stamp);
    return false;
}

static bool clear_after(struct hv_arena *arena, struct hv_memory *memory, uint64_t old,
                        uint64_t stamp)
{
    struct hv_foreign_mask *mask = hv_foreign_mask(arena, memory->owner);
    uint64_t asked = hv_holders_suspects(&arena->holders, hv_load_seq(&mask->bits[0]), stamp);

    (void)old;
    flush(arena, memory, asked, stamp);
    HV_RACE("foreign.wrong.flushed");
    hv_and_seq(&mask->bits[0], ~asked);
    return false;
}

static bool clear_before(struct hv_arena *arena, struct hv_memory *memory, uint64_t old,
                         uint64_t stamp)
{
    struct hv_foreign_mask *mask = hv_foreign_mask(arena, memory->owner);
    uint64_t asked = hv_holders_suspects(&arena->holders, hv_load_seq(&mask->bits[0]), stamp);

    (void)old;
    hv_and_seq(&mask->bits[0], ~asked);
    flush(arena, memory, asked, stamp);
    return false;
}

const struct hv_foreign_strategy foreign_none = {.name = "none"};

const struct hv_foreign_strategy foreign_clear_all = {
    .name = "clear-all",
    .masks = true,
    .unmap = mask_unmap,
    .change = clear_all,
};

const struct hv_foreign_strategy foreign_clear_after = {
    .name = "clear-after",
    .masks = true,
    .unmap = mask_unmap,
    .change = clear_after,
};

const struct hv_foreign_strategy foreign_clear_before = {
    .name = "clear-before",
    .masks = true,
    .unmap = mask_unmap,
    .change = clear_before,
};

const struct hv_foreign_strategy *const foreign_wrong[FOREIGN_WRONG] = {
    &foreign_none,
    &foreign_clear_all,
    &foreign_clear_after,
    &foreign_clear_before,
};

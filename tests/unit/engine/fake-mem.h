/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A p2m of one array, until mem/ has bodies. */
#pragma once

struct hv_arena {
    uint8_t *ram;
    _Atomic uint8_t kind[GUEST_FRAMES + 1024];
    _Atomic uint64_t clock;
    struct guest *guest;
};

/* Frames are not where guest frames are. */
static inline uint64_t fake_mfn(uint64_t gfn)
{
    return gfn ^ 5;
}

static inline void *guest_host(struct guest *guest, uint64_t gpa)
{
    return guest->arena->ram + fake_mfn(gpa / HV_PAGE_SIZE) * HV_PAGE_SIZE + gpa % HV_PAGE_SIZE;
}

static inline void guest_set_leaf(struct guest *guest, uint64_t gpa, enum hv_leaf_kind kind)
{
    hv_store_seq(&guest->arena->kind[gpa / HV_PAGE_SIZE], (uint8_t)kind);
}

static inline void guest_create_memory(struct guest *guest)
{
    guest->arena = calloc(1, sizeof(*guest->arena));
    guest->arena->ram = calloc(1, GUEST_BYTES + 4 * HV_MIB);
    for (uint64_t gfn = GUEST_FRAMES; gfn < GUEST_FRAMES + 1024; gfn++) {
        guest_set_leaf(guest, gfn * HV_PAGE_SIZE, HV_LEAF_UNPOPULATED);
    }
    guest->arena->guest = guest;
    guest->memory.arena = guest->arena;
    for (uint64_t gfn = 0; gfn < GUEST_FRAMES; gfn++) {
        guest_set_leaf(guest, gfn * HV_PAGE_SIZE, HV_LEAF_RAM);
    }
}

static inline void guest_destroy_memory(struct guest *guest)
{
    free(guest->arena->ram);
    free(guest->arena);
}

struct hv_leaf hv_p2m_lookup(const struct hv_p2m *p2m, hv_gfn gfn)
{
    const struct hv_memory *memory = HV_CONTAINER_OF(p2m, const struct hv_memory, p2m);

    if (gfn.v >= GUEST_FRAMES + 1024) {
        return (struct hv_leaf){.kind = HV_LEAF_HOLE};
    }
    return (struct hv_leaf){.kind = (enum hv_leaf_kind)hv_load_seq(&memory->arena->kind[gfn.v]),
                            .mfn = {fake_mfn(gfn.v)}};
}

void *hv_arena_host(const struct hv_arena *arena, hv_mfn mfn)
{
    return arena->ram + mfn.v * HV_PAGE_SIZE;
}

struct hv_holders *hv_arena_holders(struct hv_arena *arena)
{
    return (struct hv_holders *)(void *)arena;
}

int hv_memory_fill(struct hv_memory *memory, hv_gfn gfn, struct hv_leaf *leaf_out)
{
    memory->arena->guest->fills++;
    guest_set_leaf(memory->arena->guest, gfn.v * HV_PAGE_SIZE, HV_LEAF_RAM);
    *leaf_out = hv_p2m_lookup(&memory->p2m, gfn);
    return 0;
}

void hv_memory_note_write(struct hv_memory *memory, hv_gfn gfn)
{
    memory->arena->guest->noted[gfn.v]++;
}

void hv_memory_add_holder(struct hv_memory *memory, unsigned index, struct hv_holder *holder)
{
    memory->holder[index] = holder;
}

void hv_holder_init(struct hv_holder *holder, struct hv_doorbell *bell, const char *name,
                    unsigned index)
{
    *holder = (struct hv_holder){.bell = bell, .name = name, .index = index};
}

uint64_t hv_holder_flush_begin(struct hv_holders *holders)
{
    return hv_add_seq(&((struct hv_arena *)(void *)holders)->clock, 1) + 1;
}

void hv_holder_flushed(struct hv_holder *holder, uint64_t time)
{
    hv_store_seq(&holder->flushed, time);
}

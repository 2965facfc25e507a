/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * vCPUs of the software engine without an interpreter, for the tests of their accesses: registers,
 * RAM, a device that remembers what it is asked, a block cache that counts.
 *
 * Neighbouring guest pages are no neighbours in the host, so that an access which runs over a page's
 * end there is seen.
 */
#pragma once

#include "engine/soft/access-private.h"
#include "engine/soft/code.h"
#include "engine/soft/tlb-private.h"

#include "base/clock.h"

#include "lib/tap.h"
#include "mem/dirty.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define GUEST_VCPUS       3
#define GUEST_BYTES       (12 * HV_MIB)
/* RAM of two extents that nobody has touched, behind the rest. */
#define GUEST_UNPOPULATED GUEST_BYTES
#define GUEST_FRAMES      (GUEST_BYTES / HV_PAGE_SIZE)
#define GUEST_ALL_FRAMES  (GUEST_FRAMES + 2 * HV_EXTENT_FRAMES)

enum guest_io_kind {
    GUEST_IO_MMIO_READ,
    GUEST_IO_MMIO_WRITE,
    GUEST_IO_PIO_READ,
    GUEST_IO_PIO_WRITE,
};

/* One access a device saw. */
struct guest_io {
    enum guest_io_kind kind;
    uint64_t address;
    unsigned bytes;
    uint64_t value;
};

struct guest {
    struct hv_arena *arena;
    struct hv_memory memory;
    struct hv_engine_domain domain;
    struct hv_clock clock;
    struct hv_cpu cpu[GUEST_VCPUS];
    struct hv_doorbell bell[GUEST_VCPUS];
    struct hv_holder holder[GUEST_VCPUS];
    struct hv_engine_vcpu vcpu[GUEST_VCPUS];
    /* What devices were asked; they answer reads with 0x80 + their number. */
    struct guest_io io[64];
    unsigned ios;
    /* The device answers -EAGAIN to the access of this number (from 1) each time until 0 is put. */
    unsigned io_again;
    unsigned io_asked;
    /* Stores the block cache was told of. */
    unsigned code_stores;
    hv_gpa code_gpa;
    unsigned code_bytes;
    uint64_t code_value; /* what stood there when it was told */
    /* What stood in the p2m when the guest was made. */
    struct hv_leaf leaf[GUEST_FRAMES];
};

/* The guest of the running case. */
static struct guest *the_guest;

/** Where guest physical @gpa is in the host. It is populated. */
static inline void *guest_host(struct guest *guest, uint64_t gpa)
{
    hv_gfn gfn = hv_gpa_to_gfn((hv_gpa){gpa});
    struct hv_leaf leaf =
        gfn.v < GUEST_FRAMES ? guest->leaf[gfn.v] : hv_p2m_lookup(&guest->memory.p2m, gfn);

    return (char *)hv_arena_host(guest->arena, leaf.mfn) + gpa % HV_PAGE_SIZE;
}

static inline void guest_publish(struct guest *guest, uint64_t gfn, struct hv_leaf leaf)
{
    hv_lock_take(&guest->memory.p2m.lock);
    (void)hv_p2m_set_locked(&guest->memory.p2m, (hv_gfn){gfn}, leaf);
    hv_lock_drop(&guest->memory.p2m.lock);
}

/** Let the page at @gpa be of another kind. Nobody is asked to flush. */
static inline void guest_set_leaf(struct guest *guest, uint64_t gpa, enum hv_leaf_kind kind)
{
    struct hv_leaf leaf = guest->leaf[gpa / HV_PAGE_SIZE];

    leaf.kind = kind;
    guest_publish(guest, gpa / HV_PAGE_SIZE, leaf);
}

static inline void guest_create_memory(struct guest *guest)
{
    const struct hv_arena_config config = {
        .backing = HV_BACKING_KIND_ANON,
        .bytes = GUEST_ALL_FRAMES * HV_PAGE_SIZE + HV_EXTENT_SIZE,
    };
    struct hv_leaf leaf;

    if (hv_arena_create(&config, &guest->arena) ||
        hv_memory_init(&guest->memory, guest->arena, 7, GUEST_ALL_FRAMES * HV_PAGE_SIZE, NULL,
                       NULL) ||
        hv_memory_add_ram(&guest->memory, (hv_gfn){0}, GUEST_ALL_FRAMES)) {
        abort();
    }
    for (uint64_t gfn = 0; gfn < GUEST_FRAMES; gfn++) {
        if (hv_memory_fill(&guest->memory, (hv_gfn){gfn}, &leaf)) {
            abort();
        }
        guest->leaf[gfn ^ 5] = leaf;
    }
    for (uint64_t gfn = 0; gfn < GUEST_FRAMES; gfn++) {
        guest_publish(guest, gfn, guest->leaf[gfn]);
    }
}

static inline void guest_destroy_memory(struct guest *guest)
{
    for (uint64_t gfn = 0; gfn < GUEST_FRAMES; gfn++) {
        guest_publish(guest, gfn, guest->leaf[gfn ^ 5]);
    }
    while (hv_memory_relinquish(&guest->memory, 10000) == -EAGAIN) {
    }
    hv_memory_finish(&guest->memory);
    hv_arena_destroy(guest->arena);
}

static inline uint64_t guest_peek(struct guest *guest, uint64_t gpa, unsigned bytes)
{
    return hv_load_le(guest_host(guest, gpa), bytes);
}

static inline void guest_poke(struct guest *guest, uint64_t gpa, unsigned bytes, uint64_t value)
{
    hv_store_le(guest_host(guest, gpa), value, bytes);
}

bool soft_code_store(struct soft_code *code, struct hv_engine_vcpu *running, hv_gpa gpa,
                     unsigned bytes)
{
    struct guest *guest = the_guest;

    (void)code;
    (void)running;
    guest->code_stores++;
    guest->code_gpa = gpa;
    guest->code_bytes = bytes;
    guest->code_value = guest_peek(guest, gpa.v, bytes < 8 ? bytes : 8);
    return false;
}

static inline int guest_device(struct guest *guest, enum guest_io_kind kind, uint64_t address,
                               unsigned bytes, uint64_t *value)
{
    guest->io_asked++;
    if (guest->io_again && guest->ios + 1 == guest->io_again) {
        return -EAGAIN;
    }
    if (kind == GUEST_IO_MMIO_READ || kind == GUEST_IO_PIO_READ) {
        *value = 0x8080808080808080 + guest->ios;
    }
    if (guest->ios < HV_ARRAY_LEN(guest->io)) {
        guest->io[guest->ios] = (struct guest_io){kind, address, bytes, *value};
    }
    guest->ios++;
    return 0;
}

static inline int guest_pio_read(void *context, uint16_t port, unsigned bytes, uint64_t *value_out)
{
    return guest_device(context, GUEST_IO_PIO_READ, port, bytes, value_out);
}

static inline int guest_pio_write(void *context, uint16_t port, unsigned bytes, uint64_t value)
{
    return guest_device(context, GUEST_IO_PIO_WRITE, port, bytes, &value);
}

static inline int guest_mmio_read(void *context, hv_gpa gpa, unsigned bytes, uint64_t *value_out)
{
    return guest_device(context, GUEST_IO_MMIO_READ, gpa.v, bytes, value_out);
}

static inline int guest_mmio_write(void *context, hv_gpa gpa, unsigned bytes, uint64_t value)
{
    return guest_device(context, GUEST_IO_MMIO_WRITE, gpa.v, bytes, &value);
}

static const struct hv_engine_io guest_io_ops = {
    .pio_read = guest_pio_read,
    .pio_write = guest_pio_write,
    .mmio_read = guest_mmio_read,
    .mmio_write = guest_mmio_write,
};

static inline void guest_add_vcpu(struct guest *guest, unsigned index)
{
    struct hv_engine_vcpu *vcpu = &guest->vcpu[index];

    hv_doorbell_init(&guest->bell[index]);
    hv_holder_init(&guest->holder[index], &guest->bell[index], "vcpu", index);
    hv_memory_add_holder(&guest->memory, index, &guest->holder[index]);
    hv_cpu_reset(&guest->cpu[index], true);
    vcpu->cpu = &guest->cpu[index];
    vcpu->bell = &guest->bell[index];
    vcpu->holder = &guest->holder[index];
    vcpu->domain = &guest->domain;
    vcpu->memory = &guest->memory;
    vcpu->clock = &guest->clock;
    vcpu->io = &guest_io_ops;
    vcpu->io_context = guest;
    vcpu->index = index;
    vcpu->access = (struct hv_access){&soft_access_ops, vcpu};
    if (soft_tlbs_create(vcpu) || soft_enter(vcpu)) {
        abort();
    }
}

/** A guest in real mode whose RAM is populated and zero; vCPU 0 is IN_GUEST. */
static inline struct guest *guest_create(void)
{
    struct guest *guest = aligned_alloc(64, (sizeof(*guest) + 63) / 64 * 64);

    if (!guest) {
        abort();
    }
    memset(guest, 0, sizeof(*guest));
    the_guest = guest;
    guest_create_memory(guest);
    guest->domain.memory = &guest->memory;
    soft_exclusive_init(&guest->domain.exclusive);
    hv_clock_init_host(&guest->clock);
    guest_add_vcpu(guest, 0);
    return guest;
}

static inline void guest_destroy(struct guest *guest)
{
    for (unsigned i = 0; i < GUEST_VCPUS; i++) {
        soft_tlbs_destroy(&guest->vcpu[i]);
        hv_doorbell_leave(&guest->bell[i]);
    }
    soft_exclusive_finish(&guest->domain.exclusive);
    guest_destroy_memory(guest);
    free(guest);
}

static inline void guest_set_cpl(struct guest *guest, uint8_t cpl)
{
    guest->cpu[0].cpl = cpl;
    soft_tlb_set_mode(&guest->vcpu[0]);
}

static inline void guest_set_ac(struct guest *guest, bool ac)
{
    guest->cpu[0].rflags &= ~(uint32_t)HV_RFLAGS_AC;
    guest->cpu[0].rflags |= ac ? (uint32_t)HV_RFLAGS_AC : 0;
    soft_tlb_set_mode(&guest->vcpu[0]);
}

/** Back in the guest after -EAGAIN, as the engine's next run would be. */
static inline void guest_reenter(struct guest *guest, unsigned index)
{
    struct hv_doorbell *bell = &guest->bell[index];

    hv_doorbell_leave(bell);
    while (soft_enter(&guest->vcpu[index])) {
        soft_serve(&guest->vcpu[index], hv_doorbell_take(bell));
        hv_doorbell_acknowledge(bell);
    }
}

/** Begin a dirty epoch. True when the page at @gpa was written in the last one. vCPU 0's thread. */
static inline bool guest_new_epoch(struct guest *guest, uint64_t gpa)
{
    uint64_t cursor = 0;
    bool dirty = false;
    hv_gfn gfn;

    hv_doorbell_leave(&guest->bell[0]);
    if (hv_dirty_round(&guest->memory)) {
        abort();
    }
    while (hv_dirty_harvest(&guest->memory, &cursor, &gfn, 1)) {
        dirty |= gfn.v == gpa / HV_PAGE_SIZE;
    }
    guest_reenter(guest, 0);
    return dirty;
}

/** Begin to keep a dirty log; everything known so far counts as of an old epoch. */
static inline void guest_log_dirty(struct guest *guest)
{
    if (hv_dirty_start(&guest->memory)) {
        abort();
    }
    (void)guest_new_epoch(guest, 0);
    (void)guest_new_epoch(guest, 0);
}

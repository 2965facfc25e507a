/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Copies between host buffers and guest RAM: beside the engines' own accesses the only code that
 * touches guest memory (the heap's scrub touches memory that is nobody's).
 *
 * A page is held by a general reference while it is read, and by a WRITABLE type reference while it
 * is written, so that no pointer here needs a flush. vCPUs access the same bytes meanwhile: so every
 * access is a relaxed atomic of the largest naturally aligned size, and a device's aligned 2, 4 or 8
 * bytes are one access, never torn.
 */
#include "mem/memory-private.h"

#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "mem/arena-private.h"
#include "sync/race.h"

/* The largest power of two, up to 8, that the address is aligned to and that fits. */
static size_t step_at(const uint8_t *guest, size_t left)
{
    uintptr_t aligned = (uintptr_t)guest | 8;
    size_t step = aligned & -aligned;

    while (step > left) {
        step /= 2;
    }
    return step;
}

static uint64_t load_step(uint8_t *guest, size_t step)
{
    switch (step) {
    case 8:
        return hv_load_relaxed((_Atomic uint64_t *)(void *)guest);
    case 4:
        return hv_load_relaxed((_Atomic uint32_t *)(void *)guest);
    case 2:
        return hv_load_relaxed((_Atomic uint16_t *)(void *)guest);
    default:
        return hv_load_relaxed((_Atomic uint8_t *)guest);
    }
}

static void store_step(uint8_t *guest, size_t step, uint64_t value)
{
    switch (step) {
    case 8:
        hv_store_relaxed((_Atomic uint64_t *)(void *)guest, value);
        break;
    case 4:
        hv_store_relaxed((_Atomic uint32_t *)(void *)guest, (uint32_t)value);
        break;
    case 2:
        hv_store_relaxed((_Atomic uint16_t *)(void *)guest, (uint16_t)value);
        break;
    default:
        hv_store_relaxed((_Atomic uint8_t *)guest, (uint8_t)value);
        break;
    }
}

/* The bulk of a page: aligned words. Returns the bytes that are left over. */
static size_t copy_words(uint8_t *guest, uint8_t *buffer, size_t bytes,
                         enum hv_copy_direction direction)
{
    _Atomic uint64_t *word = (_Atomic uint64_t *)(void *)guest;

    for (; bytes >= sizeof(*word); bytes -= sizeof(*word), buffer += sizeof(*word), word++) {
        if (direction == HV_COPY_FROM_GUEST) {
            hv_store_le(buffer, hv_load_relaxed(word), sizeof(*word));
        } else {
            hv_store_relaxed(word, hv_load_le(buffer, sizeof(*word)));
        }
    }
    return bytes;
}

static void copy_bytes(uint8_t *guest, uint8_t *buffer, size_t bytes,
                       enum hv_copy_direction direction)
{
    size_t left;

    while (bytes > 0) {
        size_t step = step_at(guest, bytes);

        if (step == sizeof(uint64_t)) {
            left = copy_words(guest, buffer, bytes, direction);
            guest += bytes - left;
            buffer += bytes - left;
            bytes = left;
            continue;
        }
        if (direction == HV_COPY_FROM_GUEST) {
            hv_store_le(buffer, load_step(guest, step), (unsigned)step);
        } else {
            store_step(guest, step, hv_load_le(buffer, (unsigned)step));
        }
        guest += step;
        buffer += step;
        bytes -= step;
    }
}

static bool can_copy(struct hv_leaf leaf, enum hv_copy_direction direction)
{
    return leaf.kind == HV_LEAF_RAM || leaf.kind == HV_LEAF_RAM_RO || leaf.kind == HV_LEAF_SHARED ||
           leaf.kind == HV_LEAF_UNPOPULATED ||
           (leaf.kind == HV_LEAF_ROM_OVER_RAM && direction == HV_COPY_FROM_GUEST);
}

static int check_range(struct hv_memory *memory, hv_gpa gpa, uint64_t bytes,
                       enum hv_copy_direction direction)
{
    uint64_t end;

    if (hv_memory_dying(memory)) {
        return -ECANCELED;
    }
    if (hv_add_overflows(gpa.v, bytes, &end)) {
        return -EINVAL;
    }
    for (uint64_t gfn = gpa.v >> HV_PAGE_SHIFT; gfn << HV_PAGE_SHIFT < end; gfn++) {
        if (!can_copy(hv_p2m_lookup(&memory->p2m, (hv_gfn){gfn}), direction)) {
            return -EINVAL;
        }
    }
    return 0;
}

static int write_page(struct hv_memory *memory, hv_gpa gpa, uint8_t *buffer, size_t bytes)
{
    hv_mfn mfn;
    int err = hv_memory_get_writable_page(memory, hv_gpa_to_gfn(gpa), false, &mfn);

    if (err) {
        return err;
    }
    HV_RACE("memory.copy.typed");
    copy_bytes((uint8_t *)hv_arena_host(memory->arena, mfn) + hv_gpa_offset(gpa), buffer, bytes,
               HV_COPY_TO_GUEST);
    hv_memory_note_write(memory, hv_gpa_to_gfn(gpa));
    hv_frame_type_put(memory->arena, mfn);
    hv_frame_put(memory->arena, mfn);
    return 0;
}

static int read_page(struct hv_memory *memory, hv_gpa gpa, uint8_t *buffer, size_t bytes)
{
    struct hv_leaf leaf;
    int err = hv_memory_get_page(memory, hv_gpa_to_gfn(gpa), false, &leaf);

    if (err) {
        return err;
    }
    if (leaf.kind == HV_LEAF_UNPOPULATED) {
        memset(buffer, 0, bytes);
        return 0;
    }
    copy_bytes((uint8_t *)hv_arena_host(memory->arena, leaf.mfn) + hv_gpa_offset(gpa), buffer,
               bytes, HV_COPY_FROM_GUEST);
    hv_frame_put(memory->arena, leaf.mfn);
    return 0;
}

static int copy_in_page(struct hv_memory *memory, hv_gpa gpa, uint8_t *buffer, size_t bytes,
                        enum hv_copy_direction direction)
{
    int err = direction == HV_COPY_TO_GUEST ? write_page(memory, gpa, buffer, bytes)
                                            : read_page(memory, gpa, buffer, bytes);

    /* No RAM any more, or ROM by now. */
    return err == -ENOENT || err == -EPERM ? -EINVAL : err;
}

int hv_memory_copy(struct hv_memory *memory, hv_gpa gpa, void *buffer, uint64_t bytes,
                   enum hv_copy_direction direction)
{
    uint8_t *host = buffer;
    int err = check_range(memory, gpa, bytes, direction);

    while (!err && bytes > 0) {
        uint64_t room = HV_PAGE_SIZE - hv_gpa_offset(gpa);
        size_t step = bytes < room ? bytes : room;

        err = copy_in_page(memory, gpa, host, step, direction);
        host += step;
        gpa.v += step;
        bytes -= step;
    }
    return err;
}

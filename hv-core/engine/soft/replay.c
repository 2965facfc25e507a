/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Device accesses, and what happens when one cannot complete at once (decisions D9).
 *
 *     access --device answers--> recorded, next access
 *     access --device: -EAGAIN--> the instruction is left before it commits anything; on re-entry
 *                                 it starts anew and is given the recorded values until it comes
 *                                 to the access that was left, which is asked again
 *     soft_insn_done()            the records belong to the past
 *
 * So a device sees each access of an instruction once and in order, however often the instruction
 * starts. A fault on the way does not end this: the delivery of the exception goes on recording,
 * and when it is left the instruction starts anew, faults anew, and is followed by the rest.
 *
 * What starts anew may be something else: the guest's other vCPUs may have changed the code, its
 * operands or its page tables meanwhile. A record is good for its own kind, address and size alone;
 * at the first that is not, the rest is forgotten. A store is not made again for having another
 * value: the device has seen it.
 */
#include "engine/soft/access-private.h"

static int left_for_device(struct hv_engine_vcpu *vcpu)
{
    vcpu->awaits_device = true;
    return soft_restart(vcpu);
}

/* Was @access made already? Then access->value is filled. */
static bool replayed(struct hv_engine_vcpu *vcpu, struct soft_replay_access *access)
{
    struct soft_replay *replay = &vcpu->replay;
    const struct soft_replay_access *made = &replay->access[replay->next];

    if (replay->next >= replay->recorded) {
        return false;
    }
    if (made->kind != access->kind || made->address != access->address ||
        made->bytes != access->bytes) {
        replay->recorded = replay->next;
        return false;
    }
    access->value = made->value;
    replay->next++;
    return true;
}

static int record(struct hv_engine_vcpu *vcpu, const struct soft_replay_access *access)
{
    struct soft_replay *replay = &vcpu->replay;

    /* A chain of faults in the delivery of others, all through devices: it goes on without. */
    if (replay->recorded == SOFT_REPLAY_MAX) {
        return 0;
    }
    replay->access[replay->recorded++] = *access;
    replay->next = replay->recorded;
    return vcpu->force_io_exit ? left_for_device(vcpu) : 0;
}

static int ask(struct hv_engine_vcpu *vcpu, struct soft_replay_access *access)
{
    const struct hv_engine_io *io = vcpu->io;
    uint16_t port = (uint16_t)access->address;
    hv_gpa gpa = {access->address};

    switch ((enum soft_replay_kind)access->kind) {
    case SOFT_REPLAY_PIO_READ:
        return io->pio_read(vcpu->io_context, port, access->bytes, &access->value);
    case SOFT_REPLAY_PIO_WRITE:
        return io->pio_write(vcpu->io_context, port, access->bytes, access->value);
    case SOFT_REPLAY_MMIO_READ:
        return io->mmio_read(vcpu->io_context, gpa, access->bytes, &access->value);
    case SOFT_REPLAY_MMIO_WRITE:
        return io->mmio_write(vcpu->io_context, gpa, access->bytes, access->value);
    }
    return 0;
}

static int make(struct hv_engine_vcpu *vcpu, struct soft_replay_access *access)
{
    int result;

    if (replayed(vcpu, access)) {
        return 0;
    }
    result = ask(vcpu, access);
    access->value &= hv_bytes_mask(access->bytes);
    if (result) {
        return result == -EAGAIN ? left_for_device(vcpu) : result;
    }
    return record(vcpu, access);
}

static int read_device(struct hv_engine_vcpu *vcpu, enum soft_replay_kind kind, uint64_t address,
                       unsigned bytes, uint64_t *value_out)
{
    struct soft_replay_access access = {
        .address = address, .kind = (uint8_t)kind, .bytes = (uint8_t)bytes};
    int result = make(vcpu, &access);

    *value_out = result ? 0 : access.value;
    return result;
}

static int write_device(struct hv_engine_vcpu *vcpu, enum soft_replay_kind kind, uint64_t address,
                        unsigned bytes, uint64_t value)
{
    struct soft_replay_access access = {
        .address = address, .value = value, .kind = (uint8_t)kind, .bytes = (uint8_t)bytes};

    return make(vcpu, &access);
}

int soft_pio_read(struct hv_engine_vcpu *vcpu, uint16_t port, unsigned bytes, uint64_t *value_out)
{
    return read_device(vcpu, SOFT_REPLAY_PIO_READ, port, bytes, value_out);
}

int soft_pio_write(struct hv_engine_vcpu *vcpu, uint16_t port, unsigned bytes, uint64_t value)
{
    return write_device(vcpu, SOFT_REPLAY_PIO_WRITE, port, bytes, value);
}

/* The largest naturally aligned power of two that starts here. */
static unsigned bus_width(hv_gpa gpa, unsigned bytes)
{
    unsigned width = 8;

    while (width > bytes || (gpa.v & (width - 1))) {
        width /= 2;
    }
    return width;
}

int soft_device_read(struct hv_engine_vcpu *vcpu, hv_gpa gpa, unsigned bytes, void *to)
{
    while (bytes) {
        unsigned width = bus_width(gpa, bytes);
        uint64_t value;
        int result = read_device(vcpu, SOFT_REPLAY_MMIO_READ, gpa.v, width, &value);

        if (result) {
            return result;
        }
        hv_store_le(to, value, width);
        to = (char *)to + width;
        gpa.v += width;
        bytes -= width;
    }
    return 0;
}

int soft_device_write(struct hv_engine_vcpu *vcpu, hv_gpa gpa, unsigned bytes, const void *from)
{
    while (bytes) {
        unsigned width = bus_width(gpa, bytes);
        int result =
            write_device(vcpu, SOFT_REPLAY_MMIO_WRITE, gpa.v, width, hv_load_le(from, width));

        if (result) {
            return result;
        }
        from = (const char *)from + width;
        gpa.v += width;
        bytes -= width;
    }
    return 0;
}

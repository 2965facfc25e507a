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
 * starts. The record holds eight; a ninth access is made but not recorded, so an instruction that
 * touches a device more than eight times (XSAVE to a device, PUSHA astride two of them) repeats
 * those beyond when it is left at the tenth.
 */
#include "engine/soft/access-private.h"

static int left_for_device(struct hv_engine_vcpu *vcpu)
{
    vcpu->awaits_device = true;
    return soft_restart(vcpu);
}

static bool replayed(struct hv_engine_vcpu *vcpu, uint64_t *value_out)
{
    struct soft_replay *replay = &vcpu->replay;

    if (replay->next >= replay->recorded) {
        return false;
    }
    *value_out = replay->value[replay->next++];
    return true;
}

static int record(struct hv_engine_vcpu *vcpu, uint64_t value)
{
    struct soft_replay *replay = &vcpu->replay;

    if (replay->recorded == SOFT_REPLAY_MAX) {
        return 0;
    }
    replay->value[replay->recorded++] = value;
    replay->next = replay->recorded;
    return vcpu->domain->force_io_exit ? left_for_device(vcpu) : 0;
}

/* What the device said, 0 when it has completed. */
static int answered(struct hv_engine_vcpu *vcpu, int result, uint64_t value)
{
    if (result == -EAGAIN) {
        return left_for_device(vcpu);
    }
    return result ? result : record(vcpu, value);
}

int soft_pio_read(struct hv_engine_vcpu *vcpu, uint16_t port, unsigned bytes, uint64_t *value_out)
{
    int result;

    *value_out = 0;
    if (replayed(vcpu, value_out)) {
        return 0;
    }
    result = vcpu->io->pio_read(vcpu->io_context, port, bytes, value_out);
    *value_out &= hv_bytes_mask(bytes);
    return answered(vcpu, result, *value_out);
}

int soft_pio_write(struct hv_engine_vcpu *vcpu, uint16_t port, unsigned bytes, uint64_t value)
{
    uint64_t ignored;

    if (replayed(vcpu, &ignored)) {
        return 0;
    }
    return answered(vcpu, vcpu->io->pio_write(vcpu->io_context, port, bytes, value), 0);
}

static int mmio_read(struct hv_engine_vcpu *vcpu, hv_gpa gpa, unsigned bytes, uint64_t *value_out)
{
    int result;

    *value_out = 0;
    if (replayed(vcpu, value_out)) {
        return 0;
    }
    result = vcpu->io->mmio_read(vcpu->io_context, gpa, bytes, value_out);
    *value_out &= hv_bytes_mask(bytes);
    return answered(vcpu, result, *value_out);
}

static int mmio_write(struct hv_engine_vcpu *vcpu, hv_gpa gpa, unsigned bytes, uint64_t value)
{
    uint64_t ignored;

    if (replayed(vcpu, &ignored)) {
        return 0;
    }
    return answered(vcpu, vcpu->io->mmio_write(vcpu->io_context, gpa, bytes, value), 0);
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
        int result = mmio_read(vcpu, gpa, width, &value);

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
        int result = mmio_write(vcpu, gpa, width, hv_load_le(from, width));

        if (result) {
            return result;
        }
        from = (const char *)from + width;
        gpa.v += width;
        bytes -= width;
    }
    return 0;
}

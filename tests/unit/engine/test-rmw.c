/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Read-modify-write, and device accesses with restart and replay. */
#include "engine/soft/access.h"

#include "soft-tables.h"

#define DEVICE  UINT64_C(0x40000)
#define SCRATCH UINT64_C(0x50000)

static struct guest *guest_with_device(void)
{
    struct guest *guest = guest_create();

    guest_long_mode(guest, 0);
    guest_set_leaf(guest, DEVICE, HV_LEAF_MMIO);
    return guest;
}

static void test_direct(void)
{
    struct guest *guest = guest_create();
    struct hv_engine_vcpu *vcpu = &guest->vcpu[0];
    void *place;

    guest_long_mode(guest, 0);
    for (unsigned bytes = 1; bytes <= 64; bytes *= 2) {
        TAP_EQ(soft_rmw_begin(vcpu, SCRATCH + 64, bytes, true, &place), 0);
        TAP_EQ((uintptr_t)place, (uintptr_t)guest_host(guest, SCRATCH + 64));
        TAP_EQ(soft_rmw_commit(vcpu), 0);
    }
    /* Unaligned inside a cache line, and unlocked across one. */
    TAP_EQ(soft_rmw_begin(vcpu, SCRATCH + 56 + 3, 4, true, &place), 0);
    TAP_EQ((uintptr_t)place, (uintptr_t)guest_host(guest, SCRATCH + 59));
    TAP_EQ(soft_rmw_commit(vcpu), 0);
    TAP_EQ(soft_rmw_begin(vcpu, SCRATCH + 62, 4, false, &place), 0);
    TAP_EQ((uintptr_t)place, (uintptr_t)guest_host(guest, SCRATCH + 62));
    TAP_EQ(soft_rmw_commit(vcpu), 0);
    guest_destroy(guest);
}

static void test_bounced(void)
{
    struct guest *guest = guest_create();
    struct hv_engine_vcpu *vcpu = &guest->vcpu[0];
    uint64_t edge = SCRATCH + HV_PAGE_SIZE;
    void *place;

    guest_long_mode(guest, 0);
    for (unsigned locked = 0; locked < 2; locked++) {
        guest_poke(guest, edge - 4, 4, 0x44332211);
        guest_poke(guest, edge, 4, 0x88776655);
        TAP_EQ(soft_rmw_begin(vcpu, edge - 3, 8, locked, &place), 0);
        TAP_EQ((uintptr_t)place, (uintptr_t)vcpu->bounce.bytes);
        TAP_EQ(hv_load_le(place, 7), 0x88776655443322);
        TAP_EQ(vcpu->bounce.exclusive, locked);
        TAP_EQ(hv_load_seq(&guest->domain.exclusive.active), locked);
        hv_store_le(place, UINT64_MAX, 8);
        TAP_EQ(guest_peek(guest, edge - 4, 4), 0x44332211);
        TAP_EQ(soft_rmw_commit(vcpu), 0);
        TAP_EQ(guest_peek(guest, edge - 4, 4), 0xffffff11);
        TAP_EQ(guest_peek(guest, edge, 5), 0xffffffffff);
        TAP_EQ(hv_load_seq(&guest->domain.exclusive.active), 0);
        guest_poke(guest, edge, 8, 0);
    }

    /* A split lock inside a page bounces, too; nothing is stored before the commit. */
    guest_poke(guest, SCRATCH + 56, 8, 5);
    TAP_EQ(soft_rmw_begin(vcpu, SCRATCH + 60, 8, true, &place), 0);
    TAP_OK(vcpu->bounce.exclusive);
    memset(place, 0xee, 8);
    TAP_EQ(guest_peek(guest, SCRATCH + 56, 8), 5);
    TAP_EQ(soft_rmw_commit(vcpu), 0);
    TAP_EQ(guest_peek(guest, SCRATCH + 56, 8), UINT64_C(0xeeeeeeee00000005));
    TAP_EQ(hv_load_seq(&guest->domain.exclusive.active), 0);
    guest_destroy(guest);
}

static void test_code_in_place(void)
{
    struct guest *guest = guest_create();
    struct hv_engine_vcpu *vcpu = &guest->vcpu[0];
    void *place;

    guest_long_mode(guest, 0);
    guest_log_dirty(guest);
    guest_set_leaf(guest, SCRATCH, HV_LEAF_RAM_RO);
    TAP_EQ(soft_rmw_begin(vcpu, SCRATCH + 8, 4, true, &place), 0);
    TAP_EQ((uintptr_t)place, (uintptr_t)guest_host(guest, SCRATCH + 8));
    hv_store_le(place, 77, 4);
    TAP_EQ(guest->code_stores, 0);
    TAP_EQ(soft_rmw_commit(vcpu), 0);
    TAP_EQ(guest->code_stores, 1);
    TAP_EQ(guest->code_gpa.v, SCRATCH + 8);
    TAP_EQ(guest->code_value, 77);
    TAP_OK(guest_new_epoch(guest, SCRATCH));
    guest_destroy(guest);
}

/* A bus carries 1, 2, 4 and 8 bytes, naturally aligned. */
static void test_bus_widths(void)
{
    static const struct {
        unsigned offset;
        unsigned bytes;
        unsigned width[5];
    } row[] = {
        {0, 1, {1}},          {0, 8, {8}},    {4, 8, {4, 4}},
        {3, 8, {1, 4, 2, 1}}, {2, 4, {2, 2}}, {1, 16, {1, 2, 4, 8, 1}},
        {0, 7, {4, 2, 1}},
    };
    struct guest *guest = guest_with_device();
    struct hv_engine_vcpu *vcpu = &guest->vcpu[0];

    for (unsigned i = 0; i < HV_ARRAY_LEN(row); i++) {
        uint8_t bytes[16];
        uint64_t address = DEVICE + row[i].offset;

        guest->ios = 0;
        TAP_EQ(soft_read_bytes(vcpu, address, bytes, row[i].bytes), 0);
        soft_insn_done(vcpu);
        for (unsigned j = 0; j < 5 && row[i].width[j]; j++) {
            TAP_EQ(guest->io[j].kind, GUEST_IO_MMIO_READ);
            TAP_EQ(guest->io[j].address, address);
            TAP_EQ(guest->io[j].bytes, row[i].width[j]);
            TAP_EQ(bytes[address - DEVICE - row[i].offset], 0x80 + j);
            address += row[i].width[j];
        }
        TAP_EQ(address, DEVICE + row[i].offset + row[i].bytes);
    }
    guest->ios = 0;
    TAP_EQ(soft_write_slow(vcpu, DEVICE + 2, 4, 0x44332211), 0);
    soft_insn_done(vcpu);
    TAP_EQ(guest->ios, 2);
    TAP_EQ(guest->io[0].value, 0x2211);
    TAP_EQ(guest->io[1].value, 0x4433);
    TAP_EQ(guest->io[1].address, DEVICE + 4);
    guest_destroy(guest);
}

static void test_device_rmw(void)
{
    struct guest *guest = guest_with_device();
    struct hv_engine_vcpu *vcpu = &guest->vcpu[0];
    struct hv_fault fault;
    void *place;

    TAP_EQ(soft_rmw_begin(vcpu, DEVICE + 4, 4, false, &place), 0);
    TAP_EQ(hv_load_le(place, 4), 0x80808080);
    hv_store_le(place, 0x12345678, 4);
    TAP_EQ(soft_rmw_commit(vcpu), 0);
    soft_insn_done(vcpu);
    TAP_EQ(guest->ios, 2);
    TAP_EQ(guest->io[1].kind, GUEST_IO_MMIO_WRITE);
    TAP_EQ(guest->io[1].value, 0x12345678);

    TAP_EQ(
        soft_access_ops.set_bits(vcpu, (hv_gva){DEVICE}, 0x01, 0x80, HV_WALK_AS_SUPERVISOR, &fault),
        0);
    soft_insn_done(vcpu);
    TAP_EQ(guest->io[3].value, 0x03); /* of 0x82 */
    guest_destroy(guest);
}

/* The device half of a crossing store goes first: it may have to be restarted. */
static void test_device_goes_first(void)
{
    struct guest *guest = guest_with_device();
    struct hv_engine_vcpu *vcpu = &guest->vcpu[0];

    guest->io_again = 1;
    TAP_EQ(soft_write_slow(vcpu, DEVICE - 4, 8, UINT64_MAX), (uint64_t)-EAGAIN);
    TAP_EQ(guest_peek(guest, DEVICE - 4, 4), 0);
    guest->io_again = 0;
    TAP_EQ(soft_write_slow(vcpu, DEVICE - 4, 8, UINT64_MAX), 0);
    TAP_EQ(guest_peek(guest, DEVICE - 4, 4), UINT32_MAX);
    TAP_EQ(guest->ios, 1);
    guest_destroy(guest);
}

/* An "instruction" of four device accesses: a read that crosses nothing but alignment (two), and a
 * read-modify-write. Returns as it does; *sum_out is what it computed. */
static int four_accesses(struct hv_engine_vcpu *vcpu, uint64_t *sum_out)
{
    uint64_t read;
    void *place;
    int result = soft_read_slow(vcpu, DEVICE + 2, 4, &read);

    if (result) {
        return result;
    }
    result = soft_rmw_begin(vcpu, DEVICE + 16, 8, true, &place);
    if (result) {
        return result;
    }
    *sum_out = read + hv_load_le(place, 8);
    hv_store_le(place, *sum_out, 8);
    return soft_rmw_commit(vcpu);
}

static void test_replay(void)
{
    for (unsigned left_at = 1; left_at <= 4; left_at++) {
        struct guest *guest = guest_with_device();
        struct hv_engine_vcpu *vcpu = &guest->vcpu[0];
        uint64_t sum = 0;

        guest->io_again = left_at;
        for (unsigned tries = 0; tries < 3; tries++) {
            TAP_EQ(four_accesses(vcpu, &sum), (uint64_t)-EAGAIN);
            TAP_OK(vcpu->awaits_device);
            TAP_EQ(soft_insn_pending(vcpu), left_at > 1);
            TAP_EQ(hv_load_seq(&guest->domain.exclusive.active), 0);
            TAP_EQ(guest->ios, left_at - 1);
        }
        guest->io_again = 0;
        TAP_EQ(four_accesses(vcpu, &sum), 0);
        soft_insn_done(vcpu);
        TAP_OK(!soft_insn_pending(vcpu));
        TAP_EQ(guest->ios, 4);
        TAP_EQ(sum, 0x80818080 + 0x8080808080808082);
        TAP_EQ(guest->io[3].value, sum);
        /* The next instruction is not given old values. */
        TAP_EQ(four_accesses(vcpu, &sum), 0);
        TAP_EQ(guest->ios, 8);
        guest_destroy(guest);
    }
}

/* With the debug switch each access leaves once, and the device still sees each once. */
static void test_forced_exits(void)
{
    struct guest *guest = guest_with_device();
    struct hv_engine_vcpu *vcpu = &guest->vcpu[0];
    unsigned exits = 0;
    uint64_t sum = 0;
    uint64_t value;

    vcpu->force_io_exit = true;
    while (four_accesses(vcpu, &sum) == -EAGAIN) {
        exits++;
        TAP_OK(exits <= 4);
        guest_reenter(guest, 0);
    }
    soft_insn_done(vcpu);
    TAP_EQ(exits, 4);
    TAP_EQ(guest->ios, 4);
    TAP_EQ(sum, 0x80818080 + 0x8080808080808082);

    TAP_EQ(soft_pio_read(vcpu, 0x60, 1, &value), (uint64_t)-EAGAIN);
    TAP_EQ(soft_pio_read(vcpu, 0x60, 1, &value), 0);
    TAP_EQ(value, 0x84);
    soft_insn_done(vcpu);
    TAP_EQ(soft_pio_write(vcpu, 0x61, 2, 0x1234), (uint64_t)-EAGAIN);
    TAP_EQ(soft_pio_write(vcpu, 0x61, 2, 0x1234), 0);
    TAP_EQ(guest->ios, 6);
    TAP_EQ(guest->io[5].kind, GUEST_IO_PIO_WRITE);
    TAP_EQ(guest->io[5].value, 0x1234);
    guest_destroy(guest);
}

/* What the record has no room for still completes, when it is asked for at last. */
static void test_replay_full(void)
{
    struct guest *guest = guest_with_device();
    struct hv_engine_vcpu *vcpu = &guest->vcpu[0];
    uint8_t bytes[SOFT_REPLAY_MAX * 8 + 8];

    vcpu->force_io_exit = true;
    for (unsigned i = 0; i < SOFT_REPLAY_MAX; i++) {
        TAP_EQ(soft_read_bytes(vcpu, DEVICE, bytes, sizeof(bytes)), (uint64_t)-EAGAIN);
    }
    guest->io_again = SOFT_REPLAY_MAX + 1;
    TAP_EQ(soft_read_bytes(vcpu, DEVICE, bytes, sizeof(bytes)), (uint64_t)-EAGAIN);
    guest->io_again = 0;
    TAP_EQ(soft_read_bytes(vcpu, DEVICE, bytes, sizeof(bytes)), 0);
    TAP_EQ(guest->ios, SOFT_REPLAY_MAX + 1);
    for (unsigned i = 0; i <= SOFT_REPLAY_MAX; i++) {
        TAP_EQ(hv_load_le(&bytes[i * 8], 8), 0x8080808080808080 + i);
    }
    guest_destroy(guest);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"engine.rmw.direct", test_direct},
        {"engine.rmw.bounced", test_bounced},
        {"engine.rmw.code-in-place", test_code_in_place},
        {"engine.rmw.bus-widths", test_bus_widths},
        {"engine.rmw.device", test_device_rmw},
        {"engine.rmw.device-goes-first", test_device_goes_first},
        {"engine.rmw.replay", test_replay},
        {"engine.rmw.forced-exits", test_forced_exits},
        {"engine.rmw.replay-full", test_replay_full},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

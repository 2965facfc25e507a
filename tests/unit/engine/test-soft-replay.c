/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Instructions whose device accesses are not completed at once (decisions D9): whatever leaves the
 * engine at each access ends as what never leaves, and devices see the same.
 */
#include "soft-case.h"

#include "engine/soft/vcpu.h"

#include <limits.h>

#define VECTOR 0x21
#define DEVICE 0x4000000u /* behind RAM */
#define DATA   0x30000u
#define PLAIN  0x6000u /* where 16-bit branches reach */
/* RAM that nothing has touched. */
#define FRESH  (24 * HV_MIB)

SNIPPET(device_strings);
SNIPPET(device_modify);
SNIPPET(device_crossing);
SNIPPET(device_xsave);
SNIPPET(device_push);
SNIPPET(device_divide);
SNIPPET(device_read);
SNIPPET(device_bad);
SNIPPET(device_sti);
SNIPPET(device_gather);
SNIPPET(device_frames);
SNIPPET(device_jump);
SNIPPET(device_again);
SNIPPET(count_to_1000);

static bool same_accesses(const struct soft_machine *a, const struct soft_machine *b)
{
    if (a->io_accesses != b->io_accesses || a->io_accesses > HV_ARRAY_LEN(a->io)) {
        tap_note("%u accesses and %u", a->io_accesses, b->io_accesses);
        return false;
    }
    for (unsigned i = 0; i < a->io_accesses; i++) {
        const struct soft_machine_io *x = &a->io[i], *y = &b->io[i];

        if (x->port != y->port || x->write != y->write || x->address != y->address ||
            x->value != y->value || x->bytes != y->bytes) {
            tap_note("access %u differs", i);
            return false;
        }
    }
    return true;
}

static bool same_state(struct soft_machine *a, struct soft_machine *b)
{
    static uint8_t x[0x50000], y[sizeof(x)];

    soft_machine_read(a, 0, x, sizeof(x));
    soft_machine_read(b, 0, y, sizeof(y));
    return memcmp(x, y, sizeof(x)) == 0 &&
           memcmp(a->cpu.slot, b->cpu.slot, HV_REG_COUNT * sizeof(a->cpu.slot[0])) == 0 &&
           memcmp(&a->cpu.x, &b->cpu.x, sizeof(a->cpu.x)) == 0 && a->cpu.rip == b->cpu.rip &&
           a->cpu.arith == b->cpu.arith && a->cpu.rflags == b->cpu.rflags &&
           a->cpu.cr2 == b->cpu.cr2;
}

/* Returns how often it left for a device before it halted; UINT_MAX when it did not halt. */
static unsigned run_with_exits(struct soft_machine *machine)
{
    unsigned exits = 0;
    struct hv_exit exit = soft_machine_run(machine, 0);

    while (exit.kind == HV_EXIT_IO && exits < 10000) {
        exits++;
        exit = soft_machine_run(machine, 0);
    }
    return exit.kind == HV_EXIT_HLT ? exits : UINT_MAX;
}

/*
 * Run what @make sets up, which makes so many accesses, without an exit; with one at each access; and
 * with devices that answer only at the second time of asking.
 */
static void same_thrice(struct soft_machine *(*make)(void), unsigned accesses)
{
    struct soft_machine *plain = make(), *forced = make(), *late = make();

    forced->vcpu->force_io_exit = true;
    late->io_late = true;
    TAP_EQ(run_with_exits(plain), 0);
    TAP_EQ(plain->io_accesses, accesses);
    TAP_EQ(run_with_exits(forced), accesses);
    TAP_EQ(run_with_exits(late), accesses);
    TAP_OK(same_accesses(plain, forced));
    TAP_OK(same_accesses(plain, late));
    TAP_OK(same_state(plain, forced));
    TAP_OK(same_state(plain, late));
    soft_machine_destroy(plain);
    soft_machine_destroy(forced);
    soft_machine_destroy(late);
}

/* Answers count up, so that one given to the wrong access is seen. */
static struct soft_machine *counting(struct soft_machine *machine)
{
    machine->io_value = 0x0102030405060708;
    machine->io_step = 0x1111111111111111;
    return machine;
}

/* INS and OUTS to RAM and from it, MOVS from a device, STOS to it and LODS, SCAS, CMPS of it. */
static struct soft_machine *make_strings(void)
{
    struct soft_machine *machine = counting(MACHINE_64(device_strings));

    set_reg(machine, HV_REG_RDX, 0x1f0);
    set_reg(machine, HV_REG_RSI, DATA);
    set_reg(machine, HV_REG_RDI, DATA + HV_PAGE_SIZE - 2);
    return machine;
}

static struct soft_machine *make_device_strings(void)
{
    struct soft_machine *machine = make_strings();

    set_reg(machine, HV_REG_RSI, DEVICE - 1 + HV_PAGE_SIZE);
    set_reg(machine, HV_REG_RDI, DEVICE);
    return machine;
}

static void test_strings(void)
{
    same_thrice(make_strings, 5 + 4);
    same_thrice(make_device_strings, 5 * 2 + 4 * 3 + 3 * 6 + 3 * 3 + 2 * 4 + 9 + 2);
}

static struct soft_machine *make_modify(void)
{
    struct soft_machine *machine = counting(MACHINE_64(device_modify));

    set_reg(machine, HV_REG_RSI, DEVICE + 8);
    set_reg(machine, HV_REG_RAX, 0x1234567890);
    set_reg(machine, HV_REG_RCX, 77);
    return machine;
}

static void test_modify(void)
{
    same_thrice(make_modify, 28);
}

static struct soft_machine *make_crossing(void)
{
    struct soft_machine *machine = counting(MACHINE_64(device_crossing));

    set_reg(machine, HV_REG_RSI, DEVICE + HV_PAGE_SIZE);
    return machine;
}

/* The first page is RAM, the second a device's; and the other way round. */
static struct soft_machine *make_ram_first(void)
{
    struct soft_machine *machine = make_crossing();

    set_reg(machine, HV_REG_RSI, DATA);
    set_page(machine, DATA, DEVICE, PAGE_WRITE);
    return machine;
}

static struct soft_machine *make_device_first(void)
{
    struct soft_machine *machine = make_ram_first();

    set_reg(machine, HV_REG_RSI, DATA + HV_PAGE_SIZE);
    return machine;
}

static void test_crossing(void)
{
    same_thrice(make_crossing, 23);
    same_thrice(make_ram_first, 12);
    same_thrice(make_device_first, 12);
}

static struct soft_machine *make_xsave(void)
{
    struct soft_machine *machine = counting(MACHINE_64(device_xsave));

    machine->cpu.cr4 |= HV_CR4_OSXSAVE;
    machine->cpu.xcr0 = HV_XCR0_X87 | HV_XCR0_SSE;
    machine->io_step = 0; /* MXCSR has reserved bits */
    machine->io_value = 0;
    set_reg(machine, HV_REG_RSI, DEVICE);
    return machine;
}

static struct soft_machine *make_gather(void)
{
    struct soft_machine *machine = counting(MACHINE_64(device_gather));

    machine->cpu.cr4 |= HV_CR4_OSXSAVE;
    machine->cpu.xcr0 = HV_XCR0_X87 | HV_XCR0_SSE | HV_XCR0_AVX;
    for (unsigned i = 0; i < 4; i++) {
        hv_store_le(&machine->cpu.x.bytes[i < 2 ? 160 + 3 * 16 + i * 8 : 576 + 3 * 16 + i * 8 - 16],
                    UINT64_MAX, 8);
    }
    set_reg(machine, HV_REG_RSI, DEVICE + 3);
    return machine;
}

/* 32-bit: every word is three accesses, and ENTER copies 30 of them. */
static struct soft_machine *make_frames(void)
{
    struct soft_machine *machine = counting(MACHINE_32(device_frames));

    set_reg(machine, HV_REG_RSP, DEVICE + 0x801);
    set_reg(machine, HV_REG_RBP, DEVICE + 0xc01);
    return machine;
}

static void test_many(void)
{
    same_thrice(make_xsave, (416 + 512 + 2 * 576) / 8);
    same_thrice(make_gather, 4 * 4);
    same_thrice(make_frames, 3 * (8 + 8 + (1 + 2 * 30 + 1) + 1));
}

/* The operand is read, then the stack refuses. */
static struct soft_machine *make_push_fault(void)
{
    struct soft_machine *machine = counting(MACHINE_64(device_push));

    set_reg(machine, HV_REG_RSI, DEVICE + 1);
    set_reg(machine, HV_REG_RSP, DATA + 4);
    set_page(machine, DATA, 0, PAGE_NONE);
    /* Its handler has a stack of its own: IST 1. */
    soft_machine_poke(machine, 0x5000 + 16 * HV_VECTOR_PF + 4, 1, 1);
    soft_machine_poke(machine, 0x4800 + 0x24, 8, MACHINE_STACK - 0x400);
    return machine;
}

static struct soft_machine *make_divide(void)
{
    struct soft_machine *machine = MACHINE_64(device_divide);

    set_reg(machine, HV_REG_RSI, DEVICE + 1);
    return machine;
}

/* And its frame goes to a device, too. */
static struct soft_machine *make_divide_deep(void)
{
    struct soft_machine *machine = make_divide();

    set_reg(machine, HV_REG_RSP, DEVICE + 0x800);
    return machine;
}

static struct soft_machine *make_bad(void)
{
    struct soft_machine *machine = MACHINE_64(device_bad);

    set_reg(machine, HV_REG_RSP, DEVICE + 0x800);
    return machine;
}

static void test_faults(void)
{
    same_thrice(make_push_fault, 4);
    same_thrice(make_divide, 3);
    same_thrice(make_divide_deep, 3 + 5);
    same_thrice(make_bad, 5);
}

/* An interrupt whose frame goes to a device: it is delivered once, before any other instruction. */
static struct soft_machine *make_interrupt(void)
{
    struct soft_machine *machine = MACHINE_64(device_sti);

    set_reg(machine, HV_REG_RSP, DEVICE + 0x800);
    machine->interrupt = VECTOR;
    return machine;
}

static struct soft_machine *make_step(void)
{
    struct soft_machine *machine = MACHINE_64(device_sti);

    set_reg(machine, HV_REG_RSP, DEVICE + 0x800);
    machine->cpu.rflags |= HV_RFLAGS_TF;
    return machine;
}

static void test_events(void)
{
    same_thrice(make_interrupt, 5);
    same_thrice(make_step, 5);
}

/* An instruction that has talked to a device is done before an interrupt comes. */
static void test_holds_events(void)
{
    struct soft_machine *machine = counting(MACHINE_64(device_read));

    set_reg(machine, HV_REG_RSI, DEVICE);
    machine->cpu.rflags |= HV_RFLAGS_IF;
    machine->vcpu->force_io_exit = true;
    TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_IO);
    machine->interrupt = VECTOR;
    hv_doorbell_ring(&machine->bell, HV_REQUEST_EVENT);
    TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_HLT);
    TAP_EQ(soft_machine_exception(machine), VECTOR);
    TAP_EQ(frame_rip(machine, false), MACHINE_CODE + 2);
    TAP_EQ(machine->io_accesses, 1);
    TAP_EQ(reg(machine, HV_REG_RAX), 0x05060708);
    soft_machine_destroy(machine);
}

/* What stands there when it starts anew is another instruction: it asks for itself. */
static void test_changed(void)
{
    static const uint8_t other[] = {0x8b, 0x46, 0x10, 0xf4}; /* mov eax, [rsi + 16]; hlt */
    struct soft_machine *machine = counting(MACHINE_64(device_read));

    set_reg(machine, HV_REG_RSI, DEVICE);
    machine->vcpu->force_io_exit = true;
    TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_IO);
    hv_engine_soft.revoke_code(machine->domain, (hv_gfn){MACHINE_CODE / HV_PAGE_SIZE});
    soft_machine_write(machine, MACHINE_CODE, other, sizeof(other));
    TAP_EQ(run_with_exits(machine), 1);
    TAP_EQ(machine->io_accesses, 2);
    TAP_EQ(machine->io[1].address, DEVICE + 16);
    TAP_EQ(reg(machine, HV_REG_RAX), 0x16171819);
    soft_machine_destroy(machine);
}

/* Registers set from outside make the instruction another one, though it is the same. */
static void test_state_changed(void)
{
    struct soft_machine *machine = counting(MACHINE_64(device_read));

    set_reg(machine, HV_REG_RSI, DEVICE);
    machine->vcpu->force_io_exit = true;
    TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_IO);
    hv_engine_soft.state_changed(machine->vcpu);
    TAP_EQ(run_with_exits(machine), 2);
    TAP_EQ(machine->io_accesses, 3);
    soft_machine_destroy(machine);
}

/* An instruction that is over leaves nothing to the next one, which makes the same access. */
static struct soft_machine *make_branch(void)
{
    struct soft_machine *machine = MACHINE_32(device_jump);

    LOAD_SNIPPET(machine, device_again, PLAIN);
    set_reg(machine, HV_REG_RSI, DEVICE);
    machine->io_value = PLAIN;
    machine->io_step = 1;
    return machine;
}

static void test_branch(void)
{
    same_thrice(make_branch, 3);
}

/* The step's trap is not lost when its frame needs memory that is not there yet. */
static void test_trap_waits_for_memory(void)
{
    struct soft_machine *machine = MACHINE_64(count_to_1000);

    set_reg(machine, HV_REG_RSP, FRESH);
    machine->cpu.rflags |= HV_RFLAGS_TF;
    TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_HLT);
    TAP_EQ(soft_machine_exception(machine), HV_VECTOR_DB);
    TAP_EQ(frame_rip(machine, false), MACHINE_CODE + 2);
    TAP_OK(machine->cpu.dr[6] & HV_DR6_BS);
    soft_machine_destroy(machine);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"engine.replay.strings", test_strings},
        {"engine.replay.modify", test_modify},
        {"engine.replay.crossing", test_crossing},
        {"engine.replay.many", test_many},
        {"engine.replay.faults", test_faults},
        {"engine.replay.events", test_events},
        {"engine.replay.holds-events", test_holds_events},
        {"engine.replay.changed", test_changed},
        {"engine.replay.state-changed", test_state_changed},
        {"engine.replay.branch", test_branch},
        {"engine.replay.trap-waits-for-memory", test_trap_waits_for_memory},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

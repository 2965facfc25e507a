/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A guest that fills its tables and stacks with anything: after each transfer, event, load or
 * register write the CPU is consistent, a fault has changed nothing (but in a task switch), and
 * its save record is accepted: what can be reached is possible.
 */
#include "cpu/control.h"
#include "cpu/event.h"
#include "cpu/save.h"
#include "cpu/transfer.h"
#include "unit/cpu/flat-check.h"

static struct hv_cpu_record record;
static struct hv_cpu other;
static unsigned entered, refused;

static uint16_t any_selector(void)
{
    uint16_t selector = (uint16_t)(tap_rng() % 34 << 3);

    return (uint16_t)(selector | (tap_rng() % 3 ? 0 : tap_rng() & 3) | (tap_rng() % 16 ? 0 : 4));
}

/* A descriptor of any type, with plausible fields more often than not. */
static uint64_t any_descriptor(void)
{
    uint32_t attr = (uint32_t)(tap_rng() & 0xf0ff);
    uint64_t base = tap_rng() % 4 ? (tap_rng() % 16) << 12 : tap_rng();

    if (tap_rng() % 4) {
        attr |= HV_SEG_ATTR_P;
    }
    if (!(attr & HV_SEG_ATTR_S) && tap_rng() % 2) {
        return gate_of(attr & 0xf, attr >> 5 & 3, any_selector(), (uint32_t)(tap_rng() & 0x1ffff),
                       (unsigned)(tap_rng() & 7));
    }
    return descriptor_of(base, (uint32_t)tap_rng(), attr);
}

static void scramble(void)
{
    for (unsigned i = 0; i < 12; i++) {
        put_gdt((uint16_t)(8 + (tap_rng() % 31) * 8), any_descriptor());
    }
    for (unsigned vector = 0; vector < 0x40; vector++) {
        bool wide = hv_cpu_long_mode(&cpu);
        unsigned type = tap_rng() % 3 ? HV_SYSTEM_INTERRUPT_GATE : (unsigned)tap_rng() & 0xf;

        put_idt(vector, type, (unsigned)tap_rng() & 3, any_selector(), tap_rng() & 0xffff,
                wide ? (unsigned)tap_rng() & 7 : 0);
    }
    for (unsigned i = 0; i < 24; i++) {
        uint64_t value = tap_rng() % 3 ? any_selector() : tap_rng();

        flat_poke(&flat, (cpu.slot[HV_REG_RSP] + i * 4) & 0xffff8, 4, value);
    }
    for (unsigned i = 0; i < 26; i++) {
        flat_poke(&flat, AT_TSS2 + 4 * i, 4, tap_rng() % 2 ? any_selector() : tap_rng() & 0x7ffff);
    }
    if (tap_rng() % 4 == 0) {
        flat_poke(&flat, AT_TSS + 4 * (tap_rng() % 26), 4, tap_rng());
    }
}

static int act(void)
{
    unsigned bytes = hv_cpu_code64(&cpu) && tap_rng() % 2 ? 8 : tap_rng() % 2 ? 4 : 2;
    uint64_t offset = tap_rng() % 4 ? tap_rng() & 0xffff : tap_rng();
    uint64_t value;
    bool valid;

    switch (tap_rng() % 14) {
    case 0:
        return hv_transfer_far_jump(&cpu, &flat.access, any_selector(), offset, bytes, 5, &fault);
    case 1:
    case 2:
        return hv_transfer_far_call(&cpu, &flat.access, any_selector(), offset, bytes, 5, &fault);
    case 3:
        return hv_transfer_far_return(&cpu, &flat.access, bytes, (uint16_t)(tap_rng() & 0xff),
                                      &fault);
    case 4:
    case 5:
        return hv_transfer_iret(&cpu, &flat.access, bytes, 5, &fault);
    case 6:
        return hv_event_deliver(&cpu, &flat.access, HV_EVENT_SOFTWARE, (uint8_t)(tap_rng() & 0x3f),
                                false, 0, 5, &fault);
    case 7:
        return hv_event_deliver(&cpu, &flat.access, HV_EVENT_EXTERNAL, (uint8_t)(tap_rng() & 0x3f),
                                false, 0, cpu.rip, &fault);
    case 8:
        return hv_segment_load(
            &cpu, &flat.access,
            (enum hv_seg[]){HV_SEG_ES, HV_SEG_SS, HV_SEG_DS, HV_SEG_FS, HV_SEG_GS}[tap_rng() % 5],
            any_selector(), &fault);
    case 9:
        return hv_transfer_syscall(&cpu, 5, &fault);
    case 10:
        return hv_transfer_sysret(&cpu, bytes, &fault);
    case 11:
        return tap_rng() % 2 ? hv_transfer_sysenter(&cpu, &fault)
                             : hv_transfer_sysexit(&cpu, bytes, &fault);
    case 12:
        return hv_segment_query(&cpu, &flat.access, (enum hv_segment_query)(tap_rng() % 4),
                                any_selector(), &valid, &value, &fault);
    default:
        if (cpu.cpl == 0 && hv_cpu_protected(&cpu)) {
            return hv_segment_load_ldtr(&cpu, &flat.access, any_selector(), &fault);
        }
        return hv_control_io_allowed(&cpu, &flat.access, (uint16_t)tap_rng(), 4, &fault);
    }
}

static void one_step(void)
{
    bool switched;
    const char *field = NULL;
    int result;

    cpu.cr0 &= ~(uint64_t)HV_CR0_TS;
    snapshot();
    result = act();
    switched = cpu.cr0 & HV_CR0_TS;
    TAP_OK(result == 0 || result == HV_FAULTED);
    if (result == HV_FAULTED) {
        refused++;
        TAP_OK(fault.vector < 32);
        TAP_OK(switched || unchanged());
        /* A task that could not be entered whole is never between two instructions. */
        if (switched || tap_rng() % 8 == 0) {
            TAP_EQ(hv_event_exception(&cpu, &flat.access, &fault), 0);
        }
    } else {
        entered++;
    }
    if (!machine_consistent()) {
        tap_fail(__FILE__, __LINE__, "cs %#x cpl %u", cpu.seg[HV_SEG_CS].selector, cpu.cpl);
        return;
    }
    hv_cpu_save(&cpu, &record);
    other.policy = cpu.policy;
    if (hv_cpu_load(&other, &record, &field) != 0) {
        tap_fail(__FILE__, __LINE__, "a reachable state is refused: %s", field);
    }
}

static void run_mode(enum machine_mode mode)
{
    entered = refused = 0;
    for (unsigned i = 0; i < 1000 && !tap_failed(); i++) {
        machine_start(mode);
        if (mode == MACHINE_PROTECTED || mode == MACHINE_LONG) {
            static const uint8_t rings[] = {0, 1, 3};
            unsigned ring = rings[tap_rng() % 3];

            machine_ring(ring, mode == MACHINE_LONG && ring != 1 && tap_rng() % 3);
        }
        cpu.rflags |= (uint32_t)(tap_rng() & (HV_RFLAGS_IOPL | HV_RFLAGS_AC));
        cpu.msr.star = tap_rng();
        cpu.msr.sysenter_cs = tap_rng() & 0xff;
        if (mode == MACHINE_LONG && tap_rng() % 2) {
            cpu.cr4 |= HV_CR4_SMEP;
        }
        for (unsigned step = 0; step < 60 && !tap_failed(); step++) {
            if (mode != MACHINE_REAL && step % 4 == 0) {
                scramble();
            }
            one_step();
            if (cpu.activity == HV_ACTIVITY_SHUTDOWN) {
                break;
            }
        }
    }
    TAP_OK(entered > 500 && refused > 500);
}

static void test_real(void)
{
    run_mode(MACHINE_REAL);
}

static void test_v86(void)
{
    run_mode(MACHINE_V86);
}

static void test_protected(void)
{
    run_mode(MACHINE_PROTECTED);
}

static void test_long(void)
{
    run_mode(MACHINE_LONG);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"cpu.hostile.real", test_real},
        {"cpu.hostile.v86", test_v86},
        {"cpu.hostile.protected", test_protected},
        {"cpu.hostile.long", test_long},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

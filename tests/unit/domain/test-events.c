/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * When a vCPU takes what it sends to itself: an interrupt that was pending behind STI after the one
 * instruction of its shadow, two NMIs after the block that wrote the commands. A vCPU is kicked
 * once for each, so that one looked at too early, or by the wrong floor, is never taken. Four
 * rounds, because code that is translated on the way makes a vCPU look once more.
 */
#include "machine.h"

#include "lib/tap.h"

#define VECTOR 0x40u
#define IRQ_AT 0x7cu /* the handlers' offsets in the code */
#define NMI_AT 0x8du

/* The loops make blocks end, so that a kick is served before STI. Fails by exit 20h | count. */
static const uint8_t code_events[] = {
    0x0f, 0x01, 0x15, 0x00, 0x10, 0x10, 0x00,                   /* lgdtl 0x101000 */
    0x0f, 0x01, 0x1d, 0x08, 0x10, 0x10, 0x00,                   /* lidtl 0x101008 */
    0xc7, 0x05, 0xf0, 0x00, 0xe0, 0xfe, 0xff, 0x01, 0x00, 0x00, /* movl $0x1ff,0xfee000f0 */
    0xbb, 0x04, 0x00, 0x00, 0x00,                               /* mov $0x4,%ebx */
    0xfa,                                                       /* cli */
    0xc7, 0x05, 0x00, 0x20, 0x10, 0x00, 0x00, 0x00, 0x00, 0x00, /* movl $0x0,0x102000 */
    0xc7, 0x05, 0x00, 0x03, 0xe0, 0xfe, 0x40, 0x40, 0x00, 0x00, /* movl $0x4040,0xfee00300 */
    0xb9, 0x03, 0x00, 0x00, 0x00,                               /* mov $0x3,%ecx */
    0xe2, 0xfe,                                                 /* loop 37 */
    0xfb,                                                       /* sti */
    0x90,                                                       /* nop */
    0x83, 0x3d, 0x00, 0x20, 0x10, 0x00, 0x01,                   /* cmpl $0x1,0x102000 */
    0x75, 0x2e,                                                 /* jne 72 */
    0xc7, 0x05, 0x00, 0x03, 0xe0, 0xfe, 0x00, 0x44, 0x00, 0x00, /* movl $0x4400,0xfee00300 */
    0xc7, 0x05, 0x00, 0x03, 0xe0, 0xfe, 0x00, 0x44, 0x00, 0x00, /* movl $0x4400,0xfee00300 */
    0xb9, 0x03, 0x00, 0x00, 0x00,                               /* mov $0x3,%ecx */
    0xe2, 0xfe,                                                 /* loop 5d */
    0x81, 0x3d, 0x00, 0x20, 0x10, 0x00, 0x01, 0x02, 0x00, 0x00, /* cmpl $0x201,0x102000 */
    0x75, 0x07,                                                 /* jne 72 */
    0x4b,                                                       /* dec %ebx */
    0x75, 0xaf,                                                 /* jne 1d */
    0xb0, 0x07,                                                 /* mov $0x7,%al */
    0xe6, 0xf4,                                                 /* out %al,$0xf4 */
    0xa1, 0x00, 0x20, 0x10, 0x00,                               /* mov 0x102000,%eax */
    0x0c, 0x20,                                                 /* or $0x20,%al */
    0xe6, 0xf4,                                                 /* out %al,$0xf4 */
    0xf4,                                                       /* hlt */
    0xff, 0x05, 0x00, 0x20, 0x10, 0x00,                         /* incl 0x102000 */
    0xc7, 0x05, 0xb0, 0x00, 0xe0, 0xfe, 0x00, 0x00, 0x00, 0x00, /* movl $0x0,0xfee000b0 */
    0xcf,                                                       /* iret */
    0x81, 0x05, 0x00, 0x20, 0x10, 0x00, 0x00, 0x01, 0x00, 0x00, /* addl $0x100,0x102000 */
    0xcf,                                                       /* iret */
};

static void take_events(unsigned flags)
{
    const struct machine_gate gates[] = {{2, NMI_AT}, {VECTOR, IRQ_AT}};
    struct hv_domain_status status;
    struct machine machine;

    TAP_OK(machine_make_with(&machine, 1, flags));
    TAP_OK(machine_put_tables(&machine, gates, HV_ARRAY_LEN(gates)));
    TAP_OK(machine_run(&machine, code_events, sizeof(code_events), &status));
    TAP_EQ(status.end, HV_DOMAIN_END_DEBUG_EXIT);
    TAP_EQ(status.code, 7);
    machine_unmake(&machine);
}

static void test_events(void)
{
    take_events(0);
}

/* The store that sends the NMI leaves the engine; when it is done again, the NMI is there already. */
static void test_events_io_exit(void)
{
    take_events(HV_DOMAIN_FORCE_IO_EXIT);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"domain.events.taken-at-once", test_events},
        {"domain.events.taken-at-once-io-exit", test_events_io_exit},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

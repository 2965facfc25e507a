/* SPDX-License-Identifier: GPL-3.0-or-later */
/* When a domain whose vCPU halts with interrupts off has ended, and when not: something may come that
 * they do not hold back. */
#include "domain/domain.h"
#include "lib/tap.h"
#include "machine.h"

#include <string.h>

#define ENTRY          0x102000u /* low word of the I/O APIC's entry for the PIT */
#define IN_NMI         0x102004u /* nonzero: the NMI's handler halts as well */
#define REAL_CODE      0x9000u
#define TARGET_AT      0x2bu /* in the code: the APIC that the PIT interrupts */
#define NMI_AT         0x60u
#define DELIVERS(mode) ((uint32_t)(mode) << 8)
#define MASKED         0x10000u

/* The PIT every 3 ms, through the I/O APIC by ENTRY; then CLI, HLT. Its handler writes 9. */
static const uint8_t code_halt[] = {
    0x0f, 0x01, 0x15, 0x00, 0x10, 0x10, 0x00,                   /* lgdtl 0x101000 */
    0x0f, 0x01, 0x1d, 0x08, 0x10, 0x10, 0x00,                   /* lidtl 0x101008 */
    0xc7, 0x05, 0xf0, 0x00, 0xe0, 0xfe, 0xff, 0x01, 0x00, 0x00, /* movl $0x1ff,0xfee000f0 */
    0xc7, 0x05, 0x00, 0x00, 0xc0, 0xfe, 0x15, 0x00, 0x00, 0x00, /* movl $0x15,0xfec00000 */
    0xc7, 0x05, 0x10, 0x00, 0xc0, 0xfe, 0x00, 0x00, 0x00, 0x00, /* movl $0x0,0xfec00010 */
    0xc7, 0x05, 0x00, 0x00, 0xc0, 0xfe, 0x14, 0x00, 0x00, 0x00, /* movl $0x14,0xfec00000 */
    0xa1, 0x00, 0x20, 0x10, 0x00,                               /* mov 0x102000,%eax */
    0xa3, 0x10, 0x00, 0xc0, 0xfe,                               /* mov %eax,0xfec00010 */
    0xe8, 0x06, 0x00, 0x00, 0x00,                               /* call timer */
    0xfa,                                                       /* cli */
    0xf4,                                                       /* hlt */
    0xb0, 0x07, 0xe6, 0xf4,                                     /* mov $7,%al; out %al,$0xf4 */
    0xb0, 0x34, 0xe6, 0x43,                                     /* timer: mode 2 */
    0xb0, 0x00, 0xe6, 0x40,                                     /* 0x1000 ticks */
    0xb0, 0x10, 0xe6, 0x40,                                     /**/
    0xc3,                                                       /* ret */
    0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90,             /**/
    0xa0, 0x04, 0x20, 0x10, 0x00,                               /* NMI: mov 0x102004,%al */
    0x84, 0xc0, 0x75, 0x04,                                     /* test %al,%al; jne over it */
    0xb0, 0x09, 0xe6, 0xf4,                                     /* mov $9,%al; out %al,$0xf4 */
    0xe8, 0xd9, 0xff, 0xff, 0xff,                               /* call timer */
    0xf4,                                                       /* hlt */
};

/* The handler of real mode's #UD. */
static const uint8_t code_real[] = {0xb0, 0x0b, 0xe6, 0xf4, 0xeb, 0xfe};

static void halt_with(uint32_t entry, uint8_t target, uint32_t in_nmi, enum hv_domain_end end,
                      uint32_t code)
{
    const struct machine_gate gate = {2, NMI_AT};
    uint32_t words[] = {entry, in_nmi}, vector = REAL_CODE << 12;
    uint8_t bytes[sizeof(code_halt)];
    struct hv_domain_status status;
    struct machine machine;

    memcpy(bytes, code_halt, sizeof(bytes));
    bytes[TARGET_AT] = target;
    TAP_OK(machine_make(&machine, 2));
    TAP_OK(machine_put_tables(&machine, &gate, 1));
    TAP_EQ(hv_guest_copy(machine.domain, (hv_gpa){ENTRY}, words, sizeof(words), HV_COPY_TO_GUEST),
           0);
    TAP_EQ(hv_guest_copy(machine.domain, (hv_gpa){4 * 6}, &vector, 4, HV_COPY_TO_GUEST), 0);
    TAP_EQ(hv_guest_copy(machine.domain, (hv_gpa){REAL_CODE}, (void *)(uintptr_t)code_real,
                         sizeof(code_real), HV_COPY_TO_GUEST),
           0);
    TAP_OK(machine_run(&machine, bytes, sizeof(bytes), &status));
    TAP_EQ(status.end, end);
    TAP_EQ(status.code, code);
    machine_unmake(&machine);
}

static void test_nmi_wakes(void)
{
    halt_with(DELIVERS(HV_DELIVERY_NMI), 0, 0, HV_DOMAIN_END_DEBUG_EXIT, 9);
}

static void test_nothing_comes(void)
{
    halt_with(DELIVERS(HV_DELIVERY_NMI) | MASKED, 0, 0, HV_DOMAIN_END_HALTED, 0);
    halt_with(DELIVERS(HV_DELIVERY_FIXED) | 0x40, 0, 0, HV_DOMAIN_END_HALTED, 0);
    halt_with(DELIVERS(HV_DELIVERY_SMI), 0, 0, HV_DOMAIN_END_HALTED, 0);
    /* The other vCPU waits for a SIPI, which neither ends. */
    halt_with(DELIVERS(HV_DELIVERY_NMI), 1, 0, HV_DOMAIN_END_HALTED, 0);
    halt_with(DELIVERS(HV_DELIVERY_INIT), 1, 0, HV_DOMAIN_END_HALTED, 0);
}

/* In its handler a second NMI waits for the IRET that never comes. */
static void test_nmi_blocked(void)
{
    halt_with(DELIVERS(HV_DELIVERY_NMI), 0, 1, HV_DOMAIN_END_HALTED, 0);
}

/* INIT starts the bootstrap processor anew: behind RAM, where all bytes are ones, which is #UD. */
static void test_init_wakes(void)
{
    halt_with(DELIVERS(HV_DELIVERY_INIT), 0, 0, HV_DOMAIN_END_DEBUG_EXIT, 11);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"domain.halted.nmi-wakes", test_nmi_wakes},
        {"domain.halted.nothing-comes", test_nothing_comes},
        {"domain.halted.nmi-blocked", test_nmi_blocked},
        {"domain.halted.init-wakes", test_init_wakes},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

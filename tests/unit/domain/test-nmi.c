/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The NMI button: whom it rouses, and when it cannot be pressed. */
#include "domain/domain.h"
#include "lib/tap.h"
#include "lib/threads.h"
#include "machine.h"

#include <errno.h>
#include <string.h>

#define NMI_AT  0x30u /* the handler's offset in the code */
#define HALT_AT 0x29u /* HLT, or a NOP for one that spins */
#define PRESSES 5u

/* Opens LINT1 for NMIs, says "r", and waits with interrupts off; the handler says "n". */
static const uint8_t code_wait[] = {
    0x0f, 0x01, 0x15, 0x00, 0x10, 0x10, 0x00,                   /* lgdtl 0x101000 */
    0x0f, 0x01, 0x1d, 0x08, 0x10, 0x10, 0x00,                   /* lidtl 0x101008 */
    0xc7, 0x05, 0xf0, 0x00, 0xe0, 0xfe, 0xff, 0x01, 0x00, 0x00, /* movl $0x1ff,0xfee000f0 */
    0xc7, 0x05, 0x60, 0x03, 0xe0, 0xfe, 0x00, 0x04, 0x00, 0x00, /* movl $0x400,0xfee00360 */
    0x66, 0xba, 0xf8, 0x03,                                     /* mov $0x3f8,%dx */
    0xb0, 'r',  0xee,                                           /* mov $'r',%al; out %al,%dx */
    0xf4,                                                       /* hlt */
    0xeb, 0xfd,                                                 /* jmp to it */
    0x90, 0x90, 0x90, 0x90,                                     /**/
    0xb0, 'n',  0xee,                                           /* NMI: mov $'n',%al; out %al,%dx */
    0xcf,                                                       /* iret */
};

static _Atomic uint64_t words;

static void hear(void)
{
    hv_add_seq(&words, 1);
}

static bool start(struct machine *machine, bool halts)
{
    const struct machine_gate gate = {2, NMI_AT};
    uint8_t code[sizeof(code_wait)];

    memcpy(code, code_wait, sizeof(code));
    code[HALT_AT] = halts ? 0xf4 : 0x90;
    hv_store_seq(&words, 0);
    if (!machine_make(machine, 1)) {
        return false;
    }
    machine->heard = hear;
    return machine_put_tables(machine, &gate, 1) && machine_load(machine, code, sizeof(code)) &&
           hv_domain_unpause(machine->domain) == 0;
}

static void press(bool halts)
{
    struct machine machine;

    TAP_OK(start(&machine, halts));
    TAP_AWAIT(hv_load_seq(&words) == 1);
    for (unsigned i = 0; i < PRESSES; i++) {
        /* That it says so does not end the machine: the button may yet be pressed. */
        if (halts) {
            TAP_AWAIT(hv_load_seq(&machine.domain->halted) == 1);
        }
        TAP_EQ(hv_domain_press_nmi(machine.domain), 0);
        TAP_AWAIT(hv_load_seq(&words) == i + 2);
    }
    TAP_EQ(hv_domain_pause(machine.domain), 0);
    TAP_EQ(machine.console_bytes, PRESSES + 1);
    TAP_OK(memcmp(machine.console, "rnnnnn", PRESSES + 1) == 0);
    machine_unmake(&machine);
}

static void test_wakes_halted(void)
{
    press(true);
}

static void test_interrupts_running(void)
{
    press(false);
}

static void test_not_running(void)
{
    struct hv_domain_status status;
    struct machine machine;

    TAP_OK(start(&machine, true));
    TAP_EQ(hv_domain_pause(machine.domain), 0);
    TAP_EQ(hv_domain_press_nmi(machine.domain), -EBUSY);
    TAP_EQ(hv_domain_unpause(machine.domain), 0);
    hv_domain_crash(machine.domain, hv_domain_life(machine.domain), "enough");
    hv_domain_get_status(machine.domain, &status);
    TAP_EQ(status.state, HV_DOMAIN_STATE_SHUTDOWN);
    TAP_EQ(hv_domain_press_nmi(machine.domain), -EBUSY);
    TAP_EQ(hv_domain_kill(machine.domain), 0);
    TAP_EQ(hv_domain_press_nmi(machine.domain), -ECANCELED);
    machine_unmake(&machine);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"domain.nmi.wakes-halted", test_wakes_halted},
        {"domain.nmi.interrupts-running", test_interrupts_running},
        {"domain.nmi.not-running", test_not_running},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Two machines on one image: the second is not loaded, but shares all pages of the first, code and
 * data. Both store to both kinds, and neither sees what the other did.
 */
#include "domain/domain.h"
#include "lib/tap.h"
#include "machine.h"
#include "mem/share.h"

#include <errno.h>
#include <string.h>

/* Smaller: sharing takes claims, of which the first leaves as many again. */
#define SECOND_BYTES (MACHINE_BYTES / 2)
#define DATA         (2 * HV_MIB)
#define PATCHED      0x17u /* where in the code the operand of "mov al" is */
#define ANSWER       0x67u /* (5 + 1) << 4 | 7 */
#define WAIT_NS      (10 * HV_NS_PER_S)

/* Adds one to what stands at DATA, and changes an instruction of its own before it comes to it. */
static const uint8_t code[] = {
    0xbf, 0x00, 0x00,    0x20, 0x00,             /* mov edi, DATA */
    0x8b, 0x07,                                  /* mov eax, [edi] */
    0x40,                                        /* inc eax */
    0x89, 0x07,                                  /* mov [edi], eax */
    0x8b, 0x1f,                                  /* mov ebx, [edi] */
    0xc1, 0xe3, 0x04,                            /* shl ebx, 4 */
    0xc6, 0x05, PATCHED, 0x00, 0x10, 0x00, 0x07, /* mov byte [MACHINE_CODE + PATCHED], 7 */
    0xb0, 0x00,                                  /* mov al, 0 */
    0x0f, 0xb6, 0xc0,                            /* movzx eax, al */
    0x09, 0xd8,                                  /* or eax, ebx */
    0xe7, 0xf4,                                  /* out f4h, eax: the debug exit */
    0xf4,                                        /* hlt */
};
HV_STATIC_ASSERT(MACHINE_CODE == 0x100000, "the address in the code");

static struct hv_domain *make_second(struct machine *machine)
{
    const struct hv_domain_config config = {
        .name = "second",
        .engine = "soft",
        .memory_bytes = SECOND_BYTES,
        .vcpus = 1,
        .flags = HV_DOMAIN_TESTDEV,
    };
    struct hv_domain *domain;
    char why[128];

    return hv_domain_create(machine->core, &config, &domain, why, sizeof(why)) ? NULL : domain;
}

/* How many pages came to be shared; 0 when one could not be. */
static unsigned share_all(struct hv_domain *from, struct hv_domain *to)
{
    unsigned shared = 0;

    for (uint64_t i = 0; i < SECOND_BYTES / HV_PAGE_SIZE; i++) {
        int err = hv_memory_share(&from->memory, (hv_gfn){i}, &to->memory, (hv_gfn){i});

        if (err && err != -ENOENT && err != -EBUSY) {
            return 0;
        }
        shared += hv_p2m_lookup(&to->memory.p2m, (hv_gfn){i}).kind == HV_LEAF_SHARED;
    }
    return shared;
}

static uint32_t run(struct hv_domain *domain)
{
    const struct hv_boot_state boot = {.rip = MACHINE_CODE, .rsp = MACHINE_CODE};
    struct hv_domain_status status;

    if (hv_domain_set_boot(domain, &boot) || hv_domain_unpause(domain) ||
        hv_domain_wait_change(domain, HV_DOMAIN_STATE_RUNNING, WAIT_NS)) {
        return 0;
    }
    hv_domain_get_status(domain, &status);
    return status.end == HV_DOMAIN_END_DEBUG_EXIT ? status.code : 0;
}

static void test_one_image(void)
{
    struct hv_domain *second;
    struct machine machine;
    uint32_t five = 5;

    TAP_OK(machine_make(&machine, 1));
    second = make_second(&machine);
    TAP_OK(second);
    TAP_OK(machine_load(&machine, code, sizeof(code)));
    TAP_EQ(hv_guest_copy(machine.domain, (hv_gpa){DATA}, &five, sizeof(five), HV_COPY_TO_GUEST), 0);
    TAP_OK(share_all(machine.domain, second) >= 2);
    TAP_EQ(run(machine.domain), ANSWER);
    TAP_EQ(run(second), ANSWER);
    TAP_EQ(hv_guest_copy(second, (hv_gpa){DATA}, &five, sizeof(five), HV_COPY_FROM_GUEST), 0);
    TAP_EQ(five, 6);
    hv_domain_destroy(second);
    machine_unmake(&machine);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"domain.share.one-image", test_one_image},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

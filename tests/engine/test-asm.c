/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Payloads of tests/engine/asm, one hazard a file: each must end as its own head promises (asm-head.h
 * has the grammar), in every way a machine can be run. The self cases show that a promise that does
 * not hold is noticed.
 */
#include "engine/asm-run.h"

#include "engine/asm/asm-list.h"

#include "lib/tap.h"

#include <stdlib.h>
#include <string.h>

#define PREFIX "engine.asm."

struct payload {
    const char *name, *image, *source;
};

static const struct payload payloads[] = {ASM_LIST};

/* Those that are wrong on purpose. */
static const struct payload wrong_payloads[] = {ASM_WRONG_LIST};

static bool open_payload(const struct payload *payload, struct asm_image **image_out,
                         struct asm_head *head_out)
{
    *image_out = asm_image_open(payload->image);
    return *image_out && asm_head_read(payload->source, *image_out, head_out);
}

static void run_payload(const struct payload *payload)
{
    struct asm_image *image;
    struct asm_head head;
    bool good = open_payload(payload, &image, &head);

    for (unsigned way = 0; good && way < ASM_WAYS; way++) {
        struct asm_verdict verdict = asm_run(image, &head, (enum asm_way)way);

        if (verdict.text[0]) {
            tap_note("%s, %s: %s", payload->source, asm_way_names[way], verdict.text);
            good = false;
        }
    }
    asm_image_close(image);
    TAP_OK(good);
}

static void test_payload(void)
{
    for (size_t i = 0; i < HV_ARRAY_LEN(payloads); i++) {
        if (strcmp(payloads[i].name, tap_name()) == 0) {
            run_payload(&payloads[i]);
        }
    }
}

/* ---- Can they fail? --------------------------------------------------------------------------- */

/* Each promise of each payload, turned into another one: whoever compares must notice. */
static unsigned turn_promises(const struct payload *payload)
{
    struct soft_machine *machine = asm_machine_create();
    struct asm_verdict verdict;
    struct asm_image *image;
    struct asm_head head;
    unsigned missed = 0;

    if (!open_payload(payload, &image, &head) ||
        !asm_run_to_end(image, &head, machine, false, &verdict)) {
        missed = 1;
        goto out;
    }
    for (unsigned i = 0; i < head.checks; i++) {
        struct asm_check *check = &head.check[i];
        uint64_t lowest = check->mask & -check->mask;

        check->want ^= lowest;
        verdict = asm_compare(image, &head, machine);
        check->want ^= lowest;
        if (!strstr(verdict.text, check->text)) {
            tap_note("%s: not noticed: %s", payload->source, check->text);
            missed++;
        }
    }
out:
    asm_image_close(image);
    soft_machine_destroy(machine);
    return missed;
}

static void test_turned(void)
{
    for (size_t i = 0; i < HV_ARRAY_LEN(payloads); i++) {
        TAP_EQ(turn_promises(&payloads[i]), 0);
    }
}

/* Heads that cannot be meant are refused; those that do not hold do not pass. */
static void test_wrong(void)
{
    for (size_t i = 0; i < HV_ARRAY_LEN(wrong_payloads); i++) {
        struct asm_image *image;
        struct asm_head head;
        bool read = open_payload(&wrong_payloads[i], &image, &head);
        bool refused = strstr(wrong_payloads[i].name, "refused") != NULL;

        TAP_EQ(read, !refused);
        for (unsigned way = 0; read && way < ASM_WAYS; way++) {
            struct asm_verdict verdict = asm_run(image, &head, (enum asm_way)way);

            tap_note("as it should: %s", verdict.text);
            TAP_OK(verdict.text[0]);
        }
        asm_image_close(image);
    }
}

int main(int argc, char **argv)
{
    struct tap_case cases[HV_ARRAY_LEN(payloads) + 2] = {
        {PREFIX "self.wrong", test_wrong},
        {PREFIX "self.turned", test_turned},
    };

    for (size_t i = 0; i < HV_ARRAY_LEN(payloads); i++) {
        cases[i + 2] = (struct tap_case){payloads[i].name, test_payload};
    }
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* See asm-run.h. */
#include "engine/asm-run.h"

#include "engine/soft/soft.h"

#include "lib/tap.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define RAM_BYTES (8 * HV_MIB)
/* Of a payload's request: common.inc. */
#define ASK_NMI   0x100u
/* Blocks are at most so many instructions: what a bound may be overrun by. */
#define OVERRUN   64u

const char *const asm_way_names[ASM_WAYS] = {"whole", "again", "in pieces"};

static void say(struct asm_verdict *verdict, const char *format, ...) HV_PRINTF(2, 3);

static void say(struct asm_verdict *verdict, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(verdict->text, sizeof(verdict->text), format, args);
    va_end(args);
}

struct soft_machine *asm_machine_create(void)
{
    return soft_machine_create(RAM_BYTES);
}

static void load(const struct asm_image *image, enum asm_start start, struct soft_machine *machine)
{
    static const uint8_t zeros[64 * HV_PAGE_SIZE];
    static void (*const set[ASM_STARTS])(struct soft_machine * machine) = {
        [ASM_START_LONG] = soft_machine_set_64,
        [ASM_START_PROTECTED] = soft_machine_set_32,
        [ASM_START_REAL] = soft_machine_set_16,
    };

    for (uint64_t gpa = 0; gpa < RAM_BYTES; gpa += sizeof(zeros)) {
        soft_machine_write(machine, gpa, zeros, sizeof(zeros));
    }
    set[start](machine);
    asm_image_load(image, machine);
    machine->cpu.rip = asm_image_entry(image) - machine->cpu.slot[HV_SLOT_SEG_BASE + HV_SEG_CS];
}

/* VMCALL: an interrupt or an NMI is asked for. */
static void serve_request(struct soft_machine *machine)
{
    uint64_t what = machine->cpu.slot[HV_REG_RAX];

    if (what == ASK_NMI) {
        machine->cpu.nmi_pending = true;
    } else {
        machine->interrupt = (int)(what & 0xff);
    }
}

static uint64_t instructions(const struct soft_machine *machine)
{
    return hv_load_relaxed(&hv_engine_soft.counters(machine->vcpu)->instructions);
}

bool asm_run_to_end(const struct asm_image *image, const struct asm_head *head,
                    struct soft_machine *machine, bool pieces, struct asm_verdict *verdict_out)
{
    uint64_t start = instructions(machine), done = 0;
    struct hv_exit exit = {.kind = HV_EXIT_DEADLINE};

    load(image, head->start, machine);
    while (done <= head->insns) {
        exit = soft_machine_run(machine, pieces ? 1 : head->insns + OVERRUN - done);
        done = instructions(machine) - start;
        if (exit.kind == HV_EXIT_HYPERCALL) {
            serve_request(machine);
        } else if (exit.kind != HV_EXIT_DEADLINE) {
            break;
        }
        if (pieces) {
            hv_engine_soft.state_changed(machine->vcpu);
        }
    }
    if (exit.kind == HV_EXIT_DEADLINE || exit.kind == HV_EXIT_HYPERCALL) {
        say(verdict_out, "goes on after %" PRIu64 " instructions, at %#" PRIx64, done,
            machine->cpu.rip);
        return false;
    }
    if (exit.kind != (head->shutdown ? HV_EXIT_SHUTDOWN : HV_EXIT_HLT)) {
        say(verdict_out, "ends with exit %u at %#" PRIx64, exit.kind, machine->cpu.rip);
        return false;
    }
    return true;
}

static uint64_t symbol(const struct asm_image *image, const char *name)
{
    uint64_t value = 0;

    if (!asm_image_symbol(image, name, strlen(name), &value)) {
        tap_note("the payload has no symbol %s", name);
    }
    return value;
}

/* What the payload has logged, for whoever has to find out. */
static void note_events(const struct asm_image *image, struct soft_machine *machine)
{
    uint64_t log = symbol(image, "events");
    uint64_t count = soft_machine_peek(machine, symbol(image, "events_count"), 4);

    for (uint64_t i = 0; i < count && i < ASM_EVENTS_MOST; i++) {
        uint64_t field[8];

        soft_machine_read(machine, log + i * sizeof(field), field, sizeof(field));
        tap_note("event %" PRIu64 " error=%#" PRIx64 " rip=%#" PRIx64 " cs=%#" PRIx64
                 " rflags=%#" PRIx64 " rsp=%#" PRIx64 " cr2=%#" PRIx64 " dr6=%#" PRIx64,
                 field[0], field[1], field[2], field[3], field[4], field[5], field[6], field[7]);
    }
}

struct asm_verdict asm_compare(const struct asm_image *image, const struct asm_head *head,
                               struct soft_machine *machine)
{
    uint64_t count = soft_machine_peek(machine, symbol(image, "events_count"), 4);
    uint64_t at = machine->cpu.rip + machine->cpu.slot[HV_SLOT_SEG_BASE + HV_SEG_CS];
    struct asm_verdict verdict = {""};

    if (count != head->events) {
        say(&verdict, "%" PRIu64 " events, not %u", count, head->events);
        return verdict;
    }
    if (!head->shutdown && at != symbol(image, "done") + 1) {
        say(&verdict, "halts before %#" PRIx64 ", not at done", at);
        return verdict;
    }
    for (unsigned i = 0; i < head->checks; i++) {
        const struct asm_check *check = &head->check[i];
        uint64_t got = asm_check_look(check, machine);

        if (got != check->want) {
            say(&verdict, "%s: got %#" PRIx64 ", want %#" PRIx64, check->text, got, check->want);
            break;
        }
    }
    return verdict;
}

struct asm_verdict asm_run(const struct asm_image *image, const struct asm_head *head,
                           enum asm_way way)
{
    struct soft_machine *machine = asm_machine_create();
    struct asm_verdict verdict = {""};
    bool ended = true;

    if (way == ASM_WAY_AGAIN) {
        ended = asm_run_to_end(image, head, machine, false, &verdict);
    }
    ended = ended && asm_run_to_end(image, head, machine, way == ASM_WAY_PIECES, &verdict);
    if (ended) {
        verdict = asm_compare(image, head, machine);
    }
    if (verdict.text[0]) {
        note_events(image, machine);
    }
    soft_machine_destroy(machine);
    return verdict;
}

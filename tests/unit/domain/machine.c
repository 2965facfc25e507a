/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A core and one domain for the tests of domain/. */
#include "machine.h"

#include "domain/core.h"
#include "lib/tap.h"
#include "mem/heap.h"

#include <string.h>
#include <unistd.h>

#define WAIT_NS (60 * HV_NS_PER_S)

static size_t keep_console(struct machine *machine, const uint8_t *data, size_t bytes)
{
    size_t room = sizeof(machine->console) - machine->console_bytes;
    size_t taken = bytes < room ? bytes : room;

    memcpy(machine->console + machine->console_bytes, data, taken);
    machine->console_bytes += taken;
    return bytes;
}

static size_t take_console(void *context, const uint8_t *data, size_t bytes)
{
    struct machine *machine = context;

    if (machine->heard) {
        machine->heard();
    }
    return keep_console(machine, data, bytes);
}

static const struct hv_console_ops console_ops = {.write = take_console};

static bool good(int rc, const char *what)
{
    if (rc != 0) {
        tap_fail(__FILE__, __LINE__, "%s: %d", what, rc);
    }
    return rc == 0;
}

static bool make_in(struct machine *machine, struct hv_core_config core, unsigned vcpus,
                    unsigned flags, unsigned pv_hidden)
{
    const struct hv_domain_config domain = {
        .name = "test",
        .engine = "soft",
        .memory_bytes = MACHINE_BYTES,
        .vcpus = vcpus,
        .flags = HV_DOMAIN_TESTDEV | flags,
        .pv_hidden = pv_hidden,
        .console = &console_ops,
        .console_context = machine,
    };
    char why[128] = "";

    core.memory_bytes = 2 * MACHINE_BYTES;
    memset(machine, 0, sizeof(*machine));
    return good(hv_core_create(&core, &machine->core), "hv_core_create") &&
           good(hv_domain_create(machine->core, &domain, &machine->domain, why, sizeof(why)), why);
}

static bool make(struct machine *machine, unsigned vcpus, unsigned workers, unsigned flags,
                 unsigned pv_hidden)
{
    return make_in(machine, (struct hv_core_config){.workers = workers}, vcpus, flags, pv_hidden);
}

bool machine_make(struct machine *machine, unsigned vcpus)
{
    return machine_make_with(machine, vcpus, 0);
}

static unsigned workers(void)
{
    return sysconf(_SC_NPROCESSORS_ONLN) > 1 ? 2 : 1;
}

bool machine_make_with(struct machine *machine, unsigned vcpus, unsigned flags)
{
    return make(machine, vcpus, workers(), flags, 0);
}

bool machine_make_hiding(struct machine *machine, unsigned vcpus, unsigned pv_hidden)
{
    return make(machine, vcpus, workers(), 0, pv_hidden);
}

bool machine_make_on_one(struct machine *machine, unsigned vcpus)
{
    return make(machine, vcpus, 1, 0, 0);
}

bool machine_make_unboosted(struct machine *machine, unsigned vcpus)
{
    return make_in(machine, (struct hv_core_config){.workers = 1, .no_boost = true}, vcpus, 0, 0);
}

void machine_unmake(struct machine *machine)
{
    hv_domain_destroy(machine->domain);
    hv_core_destroy(machine->core);
}

struct HV_PACKED tables {
    uint16_t gdt_limit;
    uint32_t gdt_base;
    uint16_t reserved;
    uint16_t idt_limit;
    uint32_t idt_base;
    uint16_t reserved2;
    uint64_t gdt[3];
    uint64_t idt[0x41];
};

/* A 32-bit interrupt gate to @offset in selector 8 (SDM 3A 6.11). */
static uint64_t gate(uint64_t offset)
{
    return (offset & 0xffff) | UINT64_C(8) << 16 | UINT64_C(0x8e00) << 32 | (offset >> 16) << 48;
}

bool machine_put_tables(struct machine *machine, const struct machine_gate *gates, unsigned count)
{
    struct tables tables = {
        .gdt_limit = sizeof(tables.gdt) - 1,
        .gdt_base = MACHINE_TABLES + offsetof(struct tables, gdt),
        .idt_limit = sizeof(tables.idt) - 1,
        .idt_base = MACHINE_TABLES + offsetof(struct tables, idt),
        /* Flat code and data (SDM 3A 3.4.5). */
        .gdt = {0, UINT64_C(0x00cf9b000000ffff), UINT64_C(0x00cf93000000ffff)},
    };

    for (unsigned i = 0; i < count; i++) {
        tables.idt[gates[i].vector] = gate(MACHINE_CODE + gates[i].offset);
    }
    return good(hv_guest_copy(machine->domain, (hv_gpa){MACHINE_TABLES}, &tables, sizeof(tables),
                              HV_COPY_TO_GUEST),
                "hv_guest_copy");
}

uint64_t machine_frames_in_use(struct hv_core *core)
{
    struct hv_heap_info heap;

    hv_heap_get_info(hv_arena_heap(core->arena), &heap);
    return heap.total_frames - heap.free_frames + heap.claimed_frames;
}

bool machine_load(struct machine *machine, const void *code, size_t bytes)
{
    const struct hv_boot_state boot = {.rip = MACHINE_CODE, .rsp = MACHINE_CODE};

    return good(hv_guest_copy(machine->domain, (hv_gpa){MACHINE_CODE}, (void *)(uintptr_t)code,
                              bytes, HV_COPY_TO_GUEST),
                "hv_guest_copy") &&
           good(hv_domain_set_boot(machine->domain, &boot), "hv_domain_set_boot");
}

bool machine_run(struct machine *machine, const void *code, size_t bytes,
                 struct hv_domain_status *status_out)
{
    if (!machine_load(machine, code, bytes) ||
        !good(hv_domain_unpause(machine->domain), "hv_domain_unpause") ||
        !good(hv_domain_wait_change(machine->domain, HV_DOMAIN_STATE_RUNNING, WAIT_NS),
              "hv_domain_wait_change")) {
        return false;
    }
    hv_domain_get_status(machine->domain, status_out);
    return true;
}

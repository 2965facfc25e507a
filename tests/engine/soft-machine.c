/* SPDX-License-Identifier: GPL-3.0-or-later */
/* See soft-machine.h. */
#include "engine/soft-machine.h"

#include "engine/soft/soft.h"

#include "cpu/segment.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_TABLES 0x1000u
#define GDT         0x4000u
#define TSS         0x4800u
#define IDT         0x5000u
#define ENTRY       (HV_SEG_ATTR_P | HV_SEG_ATTR_S | HV_SEG_ATTR_ACCESSED | HV_SEG_ATTR_WRITABLE)

static void check(int rc, const char *what)
{
    if (rc) {
        fprintf(stderr, "soft machine: %s: %d\n", what, rc);
        abort();
    }
}

/* ---- Devices and interrupts ------------------------------------------------------------------- */

/* Reads are answered with io_value, stores replace it. */
static int access_io(struct soft_machine *machine, struct soft_machine_io io, uint64_t *value)
{
    if (machine->io_again > 0) {
        machine->io_again--;
        return -EAGAIN;
    }
    if (machine->io_late && !machine->io_asked) {
        machine->io_asked = true;
        return -EAGAIN;
    }
    machine->io_asked = false;
    *value = io.write ? io.value : machine->io_value;
    io.value = *value;
    machine->io_address = io.address;
    machine->io_bytes = io.bytes;
    machine->io_value = *value + machine->io_step;
    if (machine->io_accesses < HV_ARRAY_LEN(machine->io)) {
        machine->io[machine->io_accesses] = io;
    }
    machine->io_accesses++;
    if (machine->io_accesses == machine->io_rings) {
        hv_doorbell_ring(&machine->bell, HV_REQUEST_STOP);
    }
    return 0;
}

static int pio_read(void *context, uint16_t port, unsigned bytes, uint64_t *value_out)
{
    return access_io(context,
                     (struct soft_machine_io){.port = true, .address = port, .bytes = bytes},
                     value_out);
}

static int pio_write(void *context, uint16_t port, unsigned bytes, uint64_t value)
{
    return access_io(context, (struct soft_machine_io){true, true, port, value, bytes}, &value);
}

static int mmio_read(void *context, hv_gpa gpa, unsigned bytes, uint64_t *value_out)
{
    return access_io(context, (struct soft_machine_io){.address = gpa.v, .bytes = bytes},
                     value_out);
}

static int mmio_write(void *context, hv_gpa gpa, unsigned bytes, uint64_t value)
{
    return access_io(context, (struct soft_machine_io){false, true, gpa.v, value, bytes}, &value);
}

static const struct hv_engine_io machine_io = {
    .pio_read = pio_read,
    .pio_write = pio_write,
    .mmio_read = mmio_read,
    .mmio_write = mmio_write,
};

static uint64_t cr8_read(void *context)
{
    (void)context;
    return 0;
}

static void cr8_write(void *context, uint64_t value)
{
    (void)context;
    (void)value;
}

static int msr_read(void *context, uint32_t index, uint64_t *value_out)
{
    (void)context;
    (void)index;
    *value_out = 0;
    return -ENOENT;
}

static int msr_write(void *context, uint32_t index, uint64_t value)
{
    (void)context;
    (void)index;
    (void)value;
    return -ENOENT;
}

static uint64_t tsc_read(void *context)
{
    (void)context;
    return 0x1122334455667788;
}

static bool interrupt_pending(void *context)
{
    const struct soft_machine *machine = context;

    return machine->interrupt >= 0;
}

static int interrupt_acknowledge(void *context)
{
    struct soft_machine *machine = context;
    int vector = machine->interrupt;

    machine->interrupt = -1;
    return vector;
}

static const struct hv_cpu_hooks machine_hooks = {
    .cr8_read = cr8_read,
    .cr8_write = cr8_write,
    .msr_read = msr_read,
    .msr_write = msr_write,
    .tsc_read = tsc_read,
    .interrupt_pending = interrupt_pending,
    .interrupt_acknowledge = interrupt_acknowledge,
};

static void revoke_code(void *context, hv_gfn gfn)
{
    struct soft_machine *machine = context;

    hv_engine_soft.revoke_code(machine->domain, gfn);
}

static const struct hv_memory_hooks memory_hooks = {.revoke_code = revoke_code};

/* ---- Making ----------------------------------------------------------------------------------- */

struct soft_machine *soft_machine_create(uint64_t bytes)
{
    const struct hv_arena_config config = {
        .backing = HV_BACKING_KIND_ANON,
        .bytes = bytes + HV_EXTENT_SIZE,
    };
    struct soft_machine *machine = aligned_alloc(64, sizeof(*machine));
    struct hv_engine_vcpu_config vcpu;

    check(machine ? 0 : -ENOMEM, "memory");
    memset(machine, 0, sizeof(*machine));
    machine->interrupt = -1;
    check(hv_arena_create(&config, &machine->arena), "arena");
    check(hv_memory_init(&machine->memory, machine->arena, 7, bytes, &memory_hooks, machine),
          "memory");
    check(hv_memory_add_ram(&machine->memory, (hv_gfn){0}, bytes / HV_PAGE_SIZE), "RAM");
    hv_clock_init_simulated(&machine->clock, (hv_ns){0});
    hv_cpu_policy_init(&machine->policy, 1, 1000000, false);
    machine->cpu.policy = &machine->policy;
    machine->cpu.hooks = &machine_hooks;
    machine->cpu.hook_context = machine;
    hv_cpu_reset(&machine->cpu, true);
    hv_doorbell_init(&machine->bell);
    hv_holder_init(&machine->holder, &machine->bell, "vcpu", 0);
    hv_memory_add_holder(&machine->memory, 0, &machine->holder);
    check(hv_engine_soft.domain_create(&machine->memory, &machine->domain), "domain");
    vcpu = (struct hv_engine_vcpu_config){
        .index = 0,
        .cpu = &machine->cpu,
        .memory = &machine->memory,
        .bell = &machine->bell,
        .holder = &machine->holder,
        .clock = &machine->clock,
        .io = &machine_io,
        .io_context = machine,
    };
    check(hv_engine_soft.vcpu_create(machine->domain, &vcpu, &machine->vcpu), "vcpu");
    return machine;
}

void soft_machine_destroy(struct soft_machine *machine)
{
    hv_engine_soft.vcpu_destroy(machine->vcpu);
    while (hv_memory_relinquish(&machine->memory, 10000) == -EAGAIN) {
    }
    hv_engine_soft.domain_destroy(machine->domain);
    hv_memory_finish(&machine->memory);
    hv_arena_destroy(machine->arena);
    free(machine);
}

void soft_machine_write(struct soft_machine *machine, uint64_t gpa, const void *from, size_t bytes)
{
    void *writable = (void *)(uintptr_t)from;

    check(hv_memory_copy(&machine->memory, (hv_gpa){gpa}, writable, bytes, HV_COPY_TO_GUEST),
          "write");
}

void soft_machine_read(struct soft_machine *machine, uint64_t gpa, void *to, size_t bytes)
{
    check(hv_memory_copy(&machine->memory, (hv_gpa){gpa}, to, bytes, HV_COPY_FROM_GUEST), "read");
}

uint64_t soft_machine_peek(struct soft_machine *machine, uint64_t gpa, unsigned bytes)
{
    uint64_t value = 0;

    soft_machine_read(machine, gpa, &value, bytes);
    return value;
}

void soft_machine_poke(struct soft_machine *machine, uint64_t gpa, unsigned bytes, uint64_t value)
{
    soft_machine_write(machine, gpa, &value, bytes);
}

/* ---- Modes ------------------------------------------------------------------------------------ */

static void write_page_tables(struct soft_machine *machine)
{
    soft_machine_poke(machine, PAGE_TABLES, 8, (PAGE_TABLES + 0x1000) | 7);
    soft_machine_poke(machine, PAGE_TABLES + 0x1000, 8, (PAGE_TABLES + 0x2000) | 7);
    for (uint64_t i = 0; i < 512; i++) {
        soft_machine_poke(machine, PAGE_TABLES + 0x2000 + 8 * i, 8, i << 21 | 0x87);
    }
}

/* Selectors: 8 code64, 10h data, 18h code32, 20h TSS, 33h data3, 3bh code64 of CPL 3. */
static void write_gdt(struct soft_machine *machine)
{
    soft_machine_poke(machine, GDT + 0x08, 8, UINT64_C(0x00af9b000000ffff));
    soft_machine_poke(machine, GDT + 0x10, 8, UINT64_C(0x00cf93000000ffff));
    soft_machine_poke(machine, GDT + 0x18, 8, UINT64_C(0x00cf9b000000ffff));
    soft_machine_poke(machine, GDT + 0x20, 8,
                      UINT64_C(0x0000890000000067) | (uint64_t)(TSS & 0xffffff) << 16);
    soft_machine_poke(machine, GDT + 0x30, 8, UINT64_C(0x00cff3000000ffff));
    soft_machine_poke(machine, GDT + 0x38, 8, UINT64_C(0x00affb000000ffff));
    machine->cpu.gdtr = (struct hv_table_register){.base = GDT, .limit = 0x3f};
    machine->cpu.seg[HV_SEG_TR] = (struct hv_segment){
        .selector = 0x20, .base = TSS, .limit = 0x67, .attr = HV_SEG_ATTR_P | 0xb};
    /* RSP0 of the 64-bit TSS, ESP0 and SS0 of the 32-bit one. */
    soft_machine_poke(machine, TSS + 4, 8, MACHINE_STACK - 0x800);
}

static void write_idt(struct soft_machine *machine, unsigned selector, bool wide)
{
    for (unsigned vector = 0; vector < 64; vector++) {
        uint64_t handler = MACHINE_HANDLERS + 16 * vector;
        uint64_t gate = (handler & 0xffff) | (uint64_t)selector << 16 | UINT64_C(0xee00) << 32 |
                        (handler >> 16) << 48;

        soft_machine_poke(machine, IDT + (wide ? 16 : 8) * vector, 8, gate);
        if (wide) {
            soft_machine_poke(machine, IDT + 16 * vector + 8, 8, 0);
        }
        soft_machine_poke(machine, handler, 1, 0xf4);
    }
    machine->cpu.idtr =
        (struct hv_table_register){.base = IDT, .limit = (uint16_t)((wide ? 16 : 8) * 64 - 1)};
}

static void set_segments(struct soft_machine *machine, uint32_t code_attr, uint16_t code)
{
    struct hv_segment segment = {
        .selector = 0x10, .limit = UINT32_MAX, .attr = ENTRY | HV_SEG_ATTR_DB | HV_SEG_ATTR_G};

    for (unsigned s = 0; s < HV_SEG_COUNT; s++) {
        hv_segment_set(&machine->cpu, (enum hv_seg)s, &segment);
    }
    segment.selector = code;
    segment.attr = ENTRY | HV_SEG_ATTR_CODE | HV_SEG_ATTR_G | code_attr;
    hv_segment_set(&machine->cpu, HV_SEG_CS, &segment);
}

static void start(struct soft_machine *machine)
{
    struct hv_cpu *cpu = &machine->cpu;

    hv_segment_sync_slots(cpu);
    memset(cpu->slot, 0, HV_REG_COUNT * sizeof(cpu->slot[0]));
    cpu->slot[HV_REG_RSP] = MACHINE_STACK;
    cpu->rip = MACHINE_CODE;
    machine->interrupt = -1;
    hv_engine_soft.state_changed(machine->vcpu);
}

void soft_machine_set_64(struct soft_machine *machine)
{
    struct hv_cpu *cpu = &machine->cpu;

    hv_cpu_reset(cpu, true);
    write_page_tables(machine);
    write_gdt(machine);
    write_idt(machine, 8, true);
    cpu->cr0 = HV_CR0_PG | HV_CR0_WP | HV_CR0_NE | HV_CR0_ET | HV_CR0_MP | HV_CR0_PE;
    cpu->cr3 = PAGE_TABLES;
    cpu->cr4 = HV_CR4_PAE | HV_CR4_OSFXSR | HV_CR4_OSXMMEXCPT;
    cpu->efer = HV_EFER_LME | HV_EFER_LMA | HV_EFER_SCE | HV_EFER_NXE;
    set_segments(machine, HV_SEG_ATTR_L, 8);
    start(machine);
}

void soft_machine_set_32(struct soft_machine *machine)
{
    struct hv_cpu *cpu = &machine->cpu;

    hv_cpu_reset(cpu, true);
    write_gdt(machine);
    write_idt(machine, 0x18, false);
    cpu->cr0 = HV_CR0_NE | HV_CR0_ET | HV_CR0_PE;
    cpu->cr4 = HV_CR4_OSFXSR | HV_CR4_OSXMMEXCPT;
    set_segments(machine, HV_SEG_ATTR_DB, 0x18);
    start(machine);
}

void soft_machine_set_16(struct soft_machine *machine)
{
    struct hv_cpu *cpu = &machine->cpu;
    struct hv_segment cs;

    hv_cpu_reset(cpu, true);
    cs = cpu->seg[HV_SEG_CS];
    cs.selector = MACHINE_CODE >> 4;
    cs.base = MACHINE_CODE;
    hv_segment_set(cpu, HV_SEG_CS, &cs);
    for (unsigned vector = 0; vector < 64; vector++) {
        soft_machine_poke(machine, 4 * vector, 4, MACHINE_HANDLERS + 16 * vector);
        soft_machine_poke(machine, MACHINE_HANDLERS + 16 * vector, 1, 0xf4);
    }
    start(machine);
    cpu->slot[HV_REG_RSP] = MACHINE_HANDLERS;
    cpu->rip = 0;
}

/* ---- More vCPUs ------------------------------------------------------------------------------- */

struct soft_machine_cpu *soft_machine_add_cpu(struct soft_machine *machine, unsigned index)
{
    struct soft_machine_cpu *added = aligned_alloc(64, sizeof(*added));
    struct hv_engine_vcpu_config vcpu;

    check(added ? 0 : -ENOMEM, "memory");
    memset(added, 0, sizeof(*added));
    added->cpu = machine->cpu;
    added->cpu.apic_id = index;
    hv_doorbell_init(&added->bell);
    hv_holder_init(&added->holder, &added->bell, "vcpu", index);
    hv_memory_add_holder(&machine->memory, index, &added->holder);
    vcpu = (struct hv_engine_vcpu_config){
        .index = index,
        .cpu = &added->cpu,
        .memory = &machine->memory,
        .bell = &added->bell,
        .holder = &added->holder,
        .clock = &machine->clock,
        .io = &machine_io,
        .io_context = machine,
    };
    check(hv_engine_soft.vcpu_create(machine->domain, &vcpu, &added->vcpu), "vcpu");
    return added;
}

void soft_machine_remove_cpu(struct soft_machine_cpu *added)
{
    hv_engine_soft.vcpu_destroy(added->vcpu);
    free(added);
}

/* ---- Running ---------------------------------------------------------------------------------- */

static struct hv_exit run(struct hv_engine_vcpu *vcpu, struct hv_doorbell *bell, uint64_t insns)
{
    struct hv_exit exit;

    do {
        uint32_t taken = hv_doorbell_take(bell);

        hv_engine_soft.serve(vcpu, taken);
        hv_doorbell_acknowledge(bell);
        hv_engine_run(&hv_engine_soft, vcpu, HV_NS_NEVER, insns, &exit);
    } while (exit.kind == HV_EXIT_PREEMPT);
    return exit;
}

struct hv_exit soft_machine_run(struct soft_machine *machine, uint64_t insns)
{
    return run(machine->vcpu, &machine->bell, insns);
}

struct hv_exit soft_machine_run_cpu(struct soft_machine_cpu *added, uint64_t insns)
{
    return run(added->vcpu, &added->bell, insns);
}

int soft_machine_exception(const struct soft_machine *machine)
{
    const struct hv_cpu *cpu = &machine->cpu;
    uint64_t at = cpu->rip + cpu->slot[HV_SLOT_SEG_BASE + HV_SEG_CS] - 1 - MACHINE_HANDLERS;

    return cpu->activity == HV_ACTIVITY_HALTED && at < 64 * 16 && at % 16 == 0 ? (int)(at / 16)
                                                                               : -1;
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Task switches.
 *
 *     check    descriptor and limits of the new TSS, both TSSs readable and writable, PDPTEs
 *     save     registers into the old TSS; busy bits; back link
 *     commit   registers, selectors, CR3, TR, CR0.TS: from here on the new task is the current one
 *     enter    LDTR, CS, SS and data segments with their descriptors, error code: what is wrong
 *              with them is a fault of the new task, at its first instruction
 *
 * So HV_FAULTED does not always mean that nothing has changed: the fault is to be delivered at
 * cpu->rip, whichever task that is of. Should the engine answer -EAGAIN in the last part, the event
 * that led to the switch is delivered again in the new task; nothing can undo a switch.
 *
 * Source: SDM 3A 7.2.1, 7.2.6 (layouts), 7.3 (steps and table 7-1).
 */
#include "cpu/task.h"

#include "cpu/descriptor.h"
#include "cpu/fault.h"
#include "cpu/segment.h"
#include "cpu/stack.h"

#define BUSY           2u
#define TASK_REGISTERS 8

/* Offsets of a TSS. General registers and segments stand in the order of their encodings. */
struct layout {
    uint8_t bytes; /* of a register or pointer */
    uint8_t limit; /* the smallest that holds it */
    uint8_t ip, flags, registers, segments, ldtr;
    uint8_t segment_count;
};

static const struct layout layout16 = {2, 0x2b, 0x0e, 0x10, 0x12, 0x22, 0x2a, 4};
static const struct layout layout32 = {4, 0x67, 0x20, 0x24, 0x28, 0x48, 0x60, 6};

enum { TSS_LINK = 0, TSS32_CR3 = 0x1c, TSS32_TRAP = 0x64 };

struct task_state {
    uint64_t cr3, ip, flags, registers[TASK_REGISTERS], segments[HV_SEG_COUNT], ldtr;
    bool trap;
};

static const struct layout *layout_of(uint32_t attr)
{
    return hv_attr_type(attr) <= HV_SYSTEM_TSS16_BUSY ? &layout16 : &layout32;
}

/* The old task is to be returned to: back link, NT, and it stays busy. */
static bool is_nested(enum hv_task_cause cause)
{
    return cause == HV_TASK_CAUSE_CALL || cause == HV_TASK_CAUSE_EVENT;
}

static hv_gva tss_at(const struct hv_segment *tss, unsigned offset)
{
    return (hv_gva){(uint32_t)(tss->base + offset)};
}

static int find_tss(struct hv_cpu *cpu, const struct hv_access *access,
                    const struct hv_task_switch *task, struct hv_descriptor *descriptor,
                    struct hv_segment *tss_out, struct hv_fault *fault_out)
{
    const uint16_t table_indicator = 4;
    bool back = task->cause == HV_TASK_CAUSE_IRET;
    enum hv_vector vector = back ? HV_VECTOR_TS : HV_VECTOR_GP;
    uint32_t error = hv_selector_error(task->selector, task->ext);
    uint32_t attr;
    int result;

    if (hv_selector_null(task->selector) || (task->selector & table_indicator)) {
        return hv_fault_code(fault_out, vector, error);
    }
    result =
        hv_descriptor_fetch(cpu, access, task->selector, vector, task->ext, descriptor, fault_out);
    if (result) {
        return result;
    }
    attr = hv_descriptor_attr(descriptor);
    /* Available for all but the return, which goes to a task that waits, busy. */
    if (!hv_attr_is_system(attr, back ? HV_SYSTEM_TSS_BUSY : HV_SYSTEM_TSS) &&
        !hv_attr_is_system(attr, back ? HV_SYSTEM_TSS16_BUSY : HV_SYSTEM_TSS16)) {
        return hv_fault_code(fault_out, vector, error);
    }
    if (!(attr & HV_SEG_ATTR_P)) {
        return hv_fault_code(fault_out, HV_VECTOR_NP, error);
    }
    *tss_out = hv_descriptor_segment(descriptor, task->selector);
    if (tss_out->limit < layout_of(attr)->limit) {
        return hv_fault_code(fault_out, HV_VECTOR_TS, error);
    }
    return 0;
}

static int read_field(const struct hv_access *access, const struct hv_segment *tss, unsigned offset,
                      unsigned bytes, uint64_t *value_out, struct hv_fault *fault_out)
{
    return access->ops->read(access->context, tss_at(tss, offset), bytes, HV_WALK_AS_SUPERVISOR,
                             value_out, fault_out);
}

static int read_state(const struct hv_access *access, const struct hv_segment *tss,
                      struct task_state *state, struct hv_fault *fault_out)
{
    const struct layout *layout = layout_of(tss->attr);
    uint64_t trap = 0;
    int result;

    memset(state, 0, sizeof(*state));
    result = read_field(access, tss, layout->ip, layout->bytes, &state->ip, fault_out);
    if (!result) {
        result = read_field(access, tss, layout->flags, layout->bytes, &state->flags, fault_out);
    }
    for (unsigned i = 0; !result && i < TASK_REGISTERS; i++) {
        result = read_field(access, tss, layout->registers + i * layout->bytes, layout->bytes,
                            &state->registers[i], fault_out);
    }
    for (unsigned i = 0; !result && i < layout->segment_count; i++) {
        result = read_field(access, tss, layout->segments + i * layout->bytes, 2,
                            &state->segments[i], fault_out);
    }
    if (!result) {
        result = read_field(access, tss, layout->ldtr, 2, &state->ldtr, fault_out);
    }
    if (!result && layout == &layout32) {
        result = read_field(access, tss, TSS32_CR3, 4, &state->cr3, fault_out);
        if (!result) {
            result = read_field(access, tss, TSS32_TRAP, 1, &trap, fault_out);
        }
    }
    state->trap = trap & 1;
    return result;
}

static int write_field(const struct hv_access *access, const struct hv_segment *tss,
                       unsigned offset, unsigned bytes, uint64_t value, struct hv_fault *fault_out)
{
    return access->ops->write(access->context, tss_at(tss, offset), bytes, HV_WALK_AS_SUPERVISOR,
                              value & hv_bytes_mask(bytes), fault_out);
}

/* Check that the old TSS takes what save_state() writes. */
static int probe_old(const struct hv_cpu *cpu, const struct hv_access *access, uint32_t ext,
                     struct hv_fault *fault_out)
{
    const struct hv_segment *tss = &cpu->seg[HV_SEG_TR];
    const struct layout *layout = layout_of(tss->attr);
    unsigned end = layout->segments + (unsigned)layout->segment_count * layout->bytes;

    if (tss->limit < layout->limit) {
        return hv_fault_code(fault_out, HV_VECTOR_TS, hv_selector_error(tss->selector, ext));
    }
    return access->ops->probe_write(access->context, tss_at(tss, layout->ip), end - layout->ip,
                                    HV_WALK_AS_SUPERVISOR, fault_out);
}

static int save_state(const struct hv_cpu *cpu, const struct hv_access *access,
                      const struct hv_task_switch *task, struct hv_fault *fault_out)
{
    const struct hv_segment *tss = &cpu->seg[HV_SEG_TR];
    const struct layout *layout = layout_of(tss->attr);
    uint64_t flags = task->old_flags;
    int result;

    if (task->cause == HV_TASK_CAUSE_IRET) {
        flags &= ~(uint64_t)HV_RFLAGS_NT;
    }
    result = write_field(access, tss, layout->ip, layout->bytes, task->old_rip, fault_out);
    if (!result) {
        result = write_field(access, tss, layout->flags, layout->bytes, flags, fault_out);
    }
    for (unsigned i = 0; !result && i < TASK_REGISTERS; i++) {
        result = write_field(access, tss, layout->registers + i * layout->bytes, layout->bytes,
                             cpu->slot[i], fault_out);
    }
    for (unsigned i = 0; !result && i < layout->segment_count; i++) {
        result = write_field(access, tss, layout->segments + i * layout->bytes, 2,
                             cpu->seg[i].selector, fault_out);
    }
    return result;
}

/* Busy bits and back link: the old task waits when it is to be returned to, else it is free. */
static int chain(struct hv_cpu *cpu, const struct hv_access *access,
                 const struct hv_task_switch *task, const struct hv_descriptor *descriptor,
                 const struct hv_segment *tss, struct hv_fault *fault_out)
{
    hv_gva old;
    int result = 0;

    if (is_nested(task->cause)) {
        result = write_field(access, tss, TSS_LINK, 2, cpu->seg[HV_SEG_TR].selector, fault_out);
    } else if (hv_descriptor_locate(cpu, cpu->seg[HV_SEG_TR].selector, 8, &old)) {
        result = access->ops->set_bits(access->context, (hv_gva){old.v + 5}, 0, BUSY,
                                       HV_WALK_AS_SUPERVISOR, fault_out);
    }
    if (!result && task->cause != HV_TASK_CAUSE_IRET) {
        result = access->ops->set_bits(access->context, (hv_gva){descriptor->address.v + 5}, BUSY,
                                       0, HV_WALK_AS_SUPERVISOR, fault_out);
    }
    return result;
}

static void commit(struct hv_cpu *cpu, const struct hv_access *access,
                   const struct hv_task_switch *task, const struct hv_segment *tss,
                   const struct task_state *state, const uint64_t pdpte[4])
{
    bool is32 = layout_of(tss->attr) == &layout32;
    uint64_t flags = state->flags;

    if (is_nested(task->cause)) {
        flags |= HV_RFLAGS_NT;
    }
    hv_cpu_set_rflags(cpu, flags);
    cpu->rip = state->ip;
    for (unsigned i = 0; i < TASK_REGISTERS; i++) {
        cpu->slot[i] = is32 ? state->registers[i]
                            : (cpu->slot[i] & UINT32_MAX & ~UINT64_C(0xffff)) | state->registers[i];
    }
    /* Virtual-8086 segments need no descriptor; the others wait for enter(). */
    for (unsigned i = 0; i < HV_SEG_COUNT; i++) {
        uint16_t selector = (uint16_t)state->segments[i];
        struct hv_segment value =
            hv_cpu_v86(cpu) ? hv_segment_v86(selector) : hv_segment_null(selector);

        hv_segment_set(cpu, (enum hv_seg)i, &value);
    }
    cpu->seg[HV_SEG_LDTR] = hv_segment_null((uint16_t)state->ldtr);
    cpu->seg[HV_SEG_TR] = *tss;
    cpu->seg[HV_SEG_TR].attr |= BUSY;
    cpu->cpl = hv_cpu_v86(cpu) ? 3 : (uint8_t)hv_selector_rpl((uint16_t)state->segments[HV_SEG_CS]);
    cpu->cr0 |= HV_CR0_TS;
    cpu->dr[7] &= ~HV_DR7_LOCAL;
    if (is32 && (cpu->cr0 & HV_CR0_PG)) {
        cpu->cr3 = state->cr3;
        memcpy(cpu->pdpte, pdpte, sizeof(cpu->pdpte));
        access->ops->flush_non_global(access->context);
    }
}

static int enter_ldt(struct hv_cpu *cpu, const struct hv_access *access, uint32_t ext,
                     struct hv_fault *fault_out)
{
    const uint16_t table_indicator = 4;
    uint16_t selector = cpu->seg[HV_SEG_LDTR].selector;
    struct hv_descriptor descriptor;
    uint32_t attr;
    int result;

    if (hv_selector_null(selector)) {
        return 0;
    }
    if (selector & table_indicator) {
        return hv_fault_code(fault_out, HV_VECTOR_TS, hv_selector_error(selector, ext));
    }
    result = hv_descriptor_fetch(cpu, access, selector, HV_VECTOR_TS, ext, &descriptor, fault_out);
    if (result) {
        return result;
    }
    attr = hv_descriptor_attr(&descriptor);
    if (!hv_attr_is_system(attr, HV_SYSTEM_LDT) || !(attr & HV_SEG_ATTR_P)) {
        return hv_fault_code(fault_out, HV_VECTOR_TS, hv_selector_error(selector, ext));
    }
    cpu->seg[HV_SEG_LDTR] = hv_descriptor_segment(&descriptor, selector);
    return 0;
}

static int enter_segments(struct hv_cpu *cpu, const struct hv_access *access, uint32_t ext,
                          struct hv_fault *fault_out)
{
    static const enum hv_seg data[] = {HV_SEG_DS, HV_SEG_ES, HV_SEG_FS, HV_SEG_GS};
    uint16_t ss = cpu->seg[HV_SEG_SS].selector;
    struct hv_code_target target;
    struct hv_segment value;
    int result;

    result = hv_code_fetch(cpu, access, cpu->seg[HV_SEG_CS].selector, HV_CODE_TASK, ext, &target,
                           fault_out);
    if (!result) {
        result = hv_descriptor_mark_accessed(access, &target.descriptor, &target.cs, fault_out);
    }
    if (result) {
        return result;
    }
    hv_code_enter(cpu, &target, cpu->cpl, cpu->rip);

    if (hv_selector_null(ss)) {
        return hv_fault_code(fault_out, HV_VECTOR_TS, ext);
    }
    result =
        hv_descriptor_load_stack(cpu, access, ss, cpu->cpl, HV_VECTOR_TS, ext, &value, fault_out);
    if (result) {
        return result;
    }
    hv_segment_set(cpu, HV_SEG_SS, &value);

    for (size_t i = 0; i < HV_ARRAY_LEN(data); i++) {
        result = hv_descriptor_load_data(cpu, access, cpu->seg[data[i]].selector, cpu->cpl,
                                         HV_VECTOR_TS, ext, &value, fault_out);
        if (result) {
            return result;
        }
        hv_segment_set(cpu, data[i], &value);
    }
    return 0;
}

static int enter(struct hv_cpu *cpu, const struct hv_access *access,
                 const struct hv_task_switch *task, bool trap, struct hv_fault *fault_out)
{
    int result = enter_ldt(cpu, access, task->ext, fault_out);

    if (result) {
        return result;
    }
    if (!hv_cpu_v86(cpu)) {
        result = enter_segments(cpu, access, task->ext, fault_out);
        if (result) {
            return result;
        }
    }
    if (cpu->rip > cpu->seg[HV_SEG_CS].limit) {
        return hv_fault_code(fault_out, HV_VECTOR_GP, task->ext);
    }
    if (task->has_error) {
        unsigned bytes = layout_of(cpu->seg[HV_SEG_TR].attr)->bytes;
        struct hv_stack stack = hv_stack_current(cpu, task->ext);
        uint64_t error = task->error;

        /* By name: what CURRENT means to an engine's TLB may still be the old ring. */
        stack.as = cpu->cpl == 3 ? HV_WALK_AS_USER : HV_WALK_AS_KERNEL;
        result = hv_stack_push_frame(access, &stack, bytes, &error, 1, fault_out);
        if (result) {
            return result;
        }
        hv_stack_commit(cpu, &stack, false);
    }
    if (trap) {
        cpu->dr[6] |= HV_DR6_BT;
        return hv_fault_plain(fault_out, HV_VECTOR_DB);
    }
    return 0;
}

int hv_task_switch(struct hv_cpu *cpu, const struct hv_access *access,
                   const struct hv_task_switch *task, struct hv_fault *fault_out)
{
    struct hv_descriptor descriptor;
    struct hv_segment tss;
    struct task_state state;
    uint64_t pdpte[4];
    int result;

    result = find_tss(cpu, access, task, &descriptor, &tss, fault_out);
    if (result) {
        return result;
    }
    result = probe_old(cpu, access, task->ext, fault_out);
    if (result) {
        return result;
    }
    if (is_nested(task->cause)) {
        result = access->ops->probe_write(access->context, tss_at(&tss, TSS_LINK), 2,
                                          HV_WALK_AS_SUPERVISOR, fault_out);
        if (result) {
            return result;
        }
    }
    result = read_state(access, &tss, &state, fault_out);
    if (result) {
        return result;
    }
    memcpy(pdpte, cpu->pdpte, sizeof(pdpte));
    if (layout_of(tss.attr) == &layout32 && (cpu->cr0 & HV_CR0_PG) && (cpu->cr4 & HV_CR4_PAE)) {
        result =
            hv_walk_load_pdptes(access->ops->walk, access->context, state.cr3, pdpte, fault_out);
        if (result) {
            return result;
        }
    }

    result = save_state(cpu, access, task, fault_out);
    if (!result) {
        result = chain(cpu, access, task, &descriptor, &tss, fault_out);
    }
    if (result) {
        return result;
    }
    commit(cpu, access, task, &tss, &state, pdpte);
    return enter(cpu, access, task, state.trap, fault_out);
}

int hv_transfer_task(struct hv_cpu *cpu, const struct hv_access *access, uint16_t selector,
                     enum hv_task_cause cause, uint64_t next_rip, bool has_error, uint32_t error,
                     struct hv_fault *fault_out)
{
    struct hv_task_switch task = {
        .selector = selector,
        .cause = cause,
        .old_rip = next_rip,
        .old_flags = hv_cpu_rflags(cpu),
        .has_error = has_error,
        .error = error,
        .ext = cause == HV_TASK_CAUSE_EVENT ? 1 : 0,
    };

    return hv_task_switch(cpu, access, &task, fault_out);
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The run loop: budget, exits, events and their shadows, single steps, breakpoints. */
#include "soft-case.h"

#include "engine/soft/vcpu.h"

#define VECTOR 0x21

SNIPPET(count_to_1000);
SNIPPET(sti_nop);
SNIPPET(sti_hlt);
SNIPPET(sti_cli);
SNIPPET(mov_ss);
SNIPPET(popf_enables);
SNIPPET(step);
SNIPPET(breakpoint);
SNIPPET(watch);
SNIPPET(port);
SNIPPET(ins);
SNIPPET(ins_long);
SNIPPET(call_until_9);
SNIPPET(function_1);
SNIPPET(hypercall);
SNIPPET(forever);
SNIPPET(pauses);

static void test_halts(void)
{
    struct soft_machine *machine = MACHINE_64(count_to_1000);
    struct hv_exit exit = soft_machine_run(machine, 0);

    TAP_EQ(exit.kind, HV_EXIT_HLT);
    TAP_EQ(reg(machine, HV_REG_RAX), 1000);
    TAP_EQ(machine->cpu.rip,
           MACHINE_CODE + (uint64_t)(snippet_count_to_1000_end - snippet_count_to_1000));
    TAP_EQ(hv_load_relaxed(&hv_engine_soft.counters(machine->vcpu)->instructions), 3002);
    soft_machine_destroy(machine);
}

static void test_budget(void)
{
    struct soft_machine *machine = MACHINE_64(forever);
    struct hv_exit exit = soft_machine_run(machine, 10001);

    TAP_EQ(exit.kind, HV_EXIT_DEADLINE);
    /* Two instructions a turn; overrun by less than a block. */
    TAP_OK(reg(machine, HV_REG_RAX) >= 5000 && reg(machine, HV_REG_RAX) <= 5001);
    exit = soft_machine_run(machine, 10);
    TAP_EQ(exit.kind, HV_EXIT_DEADLINE);
    TAP_EQ(reg(machine, HV_REG_RAX), 5006);
    soft_machine_destroy(machine);
}

static void test_preempt(void)
{
    struct soft_machine *machine = MACHINE_64(forever);
    struct hv_exit exit;

    hv_doorbell_ring(&machine->bell, HV_REQUEST_STOP);
    hv_engine_run(&hv_engine_soft, machine->vcpu, HV_NS_NEVER, 0, &exit);
    TAP_EQ(exit.kind, HV_EXIT_PREEMPT);
    TAP_EQ(reg(machine, HV_REG_RAX), 0);
    TAP_EQ(hv_load_relaxed(&machine->bell.mode), HV_DOORBELL_MODE_OUTSIDE);
    TAP_EQ(hv_doorbell_take(&machine->bell), HV_REQUEST_STOP);
    soft_machine_destroy(machine);
}

static void test_sti_shadow(void)
{
    struct soft_machine *machine = MACHINE_64(sti_nop);

    machine->interrupt = VECTOR;
    TAP_EQ(run_to_halt(machine), VECTOR);
    TAP_EQ(reg(machine, HV_REG_RAX), 1);
    TAP_EQ(reg(machine, HV_REG_RBX), 0);
    TAP_EQ(frame_rip(machine, false), MACHINE_CODE + 4);
    soft_machine_destroy(machine);
}

/* The interrupt wakes from the HLT behind STI; it does not come before it. */
static void test_sti_hlt(void)
{
    struct soft_machine *machine = MACHINE_64(sti_hlt);

    machine->interrupt = VECTOR;
    TAP_EQ(run_to_halt(machine), VECTOR);
    TAP_EQ(frame_rip(machine, false), MACHINE_CODE + 3);
    soft_machine_destroy(machine);
}

static void test_sti_cli(void)
{
    struct soft_machine *machine = MACHINE_64(sti_cli);

    machine->interrupt = VECTOR;
    TAP_EQ(run_to_halt(machine), -1);
    TAP_EQ(reg(machine, HV_REG_RAX), 1);
    TAP_EQ(machine->interrupt, VECTOR);
    soft_machine_destroy(machine);
}

static void test_mov_ss_shadow(void)
{
    struct soft_machine *machine = MACHINE_64(mov_ss);

    /* It becomes deliverable at POPF: before MOV SS. */
    machine->interrupt = VECTOR;
    TAP_EQ(run_to_halt(machine), VECTOR);
    TAP_EQ(reg(machine, HV_REG_RAX), 0);
    soft_machine_destroy(machine);

    /* An NMI that comes with MOV SS waits for the instruction behind it. */
    machine = MACHINE_64(mov_ss);
    TAP_EQ(soft_machine_run(machine, 5).kind, HV_EXIT_DEADLINE);
    TAP_OK(machine->cpu.mov_ss_shadow);
    machine->cpu.nmi_pending = true;
    TAP_EQ(run_to_halt(machine), HV_VECTOR_NMI);
    TAP_EQ(reg(machine, HV_REG_RAX), 1);
    TAP_EQ(reg(machine, HV_REG_RBX), 0);
    soft_machine_destroy(machine);
}

static void test_popf_enables(void)
{
    struct soft_machine *machine = MACHINE_64(popf_enables);

    machine->interrupt = VECTOR;
    TAP_EQ(run_to_halt(machine), VECTOR);
    TAP_EQ(reg(machine, HV_REG_RAX), 0);
    soft_machine_destroy(machine);
}

static void test_single_step(void)
{
    struct soft_machine *machine = MACHINE_64(step);

    TAP_EQ(run_to_halt(machine), HV_VECTOR_DB);
    /* After the instruction behind the POPF that set TF. */
    TAP_EQ(reg(machine, HV_REG_RAX), 1);
    TAP_EQ(reg(machine, HV_REG_RBX), 0);
    TAP_OK(machine->cpu.dr[6] & HV_DR6_BS);
    TAP_OK(frame_rflags(machine, false) & HV_RFLAGS_TF);
    soft_machine_destroy(machine);
}

static void test_code_breakpoint(void)
{
    struct soft_machine *machine = MACHINE_64(breakpoint);

    machine->cpu.dr[1] = MACHINE_CODE + 2;
    machine->cpu.dr[7] |= 1u << 2;
    TAP_EQ(run_to_halt(machine), HV_VECTOR_DB);
    TAP_EQ(machine->cpu.dr[6] & 0xf, 2);
    TAP_EQ(reg(machine, HV_REG_RAX), 1);
    TAP_EQ(reg(machine, HV_REG_RBX), 0);
    TAP_EQ(frame_rip(machine, false), MACHINE_CODE + 2);
    soft_machine_destroy(machine);

    /* RF lets it through once. */
    machine = MACHINE_64(breakpoint);
    machine->cpu.dr[0] = MACHINE_CODE;
    machine->cpu.dr[7] |= 1;
    machine->cpu.rflags |= HV_RFLAGS_RF;
    TAP_EQ(run_to_halt(machine), -1);
    TAP_OK(!(machine->cpu.rflags & HV_RFLAGS_RF));
    soft_machine_destroy(machine);
}

/* A data breakpoint is a trap: the access is done. */
static void test_data_breakpoint(void)
{
    struct soft_machine *machine = MACHINE_64(watch);

    set_reg(machine, HV_REG_RSI, 0x30002);
    machine->cpu.dr[2] = 0x30004;
    machine->cpu.dr[7] |= 1u << 4 | 1u << 24; /* one byte, writes */
    TAP_EQ(run_to_halt(machine), HV_VECTOR_DB);
    TAP_EQ(machine->cpu.dr[6] & 0xf, 4);
    TAP_EQ(reg(machine, HV_REG_RAX), 0);
    TAP_EQ(soft_machine_peek(machine, 0x30002, 4), 5);
    soft_machine_destroy(machine);

    /* Not before the first byte, and not for reads. */
    machine = MACHINE_64(watch);
    set_reg(machine, HV_REG_RSI, 0x30000);
    machine->cpu.dr[2] = 0x30004;
    machine->cpu.dr[7] |= 1u << 4 | 1u << 24;
    TAP_EQ(run_to_halt(machine), -1);
    soft_machine_destroy(machine);

    machine = MACHINE_64(watch);
    set_reg(machine, HV_REG_RSI, 0x30000);
    machine->cpu.dr[3] = 0x30000;
    machine->cpu.dr[7] |= 1u << 6 | 0xfu << 28; /* four bytes, reads and writes */
    TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_HLT);
    TAP_EQ(machine->cpu.dr[6] & 0xf, 8);
    TAP_EQ(reg(machine, HV_REG_RAX), 0);
    soft_machine_destroy(machine);
}

/* A device that needs time: the instruction starts again and the device is asked once. */
static void test_port_again(void)
{
    struct soft_machine *machine = MACHINE_64(port);

    machine->io_value = 0x5a;
    machine->io_again = 2;
    TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_IO);
    TAP_EQ(machine->cpu.rip, MACHINE_CODE + 5);
    TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_IO);
    TAP_EQ(machine->io_accesses, 0);
    TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_HLT);
    TAP_EQ(machine->io_accesses, 2);
    TAP_EQ(reg(machine, HV_REG_RBX), 0x5a);
    TAP_EQ(machine->io_value, 0x77);
    soft_machine_destroy(machine);
}

static void test_ins_again(void)
{
    struct soft_machine *machine = MACHINE_64(ins);
    unsigned exits = 0;

    set_reg(machine, HV_REG_RDI, 0x30000);
    machine->io_value = 0x1234;
    machine->io_again = 1;
    while (soft_machine_run(machine, 0).kind == HV_EXIT_IO) {
        exits++;
        machine->io_again = exits < 3 ? 1 : 0;
        TAP_OK(exits < 10);
    }
    TAP_EQ(machine->io_accesses, 3);
    TAP_EQ(soft_machine_peek(machine, 0x30000, 8), 0x123412341234);
    TAP_EQ(reg(machine, HV_REG_RDI), 0x30006);
    TAP_EQ(reg(machine, HV_REG_RCX), 0);
    soft_machine_destroy(machine);
}

/* However long it is, it does a bounded part between two looks at the budget; a device's elements
 * are dearer than memory's. */
static void test_ins_budget(void)
{
    struct soft_machine *machine = MACHINE_64(ins_long);

    set_reg(machine, HV_REG_RDI, 0x100000);
    TAP_EQ(soft_machine_run(machine, 2).kind, HV_EXIT_DEADLINE);
    TAP_OK(machine->io_accesses > 0 && machine->io_accesses <= 4096);
    TAP_EQ(reg(machine, HV_REG_RCX), 1000000 - machine->io_accesses);
    TAP_EQ(reg(machine, HV_REG_RDI), 0x100000 + machine->io_accesses);
    TAP_EQ(machine->cpu.rip, MACHINE_CODE + 5);
    TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_HLT);
    TAP_EQ(machine->io_accesses, 1000000);
    soft_machine_destroy(machine);
}

/* The doorbell ends it at the element at which it rings. */
static void test_ins_doorbell(void)
{
    struct soft_machine *machine = MACHINE_64(ins_long);
    struct hv_exit exit;

    set_reg(machine, HV_REG_RDI, 0x100000);
    machine->io_rings = 777;
    hv_engine_run(&hv_engine_soft, machine->vcpu, HV_NS_NEVER, 0, &exit);
    TAP_EQ(exit.kind, HV_EXIT_PREEMPT);
    TAP_EQ(machine->io_accesses, 777);
    TAP_EQ(reg(machine, HV_REG_RCX), 1000000 - 777);
    TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_HLT);
    TAP_EQ(machine->io_accesses, 1000000);
    soft_machine_destroy(machine);
}

static void test_hypercall(void)
{
    struct soft_machine *machine = MACHINE_64(hypercall);

    TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_HYPERCALL);
    TAP_EQ(reg(machine, HV_REG_RAX), 5);
    TAP_EQ(reg(machine, HV_REG_RBX), 0);
    set_reg(machine, HV_REG_RAX, 9);
    TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_HLT);
    TAP_EQ(reg(machine, HV_REG_RBX), 1);
    soft_machine_destroy(machine);
}

static void test_pauses(void)
{
    struct soft_machine *machine = MACHINE_64(pauses);

    TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_PAUSE_LOOP);
    soft_machine_destroy(machine);
}

static void test_triple_fault(void)
{
    struct soft_machine *machine = MACHINE_64(count_to_1000);
    struct hv_engine_trace trace;

    machine->cpu.idtr.limit = 0;
    machine->cpu.rip = 0x30000;
    soft_machine_poke(machine, 0x30000, 2, 0x0b0f);
    TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_SHUTDOWN);
    hv_engine_soft.get_trace(machine->vcpu, &trace);
    TAP_OK(trace.count >= 1);
    TAP_EQ(trace.block_rip[trace.count - 1], 0x30000);
    TAP_EQ(trace.code_bytes, sizeof(trace.code));
    TAP_EQ(trace.code[0], 0x0f);
    soft_machine_destroy(machine);
}

/* The 16 last blocks: all of them when that is asked for, else those nobody led to. */
static void test_trace(void)
{
    for (unsigned all = 0; all < 2; all++) {
        struct soft_machine *machine = MACHINE_64(count_to_1000);
        struct hv_engine_trace trace;

        machine->vcpu->trace_blocks = all;
        TAP_EQ(soft_machine_run(machine, 0).kind, HV_EXIT_HLT);
        hv_engine_soft.get_trace(machine->vcpu, &trace);
        TAP_EQ(trace.complete, all);
        TAP_OK(all ? trace.count == HV_ENGINE_TRACE_BLOCKS : trace.count < HV_ENGINE_TRACE_BLOCKS);
        for (unsigned i = 0; all && i < trace.count - 1; i++) {
            TAP_EQ(trace.block_rip[i], MACHINE_CODE + 2); /* the loop */
        }
        TAP_EQ(trace.block_rip[trace.count - 1], MACHINE_CODE + 11);
        soft_machine_destroy(machine);
    }
}

/* Through calls and returns as well, which go by the jump cache: loop, function, behind the call. */
static void test_trace_jumps(void)
{
    struct soft_machine *machine = MACHINE_64(call_until_9);
    const uint64_t way[] = {MACHINE_CODE + 3, 0x30000, MACHINE_CODE + 8};
    struct hv_engine_trace trace;
    unsigned at = 0;

    LOAD_SNIPPET(machine, function_1, 0x30000);
    set_reg(machine, HV_REG_RBX, 0x30000);
    machine->vcpu->trace_blocks = true;
    TAP_EQ(soft_machine_run(machine, 100).kind, HV_EXIT_DEADLINE);
    hv_engine_soft.get_trace(machine->vcpu, &trace);
    TAP_EQ(trace.count, HV_ENGINE_TRACE_BLOCKS);
    while (at < 2 && way[at] != trace.block_rip[0]) {
        at++;
    }
    for (unsigned i = 0; i < trace.count; i++) {
        TAP_EQ(trace.block_rip[i], way[(at + i) % 3]);
    }
    soft_machine_destroy(machine);
}

static void test_engines(void)
{
    char why[80];

    TAP_OK(hv_engine_find("auto", why, sizeof(why)) != NULL);
    TAP_OK(hv_engine_find("soft", why, sizeof(why)) == &hv_engine_soft);
    TAP_OK(hv_engine_find("hard", why, sizeof(why)) == NULL);
    TAP_STR(why, "There is no engine \"hard\".");
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"engine.run.halts", test_halts},
        {"engine.run.budget", test_budget},
        {"engine.run.preempt", test_preempt},
        {"engine.run.sti_shadow", test_sti_shadow},
        {"engine.run.sti_hlt", test_sti_hlt},
        {"engine.run.sti_cli", test_sti_cli},
        {"engine.run.mov_ss_shadow", test_mov_ss_shadow},
        {"engine.run.popf_enables", test_popf_enables},
        {"engine.run.single_step", test_single_step},
        {"engine.run.code_breakpoint", test_code_breakpoint},
        {"engine.run.data_breakpoint", test_data_breakpoint},
        {"engine.run.port_again", test_port_again},
        {"engine.run.ins_again", test_ins_again},
        {"engine.run.ins_budget", test_ins_budget},
        {"engine.run.ins_doorbell", test_ins_doorbell},
        {"engine.run.hypercall", test_hypercall},
        {"engine.run.pauses", test_pauses},
        {"engine.run.triple_fault", test_triple_fault},
        {"engine.run.trace", test_trace},
        {"engine.run.trace_jumps", test_trace_jumps},
        {"engine.run.engines", test_engines},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

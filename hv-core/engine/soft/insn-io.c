/* SPDX-License-Identifier: GPL-3.0-or-later */
/* IN, OUT. Source: SDM 2; SDM 1 19.5 (protection of ports). INS and OUTS: insn-string.c. */
#include "engine/soft/insn.h"

#include "engine/soft/access.h"
#include "engine/soft/io.h"
#include "engine/soft/watch.h"

#include "cpu/control.h"

int soft_io_check(struct hv_engine_vcpu *vcpu, uint16_t port, unsigned bytes)
{
    struct hv_cpu *cpu = vcpu->cpu;
    unsigned iopl = (cpu->rflags & HV_RFLAGS_IOPL) >> 12;
    int rc = 0;

    if (hv_cpu_protected(cpu) && (cpu->cpl > iopl || hv_cpu_v86(cpu))) {
        rc = hv_control_io_allowed(cpu, &vcpu->access, port, bytes, &vcpu->fault);
    }
    if (!rc) {
        soft_watch_port(vcpu, port, bytes);
    }
    return rc;
}

static uint16_t port_of(const struct hv_engine_vcpu *vcpu, const struct soft_call *call,
                        unsigned index)
{
    if (soft_operand_is_imm(&call->insn.operand[index])) {
        return (uint8_t)call->insn.imm;
    }
    return soft_get2(vcpu->cpu, HV_REG_RDX * 8u);
}

int soft_insn_in(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    uint16_t port = port_of(vcpu, call, 1);
    unsigned bytes = call->insn.operand[0].bytes;
    uint64_t value = 0;
    int rc = soft_io_check(vcpu, port, bytes);

    if (!rc) {
        rc = soft_pio_read(vcpu, port, bytes, &value);
    }
    return rc ? rc : soft_operand_write(vcpu, call, 0, gva, value);
}

int soft_insn_out(struct hv_engine_vcpu *vcpu, const struct soft_call *call, uint64_t gva)
{
    uint16_t port = port_of(vcpu, call, 0);
    unsigned bytes = call->insn.operand[1].bytes;
    int rc = soft_io_check(vcpu, port, bytes);

    (void)gva;
    if (!rc) {
        rc = soft_pio_write(vcpu, port, bytes, soft_get(vcpu->cpu, HV_REG_RAX * 8u, bytes));
    }
    return rc;
}

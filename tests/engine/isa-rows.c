/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What is known of single rows: why they are in no case, and what their faults leave open. */
#include "engine/isa-case.h"

#include "cpu/policy.h"
#include "engine/soft/decode-private.h"
#include "engine/soft/isa-ops.h"

const char *isa_excluded(uint16_t row)
{
    static const struct {
        uint16_t op;
        const char *why;
    } rows[] = {
        {SOFT_OP_SYSCALL, "leaves the process"},
        {SOFT_OP_SYSENTER, "leaves the process"},
        {SOFT_OP_INT, "leaves the process"},
        {SOFT_OP_INT1, "is the harness' trap"},
        {SOFT_OP_INT3, "is the harness' trap"},
        {SOFT_OP_IRET, "loads CS and SS"},
        {SOFT_OP_RETF, "loads CS"},
        {SOFT_OP_CALLF, "loads CS"},
        {SOFT_OP_JMPF, "loads CS"},
        {SOFT_OP_RSM, "is for system management mode"},
        {SOFT_OP_POPF, "loads TF and AC"},
        {SOFT_OP_MOV_SEG, "loads segments, or reads the host's"},
        {SOFT_OP_LSS, "loads segments"},
        {SOFT_OP_LFS, "loads segments"},
        {SOFT_OP_LGS, "loads segments"},
        {SOFT_OP_RDFSBASE, "reads the host's FS base"},
        {SOFT_OP_RDGSBASE, "reads the host's GS base"},
        {SOFT_OP_WRFSBASE, "takes FS from the harness"},
        {SOFT_OP_WRGSBASE, "changes a segment base"},
        {SOFT_OP_CPUID, "differs by policy"},
        {SOFT_OP_RDTSC, "never gives the same twice"},
        {SOFT_OP_RDTSCP, "never gives the same twice"},
        {SOFT_OP_RDPMC, "never gives the same twice"},
        {SOFT_OP_RDPID, "reads the host's"},
        {SOFT_OP_RDRAND, "never gives the same twice"},
        {SOFT_OP_RDSEED, "never gives the same twice"},
        {SOFT_OP_XGETBV, "reads the host's XCR0"},
        {SOFT_OP_SGDT, "reads the host's"},
        {SOFT_OP_SIDT, "reads the host's"},
        {SOFT_OP_SLDT, "reads the host's"},
        {SOFT_OP_STR, "reads the host's"},
        {SOFT_OP_SMSW, "reads the host's"},
        {SOFT_OP_LAR, "reads the host's descriptors"},
        {SOFT_OP_LSL, "reads the host's descriptors"},
        {SOFT_OP_VERR, "reads the host's descriptors"},
        {SOFT_OP_VERW, "reads the host's descriptors"},
        {SOFT_OP_VMCALL, "calls the hypervisor beneath"},
        {SOFT_OP_VMMCALL, "calls the hypervisor beneath"},
        {SOFT_OP_FXSAVE, "is about state as a whole"},
        {SOFT_OP_FXRSTOR, "is about state as a whole"},
        {SOFT_OP_XSAVE, "is about state as a whole"},
        {SOFT_OP_XSAVEC, "is about state as a whole"},
        {SOFT_OP_XSAVEOPT, "is about state as a whole"},
        {SOFT_OP_XRSTOR, "is about state as a whole"},
        {SOFT_OP_FLDENV, "may unmask exceptions"},
        {SOFT_OP_FRSTOR, "may unmask exceptions"},
        {SOFT_OP_FLDCW, "may unmask exceptions"},
        {SOFT_OP_FNSTENV, "stores the last instruction's address"},
        {SOFT_OP_FNSAVE, "stores the last instruction's address"},
        {SOFT_OP_LDMXCSR, "may unmask exceptions"},
        {SOFT_OP_VLDMXCSR, "may unmask exceptions"},
        {SOFT_OP_CLI, "is the I/O privilege level's"},
        {SOFT_OP_STI, "is the I/O privilege level's"},
    };
    const struct soft_encoding *encoding = &soft_encodings[row];
    const struct soft_isa_row *isa = soft_isa_row(row);

    if (isa->flags & SOFT_ISA_PRIVILEGED)
        return "is for CPL 0";
    if (isa->flags & SOFT_ISA_IO)
        return "reaches ports";
    if (isa->feature == HV_FEATURE_NEVER || isa->feature == HV_FEATURE_VMX ||
        isa->feature == HV_FEATURE_SMX || isa->feature == HV_FEATURE_3DNOW)
        return "is hidden";
    if ((encoding->mask & SOFT_KEY_MODE64) && !(encoding->value & SOFT_KEY_MODE64))
        return "is not in 64-bit mode";
    if (isa->op == SOFT_OP_POP && (isa->flags & SOFT_ISA_SYSTEM))
        return "loads segments";
    for (size_t i = 0; i < HV_ARRAY_LEN(rows); i++) {
        if (isa->op == rows[i].op)
            return rows[i].why;
    }
    return NULL;
}

bool isa_case_hot(uint16_t row)
{
    const unsigned others = SOFT_ISA_PRIVILEGED | SOFT_ISA_STRING | SOFT_ISA_SYSTEM | SOFT_ISA_IO |
                            SOFT_ISA_X87 | SOFT_ISA_MMX | SOFT_ISA_SSE | SOFT_ISA_AVX;
    const struct soft_isa_row *isa = soft_isa_row(row);

    switch (isa->op) {
    case SOFT_OP_DIV:
    case SOFT_OP_IDIV:
    case SOFT_OP_UD0:
    case SOFT_OP_UD1:
    case SOFT_OP_UD2:
        return false;
    default:
        return isa->feature == HV_FEATURE_BASE && !(isa->flags & others) && !isa_excluded(row);
    }
}

unsigned isa_fault_freedom(const struct soft_insn *insn)
{
    unsigned mmx = soft_isa_row(insn->row)->flags & SOFT_ISA_MMX ? ISA_FREEDOM_X87 : 0;

    switch (insn->op) {
    case SOFT_OP_MASKMOVQ:
    case SOFT_OP_MASKMOVDQU:
    case SOFT_OP_VMASKMOVDQU:
        return ISA_FREEDOM_ADDRESS | ISA_FREEDOM_FAULT | mmx;
    case SOFT_OP_VMASKMOVPS:
    case SOFT_OP_VMASKMOVPD:
    case SOFT_OP_VPMASKMOVD:
    case SOFT_OP_VPMASKMOVQ:
        return ISA_FREEDOM_ADDRESS | mmx;
    case SOFT_OP_VCVTPS2PH:
        return ISA_FREEDOM_MXCSR;
    case SOFT_OP_FSTP: /* of 80 bits: two stores */
    case SOFT_OP_FBSTP:
        return ISA_FREEDOM_MEMORY;
    default:
        return mmx;
    }
}

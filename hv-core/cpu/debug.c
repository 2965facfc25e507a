/* SPDX-License-Identifier: GPL-3.0-or-later */
/* MOV to and from the debug registers. Source: SDM 3B 17.2; SDM 2 (MOV—Debug Registers). */
#include "cpu/control.h"

#include "cpu/fault.h"

/* Checks of both directions; *number becomes 0 to 3, 6 or 7. */
static int reach(struct hv_cpu *cpu, unsigned *number, struct hv_fault *fault_out)
{
    if (*number > 7) {
        return hv_fault_plain(fault_out, HV_VECTOR_UD);
    }
    if (*number == 4 || *number == 5) {
        if (cpu->cr4 & HV_CR4_DE) {
            return hv_fault_plain(fault_out, HV_VECTOR_UD);
        }
        *number += 2;
    }
    if (cpu->cpl != 0) {
        return hv_fault_gp0(fault_out);
    }
    if (cpu->dr[7] & HV_DR7_GD) {
        /* The one fault of cpu/ that leaves a mark: DR6.BD says which #DB it is. GD itself is
         * cleared by the delivery. */
        cpu->dr[6] |= HV_DR6_BD;
        return hv_fault_plain(fault_out, HV_VECTOR_DB);
    }
    return 0;
}

int hv_control_read_dr(struct hv_cpu *cpu, unsigned number, uint64_t *value_out,
                       struct hv_fault *fault_out)
{
    int result = reach(cpu, &number, fault_out);

    if (!result) {
        *value_out = cpu->dr[number];
    }
    return result;
}

int hv_control_write_dr(struct hv_cpu *cpu, unsigned number, uint64_t value,
                        struct hv_fault *fault_out)
{
    int result = reach(cpu, &number, fault_out);

    if (result) {
        return result;
    }
    if (number >= 6 && value >> 32) {
        return hv_fault_gp0(fault_out);
    }
    if (number == 6) {
        value = (value & HV_DR6_WRITABLE) | HV_DR6_FIXED;
    } else if (number == 7) {
        value = (value & HV_DR7_WRITABLE) | HV_DR7_FIXED;
    }
    cpu->dr[number] = value;
    return 0;
}

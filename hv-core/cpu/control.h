/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Control registers, debug registers, MSRs and XCR0: writes with their checks and side effects on
 * mode and TLB. Results as in segment.h; #GP(0) unless said otherwise.
 * Source: SDM 3A 2.5, 4.10.4 (which writes flush what), 9.9 (mode switches); SDM 4 (MSRs).
 */
#pragma once

#include "cpu/access.h"

/** MOV from and to a control register. @number is 0, 2, 3, 4 or 8; #UD for others. CPL 0. */
HV_MUST_CHECK int hv_control_read_cr(struct hv_cpu *cpu, unsigned number, uint64_t *value_out,
                                     struct hv_fault *fault_out);
HV_MUST_CHECK int hv_control_write_cr(struct hv_cpu *cpu, const struct hv_access *access,
                                      unsigned number, uint64_t value, struct hv_fault *fault_out);
/** LMSW: the low four bits of CR0; PE can be set, not cleared. */
HV_MUST_CHECK int hv_control_lmsw(struct hv_cpu *cpu, const struct hv_access *access,
                                  uint16_t value, struct hv_fault *fault_out);
/**
 * MOV from and to a debug register. @number is 0 to 7, with 4 and 5 as 6 and 7 (CR4.DE: #UD).
 * DR7.GD: #DB, and DR6.BD is set although it faults. CPL 0.
 */
HV_MUST_CHECK int hv_control_read_dr(struct hv_cpu *cpu, unsigned number, uint64_t *value_out,
                                     struct hv_fault *fault_out);
HV_MUST_CHECK int hv_control_write_dr(struct hv_cpu *cpu, unsigned number, uint64_t value,
                                      struct hv_fault *fault_out);
/** True when the register @index of struct hv_cpu_msrs can hold @value. */
bool hv_control_msr_possible(uint32_t index, uint64_t value);
/** CR4 bits that a guest under @policy can set. */
uint64_t hv_control_cr4_mask(const struct hv_cpu_policy *policy);
/** True for a value that it can give XCR0. */
bool hv_control_xcr0_possible(const struct hv_cpu_policy *policy, uint64_t value);
/** XSETBV. @index 0 only. #UD without CR4.OSXSAVE. */
HV_MUST_CHECK int hv_control_xsetbv(struct hv_cpu *cpu, uint32_t index, uint64_t value,
                                    struct hv_fault *fault_out);
/** RDMSR and WRMSR. #GP(0) for registers that do not exist, too. CPL 0. */
HV_MUST_CHECK int hv_control_read_msr(struct hv_cpu *cpu, uint32_t index, uint64_t *value_out,
                                      struct hv_fault *fault_out);
HV_MUST_CHECK int hv_control_write_msr(struct hv_cpu *cpu, const struct hv_access *access,
                                       uint32_t index, uint64_t value, struct hv_fault *fault_out);
/** INVPCID. @type 0 to 3; @descriptor is the 16 bytes of its memory operand. */
HV_MUST_CHECK int hv_control_invpcid(struct hv_cpu *cpu, const struct hv_access *access,
                                     uint64_t type, const uint64_t descriptor[2],
                                     struct hv_fault *fault_out);
/** May [port, port + bytes) be reached? By IOPL, else by the bitmap in the TSS; else #GP(0). */
HV_MUST_CHECK int hv_control_io_allowed(struct hv_cpu *cpu, const struct hv_access *access,
                                        uint16_t port, unsigned bytes, struct hv_fault *fault_out);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Control registers, debug registers, MSRs and XCR0: writes with their checks and side effects on
 * mode and TLB. Results as in segment.h; #GP(0) unless said otherwise.
 * Source: SDM 3A 2.5, 4.10.4 (which writes flush what), 9.9 (mode switches); SDM 4 (MSRs).
 */
#pragma once

#include "cpu/access.h"

HV_MUST_CHECK int hv_control_read_cr(struct hv_cpu *cpu, unsigned number, uint64_t *value_out,
                                     struct hv_fault *fault_out);
HV_MUST_CHECK int hv_control_write_cr(struct hv_cpu *cpu, const struct hv_access *access,
                                      unsigned number, uint64_t value, struct hv_fault *fault_out);
/** LMSW: the low four bits of CR0; PE can be set, not cleared. */
HV_MUST_CHECK int hv_control_lmsw(struct hv_cpu *cpu, const struct hv_access *access,
                                  uint16_t value, struct hv_fault *fault_out);
HV_MUST_CHECK int hv_control_read_dr(struct hv_cpu *cpu, unsigned number, uint64_t *value_out,
                                     struct hv_fault *fault_out);
HV_MUST_CHECK int hv_control_write_dr(struct hv_cpu *cpu, unsigned number, uint64_t value,
                                      struct hv_fault *fault_out);
HV_MUST_CHECK int hv_control_xsetbv(struct hv_cpu *cpu, uint32_t index, uint64_t value,
                                    struct hv_fault *fault_out);
HV_MUST_CHECK int hv_control_read_msr(struct hv_cpu *cpu, uint32_t index, uint64_t *value_out,
                                      struct hv_fault *fault_out);
HV_MUST_CHECK int hv_control_write_msr(struct hv_cpu *cpu, const struct hv_access *access,
                                       uint32_t index, uint64_t value, struct hv_fault *fault_out);
/** INVPCID. @type 0 to 3; @descriptor is the 16 bytes of its memory operand. */
HV_MUST_CHECK int hv_control_invpcid(struct hv_cpu *cpu, const struct hv_access *access,
                                     uint64_t type, const uint64_t descriptor[2],
                                     struct hv_fault *fault_out);
/** True when the I/O permission of [port, port + bytes) lets CPL > IOPL through (TSS bitmap). */
HV_MUST_CHECK int hv_control_io_allowed(struct hv_cpu *cpu, const struct hv_access *access,
                                        uint16_t port, unsigned bytes, struct hv_fault *fault_out);

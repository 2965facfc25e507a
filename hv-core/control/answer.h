/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the functions of hv/ give, as it stands in answers and events (hv/op.h). */
#pragma once

#include <hv/op.h>

void hv_answer_made(const struct hv_domain *domain, struct hv_op_made *made_out);
void hv_answer_status(struct hv_domain *domain, struct hv_op_status *status_out);
/** As hv_domain_get_crash(). */
HV_MUST_CHECK int hv_answer_crash(struct hv_domain *domain, struct hv_op_crash *crash_out);
void hv_answer_teardown(struct hv_domain *domain, struct hv_op_teardown *teardown_out);
void hv_answer_holds(struct hv_domain *domain, struct hv_op_holds *holds_out);

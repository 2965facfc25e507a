/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the grid (vpt.c) and the policies (vpt-policy.c) of virtual timers share. Device lock held. */
#pragma once

#include "platform/vpt.h"

/** Arm it for its next look; it runs. */
void vpt_arm(struct hv_vpt *vpt, hv_ns due);
/** Points of the grid that have passed at @now; periodic timers. */
uint64_t vpt_passed(const struct hv_vpt *vpt, hv_ns now);
/** When point number @point of the grid is due. */
hv_ns vpt_point(const struct hv_vpt *vpt, uint64_t point);

/** Its life ends: what is pending and not issued is given up. */
void vpt_forget(struct hv_vpt *vpt);
/** The issued tick is not awaited any more. */
void vpt_disown(struct hv_vpt *vpt);
void vpt_set_policy(struct hv_vpt *vpt, struct hv_vpt_policy policy);

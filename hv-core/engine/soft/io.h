/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Port permission, for IN and OUT and their string forms. */
#pragma once

#include "engine/soft/uop.h"

/** 0 when this privilege may reach [port, port + bytes); HV_FAULTED; a negative errno. */
HV_MUST_CHECK int soft_io_check(struct hv_engine_vcpu *vcpu, uint16_t port, unsigned bytes);

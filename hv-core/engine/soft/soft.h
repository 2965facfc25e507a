/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The software engine, for the list of engines. */
#pragma once

#include "engine/ops.h"

extern const struct hv_engine_ops hv_engine_soft;

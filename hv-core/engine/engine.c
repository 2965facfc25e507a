/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The engines built in, and the wrappers through which alone they are called. */
#include "engine/ops.h"

#include "engine/soft/soft.h"

#include "base/format.h"
#include "sync/doorbell.h"
#include "sync/lock.h"

#include <string.h>

const struct hv_engine_ops *const hv_engines[] = {
    &hv_engine_soft,
    NULL,
};

static const struct hv_engine_ops *find_auto(char *why, size_t size)
{
    for (unsigned i = 0; hv_engines[i]; i++) {
        if (hv_engines[i]->probe(why, size)) {
            return hv_engines[i];
        }
    }
    return NULL;
}

const struct hv_engine_ops *hv_engine_find(const char *name, char *why, size_t size)
{
    if (strcmp(name, "auto") == 0) {
        return find_auto(why, size);
    }
    for (unsigned i = 0; hv_engines[i]; i++) {
        if (strcmp(name, hv_engines[i]->name) == 0) {
            return hv_engines[i]->probe(why, size) ? hv_engines[i] : NULL;
        }
    }
    (void)hv_format(why, size, "There is no engine \"%s\".", name);
    return NULL;
}

void hv_engine_run(const struct hv_engine_ops *ops, struct hv_engine_vcpu *vcpu, hv_ns deadline,
                   uint64_t insn_budget, struct hv_exit *exit_out)
{
    hv_lock_check_none("running a vCPU");
    *exit_out = (struct hv_exit){.kind = HV_EXIT_PREEMPT};
    ops->run(vcpu, deadline, insn_budget, exit_out);
}

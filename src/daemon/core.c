/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A counted core. */
#include "daemon/core.h"

#include "common/i18n.h"
#include "common/lodge-error.h"

#include <hv/domain.h>

struct _LodgeCore {
    gatomicrefcount references;
    struct hv_core *core;
};

LodgeCore *lodge_core_new(guint64 memory_bytes, GError **error)
{
    const struct hv_core_config config = {
        .policy = HV_SCHED_POLICY_CREDIT,
        .memory_bytes = (memory_bytes + HV_EXTENT_SIZE - 1) & ~(HV_EXTENT_SIZE - 1),
    };
    g_autofree LodgeCore *core = g_new0(LodgeCore, 1);
    int rc = hv_core_create(&config, &core->core);

    if (rc < 0) {
        lodge_error_set_errno(error, rc, _("Cannot start the hypervisor core"));
        return NULL;
    }
    g_atomic_ref_count_init(&core->references);
    return g_steal_pointer(&core);
}

LodgeCore *lodge_core_ref(LodgeCore *core)
{
    g_atomic_ref_count_inc(&core->references);
    return core;
}

void lodge_core_unref(LodgeCore *core)
{
    if (core && g_atomic_ref_count_dec(&core->references)) {
        hv_core_destroy(core->core);
        g_free(core);
    }
}

struct hv_core *lodge_core_get(LodgeCore *core)
{
    return core->core;
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Who may touch a domain: handles and references keep the object, being inside keeps what it is
 * made of. */
#include "domain/domain.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "domain/core.h"
#include "sync/race.h"

hv_handle hv_domain_handle(const struct hv_domain *domain)
{
    return domain->handle;
}

const char *hv_domain_name(const struct hv_domain *domain)
{
    return domain->name;
}

int hv_domain_get(struct hv_core *core, hv_handle handle, struct hv_domain **domain_out)
{
    int rc = hv_directory_get(&core->directory, handle, domain_out);

    HV_RACE("domain.get.held");
    /* Somebody else holds it still, but it is no domain any more. */
    if (rc == 0 && hv_load_seq(&(*domain_out)->state) == HV_DOMAIN_STATE_GONE) {
        hv_domain_put(*domain_out);
        *domain_out = NULL;
        rc = -ENOENT;
    }
    return rc;
}

size_t hv_core_list(const struct hv_core *core, hv_handle *handles, size_t max)
{
    return hv_directory_list(&core->directory, handles, max);
}

void hv_domain_put(struct hv_domain *domain)
{
    if (domain && hv_directory_put(&domain->core->directory, domain->handle)) {
        HV_ASSERT(hv_load_seq(&domain->state) == HV_DOMAIN_STATE_GONE);
        hv_reaper_bury(domain->core->reaper, domain);
    }
}

void hv_domain_free(struct hv_domain *domain)
{
    struct hv_directory *directory = &domain->core->directory;
    hv_handle handle = domain->handle;

    hv_group_finish(&domain->group);
    hv_lock_finish(&domain->lifecycle);
    hv_ending_finish(&domain->ending);
    hv_lock_owner_finish(&domain->locks);
    hv_free(domain);
    if (handle.v != HV_HANDLE_NONE.v) {
        hv_directory_release(directory, handle);
    }
}

static bool dying(const struct hv_domain *domain)
{
    return hv_load_seq(&domain->state) >= HV_DOMAIN_STATE_DYING;
}

int hv_domain_enter(struct hv_domain *domain)
{
    /* Not counted at all, most of the dead's askers give their reaper nothing to look at. */
    if (dying(domain)) {
        return -ECANCELED;
    }
    hv_add_seq(&domain->users, 1);
    HV_RACE("domain.enter.counted");
    /* Pairs with the teardown's first phase: the state is changed, then it looks at the count. */
    if (dying(domain)) {
        hv_domain_leave(domain);
        return -ECANCELED;
    }
    return 0;
}

void hv_domain_leave(struct hv_domain *domain)
{
    if (hv_sub_seq(&domain->users, 1) == 1) {
        hv_domain_wake_reaper(domain);
    }
}

void hv_domain_wake_reaper(struct hv_domain *domain)
{
    if (dying(domain)) {
        hv_reaper_wake(domain->core->reaper, domain);
    }
}

int hv_domain_act(struct hv_domain *domain, int (*act)(struct hv_domain *domain, void *context),
                  void *context)
{
    int rc = hv_domain_enter(domain);

    if (rc < 0) {
        return rc;
    }
    hv_lock_take(&domain->lifecycle);
    rc = act(domain, context);
    hv_lock_drop(&domain->lifecycle);
    hv_domain_leave(domain);
    return rc;
}

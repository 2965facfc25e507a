/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Which machines there are, and finding one. */
#include "daemon/call.h"

#include <libvirt/libvirt.h>

#define ACTIVE     (VIR_CONNECT_LIST_DOMAINS_ACTIVE | VIR_CONNECT_LIST_DOMAINS_INACTIVE)
#define PERSISTENT (VIR_CONNECT_LIST_DOMAINS_PERSISTENT | VIR_CONNECT_LIST_DOMAINS_TRANSIENT)
#define STATE                                                             \
    (VIR_CONNECT_LIST_DOMAINS_RUNNING | VIR_CONNECT_LIST_DOMAINS_PAUSED | \
     VIR_CONNECT_LIST_DOMAINS_SHUTOFF | VIR_CONNECT_LIST_DOMAINS_OTHER)
#define SAVED     (VIR_CONNECT_LIST_DOMAINS_MANAGEDSAVE | VIR_CONNECT_LIST_DOMAINS_NO_MANAGEDSAVE)
#define AUTOSTART (VIR_CONNECT_LIST_DOMAINS_AUTOSTART | VIR_CONNECT_LIST_DOMAINS_NO_AUTOSTART)
#define SNAPSHOT  (VIR_CONNECT_LIST_DOMAINS_HAS_SNAPSHOT | VIR_CONNECT_LIST_DOMAINS_NO_SNAPSHOT)
#define CHECKPOINT \
    (VIR_CONNECT_LIST_DOMAINS_HAS_CHECKPOINT | VIR_CONNECT_LIST_DOMAINS_NO_CHECKPOINT)

#define FILTERS (ACTIVE | PERSISTENT | STATE | SAVED | AUTOSTART | SNAPSHOT | CHECKPOINT)

/* What a machine is, as libvirt's filters name it: one bit of each group. */
static guint traits_of(const LodgeMachineView *view)
{
    guint traits = VIR_CONNECT_LIST_DOMAINS_NO_MANAGEDSAVE | VIR_CONNECT_LIST_DOMAINS_NO_SNAPSHOT |
                   VIR_CONNECT_LIST_DOMAINS_NO_CHECKPOINT;

    traits |=
        view->dom.id >= 0 ? VIR_CONNECT_LIST_DOMAINS_ACTIVE : VIR_CONNECT_LIST_DOMAINS_INACTIVE;
    traits |=
        view->persistent ? VIR_CONNECT_LIST_DOMAINS_PERSISTENT : VIR_CONNECT_LIST_DOMAINS_TRANSIENT;
    traits |= view->autostart ? VIR_CONNECT_LIST_DOMAINS_AUTOSTART
                              : VIR_CONNECT_LIST_DOMAINS_NO_AUTOSTART;
    if (view->state == VIR_DOMAIN_RUNNING) {
        traits |= VIR_CONNECT_LIST_DOMAINS_RUNNING;
    } else if (view->state == VIR_DOMAIN_PAUSED) {
        traits |= VIR_CONNECT_LIST_DOMAINS_PAUSED;
    } else if (view->state == VIR_DOMAIN_SHUTOFF) {
        traits |= VIR_CONNECT_LIST_DOMAINS_SHUTOFF;
    } else {
        traits |= VIR_CONNECT_LIST_DOMAINS_OTHER;
    }
    return traits;
}

/* Of each group that is asked for, one bit must be right. */
gboolean lodge_call_passes(const LodgeMachineView *view, guint filter)
{
    static const guint groups[] = {ACTIVE,    PERSISTENT, STATE,     SAVED,
                                   AUTOSTART, SNAPSHOT,   CHECKPOINT};
    guint traits = traits_of(view);

    for (gsize i = 0; i < G_N_ELEMENTS(groups); i++) {
        if ((filter & groups[i]) && !(filter & groups[i] & traits)) {
            return FALSE;
        }
    }
    return TRUE;
}

/* Views of those that pass, to be cleared with the array. */
static GArray *list(LodgeCall *call, guint filter)
{
    g_autoptr(GPtrArray) machines = lodge_machines_list(call->daemon->machines);
    GArray *views = g_array_new(FALSE, FALSE, sizeof(LodgeMachineView));

    g_array_set_clear_func(views, (GDestroyNotify)lodge_machine_view_clear);
    for (guint i = 0; i < machines->len; i++) {
        g_auto(LodgeMachineView) view = {0};

        lodge_machine_view(machines->pdata[i], &view);
        if (lodge_call_passes(&view, filter)) {
            g_array_append_val(views, view);
            view.dom.name = NULL;
        }
    }
    return views;
}

static gboolean list_all(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_list_all_args *asked = args;
    lv_list_all_domains_ret *answer = ret;
    g_autoptr(GArray) views = NULL;

    if (!lodge_call_check_flags(asked->flags, FILTERS, error)) {
        return FALSE;
    }
    views = list(call, asked->flags);
    answer->count = views->len;
    if (asked->need_results) {
        answer->domains.domains_val = g_new0(lv_domain, views->len);
        answer->domains.domains_len = views->len;
        for (guint i = 0; i < views->len; i++) {
            LodgeMachineView *view = &g_array_index(views, LodgeMachineView, i);

            answer->domains.domains_val[i] = view->dom;
            view->dom.name = NULL;
        }
    }
    return TRUE;
}

static gboolean num_of_domains(LodgeCall *call, void *args, void *ret, GError **error)
{
    g_autoptr(GArray) views = list(call, VIR_CONNECT_LIST_DOMAINS_ACTIVE);
    lv_int_ret *answer = ret;

    (void)args, (void)error;
    answer->value = (int)views->len;
    return TRUE;
}

static gboolean num_of_defined(LodgeCall *call, void *args, void *ret, GError **error)
{
    g_autoptr(GArray) views = list(call, VIR_CONNECT_LIST_DOMAINS_INACTIVE);
    lv_int_ret *answer = ret;

    (void)args, (void)error;
    answer->value = (int)views->len;
    return TRUE;
}

static gboolean list_ids(LodgeCall *call, void *args, void *ret, GError **error)
{
    g_autoptr(GArray) views = list(call, VIR_CONNECT_LIST_DOMAINS_ACTIVE);
    const lv_int_args *asked = args;
    lv_ids_ret *answer = ret;

    (void)error;
    answer->ids.ids_len = MIN(views->len, (guint)CLAMP(asked->value, 0, LV_DOMAINS_MAX));
    answer->ids.ids_val = g_new0(int, answer->ids.ids_len);
    for (guint i = 0; i < answer->ids.ids_len; i++) {
        answer->ids.ids_val[i] = g_array_index(views, LodgeMachineView, i).dom.id;
    }
    return TRUE;
}

static gboolean list_defined(LodgeCall *call, void *args, void *ret, GError **error)
{
    g_autoptr(GArray) views = list(call, VIR_CONNECT_LIST_DOMAINS_INACTIVE);
    const lv_int_args *asked = args;
    lv_names_ret *answer = ret;

    (void)error;
    answer->names.names_len = MIN(views->len, (guint)CLAMP(asked->value, 0, LV_NAMES_MAX));
    answer->names.names_val = g_new0(lv_string, answer->names.names_len);
    for (guint i = 0; i < answer->names.names_len; i++) {
        answer->names.names_val[i] = g_strdup(g_array_index(views, LodgeMachineView, i).dom.name);
    }
    return TRUE;
}

static gboolean answer_found(LodgeMachine *found, lv_domain_ret *answer)
{
    g_autoptr(LodgeMachine) machine = found;

    if (machine) {
        lodge_machine_handle(machine, &answer->dom);
    }
    return machine != NULL;
}

static gboolean lookup_by_name(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_string_args *asked = args;

    return answer_found(lodge_machines_find_name(call->daemon->machines, asked->text, error), ret);
}

static gboolean lookup_by_uuid(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_uuid_args *asked = args;

    return answer_found(lodge_machines_find_uuid(call->daemon->machines, asked->uuid, error), ret);
}

static gboolean lookup_by_id(LodgeCall *call, void *args, void *ret, GError **error)
{
    const lv_int_args *asked = args;

    return answer_found(lodge_machines_find_id(call->daemon->machines, asked->value, error), ret);
}

static const LodgeCallEntry entries[] = {
    {LV_CONNECT_LIST_ALL_DOMAINS, LODGE_CALL_READS, list_all, FALSE},
    {LV_CONNECT_NUM_OF_DOMAINS, LODGE_CALL_READS, num_of_domains, FALSE},
    {LV_CONNECT_NUM_OF_DEFINED_DOMAINS, LODGE_CALL_READS, num_of_defined, FALSE},
    {LV_CONNECT_LIST_DOMAINS, LODGE_CALL_READS, list_ids, FALSE},
    {LV_CONNECT_LIST_DEFINED_DOMAINS, LODGE_CALL_READS, list_defined, FALSE},
    {LV_DOMAIN_LOOKUP_BY_NAME, LODGE_CALL_READS, lookup_by_name, FALSE},
    {LV_DOMAIN_LOOKUP_BY_UUID, LODGE_CALL_READS, lookup_by_uuid, FALSE},
    {LV_DOMAIN_LOOKUP_BY_ID, LODGE_CALL_READS, lookup_by_id, FALSE},
};

const LodgeCallFamily lodge_calls_list = {LV_REMOTE, entries, G_N_ELEMENTS(entries)};

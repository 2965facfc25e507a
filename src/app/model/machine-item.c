/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Properties that change only when what they say does, and a ring of CPU shares. */
#include "app/model/machine-item.h"

#include "common/i18n.h"
#include "common/units.h"

#include <string.h>

struct _LodgeMachineItem {
    GObject parent_instance;
    GWeakRef connection;
    virDomainPtr domain; /* owned */
    char *name, *uuid, *facts;
    int state;
    guint vcpus;
    guint64 memory_bytes;
    gdouble cpu;
    gboolean hidden;
    /* Of the last look; 0: none to compare with. */
    guint64 cpu_ns;
    gint64 moment_us;
    gfloat samples[LODGE_MACHINE_SAMPLES];
    guint next, count;
};

enum {
    PROP_0,
    PROP_NAME,
    PROP_UUID,
    PROP_STATE,
    PROP_ACTIVE,
    PROP_VCPUS,
    PROP_MEMORY,
    PROP_CPU,
    PROP_FACTS,
    PROP_HIDDEN,
    N_PROPS,
};

static GParamSpec *properties[N_PROPS];
static guint sampled_signal;

G_DEFINE_FINAL_TYPE(LodgeMachineItem, lodge_machine_item, G_TYPE_OBJECT)

static void get_property(GObject *object, guint id, GValue *value, GParamSpec *spec)
{
    LodgeMachineItem *item = LODGE_MACHINE_ITEM(object);

    switch (id) {
    case PROP_NAME:
        g_value_set_string(value, item->name);
        break;
    case PROP_UUID:
        g_value_set_string(value, item->uuid);
        break;
    case PROP_STATE:
        g_value_set_int(value, item->state);
        break;
    case PROP_ACTIVE:
        g_value_set_boolean(value, lodge_machine_is_active(item->state));
        break;
    case PROP_VCPUS:
        g_value_set_uint(value, item->vcpus);
        break;
    case PROP_MEMORY:
        g_value_set_uint64(value, item->memory_bytes);
        break;
    case PROP_CPU:
        g_value_set_double(value, item->cpu);
        break;
    case PROP_FACTS:
        g_value_set_string(value, item->facts);
        break;
    case PROP_HIDDEN:
        g_value_set_boolean(value, item->hidden);
        break;
    default:
        G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, spec);
    }
}

static void finalize(GObject *object)
{
    LodgeMachineItem *item = LODGE_MACHINE_ITEM(object);

    g_weak_ref_clear(&item->connection);
    g_clear_pointer(&item->domain, virDomainFree);
    g_free(item->name);
    g_free(item->uuid);
    g_free(item->facts);
    G_OBJECT_CLASS(lodge_machine_item_parent_class)->finalize(object);
}

static void lodge_machine_item_class_init(LodgeMachineItemClass *class)
{
    GObjectClass *object_class = G_OBJECT_CLASS(class);
    const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS;

    object_class->get_property = get_property;
    object_class->finalize = finalize;
    properties[PROP_NAME] = g_param_spec_string("name", NULL, NULL, NULL, flags);
    properties[PROP_UUID] = g_param_spec_string("uuid", NULL, NULL, NULL, flags);
    properties[PROP_STATE] =
        g_param_spec_int("state", NULL, NULL, 0, LODGE_MACHINE_STATES, VIR_DOMAIN_NOSTATE, flags);
    properties[PROP_ACTIVE] = g_param_spec_boolean("active", NULL, NULL, FALSE, flags);
    properties[PROP_VCPUS] = g_param_spec_uint("vcpus", NULL, NULL, 0, G_MAXUINT, 0, flags);
    properties[PROP_MEMORY] = g_param_spec_uint64("memory", NULL, NULL, 0, G_MAXUINT64, 0, flags);
    properties[PROP_CPU] = g_param_spec_double("cpu", NULL, NULL, 0, 1, 0, flags);
    properties[PROP_FACTS] = g_param_spec_string("facts", NULL, NULL, NULL, flags);
    properties[PROP_HIDDEN] = g_param_spec_boolean("hidden", NULL, NULL, FALSE, flags);
    g_object_class_install_properties(object_class, N_PROPS, properties);
    sampled_signal = g_signal_new("sampled", LODGE_TYPE_MACHINE_ITEM, G_SIGNAL_RUN_LAST, 0, NULL,
                                  NULL, NULL, G_TYPE_NONE, 0);
}

static void lodge_machine_item_init(LodgeMachineItem *item)
{
    g_weak_ref_init(&item->connection, NULL);
}

static void notify(LodgeMachineItem *item, guint property)
{
    g_object_notify_by_pspec(G_OBJECT(item), properties[property]);
}

/* "2 vCPUs, 512 MiB", or what there is to say instead. */
static void set_facts(LodgeMachineItem *item)
{
    g_autofree char *memory = lodge_format_rough_bytes(item->memory_bytes);
    g_autofree char *facts = g_strdup_printf(
        g_dngettext(NULL, "%s · %u vCPU · %s", "%s · %u vCPUs · %s", item->vcpus),
        item->state == VIR_DOMAIN_NOSTATE ? _("unknown") : lodge_machine_state_name(item->state),
        item->vcpus, memory);

    if (g_strcmp0(facts, item->facts) != 0) {
        g_free(item->facts);
        item->facts = g_steal_pointer(&facts);
        notify(item, PROP_FACTS);
    }
}

static void set_state(LodgeMachineItem *item, int state)
{
    gboolean active = lodge_machine_is_active(item->state);

    if (item->state == state) {
        return;
    }
    item->state = state;
    notify(item, PROP_STATE);
    if (active != lodge_machine_is_active(state)) {
        notify(item, PROP_ACTIVE);
    }
}

/* Time goes back when the machine was started anew. */
static gdouble share(const LodgeMachineItem *item, const LodgeMachineFacts *facts)
{
    gint64 passed_us = facts->moment_us - item->moment_us;

    if (item->moment_us == 0 || passed_us <= 0 || facts->cpu_ns < item->cpu_ns ||
        facts->vcpus == 0) {
        return 0;
    }
    return CLAMP(
        (gdouble)(facts->cpu_ns - item->cpu_ns) / 1000.0 / (gdouble)passed_us / facts->vcpus, 0, 1);
}

static void add_sample(LodgeMachineItem *item, const LodgeMachineFacts *facts)
{
    gdouble cpu = lodge_machine_is_active(facts->state) ? share(item, facts) : 0;

    item->samples[item->next] = (gfloat)cpu;
    item->next = (item->next + 1) % LODGE_MACHINE_SAMPLES;
    item->count = MIN(item->count + 1, LODGE_MACHINE_SAMPLES);
    item->cpu_ns = facts->cpu_ns;
    item->moment_us = facts->moment_us;
    if (item->cpu != cpu) {
        item->cpu = cpu;
        notify(item, PROP_CPU);
    }
}

void lodge_machine_item_update(LodgeMachineItem *item, const LodgeMachineFacts *facts)
{
    g_return_if_fail(LODGE_IS_MACHINE_ITEM(item));

    g_object_freeze_notify(G_OBJECT(item));
    /* The old one belongs to a connection that may have gone. */
    if (item->domain != facts->domain && virDomainRef(facts->domain) == 0) {
        g_clear_pointer(&item->domain, virDomainFree);
        item->domain = facts->domain;
    }
    if (g_strcmp0(item->name, facts->name) != 0) {
        g_free(item->name);
        item->name = g_strdup(facts->name);
        notify(item, PROP_NAME);
    }
    if (item->vcpus != facts->vcpus) {
        item->vcpus = facts->vcpus;
        notify(item, PROP_VCPUS);
    }
    if (item->memory_bytes != facts->memory_bytes) {
        item->memory_bytes = facts->memory_bytes;
        notify(item, PROP_MEMORY);
    }
    set_state(item, facts->state);
    set_facts(item);
    add_sample(item, facts);
    g_object_thaw_notify(G_OBJECT(item));
    g_signal_emit(item, sampled_signal, 0);
}

void lodge_machine_item_forget(LodgeMachineItem *item)
{
    g_return_if_fail(LODGE_IS_MACHINE_ITEM(item));

    g_object_freeze_notify(G_OBJECT(item));
    set_state(item, VIR_DOMAIN_NOSTATE);
    set_facts(item);
    item->moment_us = 0;
    /* Who frees the last machine of a connection closes it, and waits for the peer. */
    g_clear_pointer(&item->domain, virDomainFree);
    g_object_thaw_notify(G_OBJECT(item));
}

LodgeMachineItem *lodge_machine_item_new(GObject *connection, const LodgeMachineFacts *facts)
{
    LodgeMachineItem *item = g_object_new(LODGE_TYPE_MACHINE_ITEM, NULL);

    g_weak_ref_set(&item->connection, connection);
    item->uuid = g_strdup(facts->uuid);
    lodge_machine_item_update(item, facts);
    return item;
}

const char *lodge_machine_item_get_name(LodgeMachineItem *item)
{
    return item->name;
}

const char *lodge_machine_item_get_uuid(LodgeMachineItem *item)
{
    return item->uuid;
}

const char *lodge_machine_item_get_facts(LodgeMachineItem *item)
{
    return item->facts;
}

gpointer lodge_machine_item_get_connection(LodgeMachineItem *item)
{
    /* Alone the main thread lets go of connections: it does not end between here and the caller. */
    g_autoptr(GObject) connection = g_weak_ref_get(&item->connection);

    return connection;
}

int lodge_machine_item_get_state(LodgeMachineItem *item)
{
    return item->state;
}

guint lodge_machine_item_get_vcpus(LodgeMachineItem *item)
{
    return item->vcpus;
}

guint64 lodge_machine_item_get_memory(LodgeMachineItem *item)
{
    return item->memory_bytes;
}

gdouble lodge_machine_item_get_cpu(LodgeMachineItem *item)
{
    return item->cpu;
}

gboolean lodge_machine_item_get_hidden(LodgeMachineItem *item)
{
    return item->hidden;
}

void lodge_machine_item_set_hidden(LodgeMachineItem *item, gboolean hidden)
{
    if (item->hidden != hidden) {
        item->hidden = hidden;
        notify(item, PROP_HIDDEN);
    }
}

virDomainPtr lodge_machine_item_ref_domain(LodgeMachineItem *item)
{
    return item->domain && virDomainRef(item->domain) == 0 ? item->domain : NULL;
}

guint lodge_machine_item_get_samples(LodgeMachineItem *item, gfloat *samples)
{
    guint first = (item->next + LODGE_MACHINE_SAMPLES - item->count) % LODGE_MACHINE_SAMPLES;

    for (guint i = 0; i < item->count; i++) {
        samples[i] = item->samples[(first + i) % LODGE_MACHINE_SAMPLES];
    }
    return item->count;
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A list under a lock that is held over no wait: see roster.h. */
#include "control/roster.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/format.h"
#include "control/answer.h"
#include "domain/core.h"
#include "domain/domain.h"
#include "sync/race.h"

struct hv_roster_entry {
    struct hv_list link;
    /* Set before it is listed. */
    struct hv_domain *domain; /* held */
    hv_handle handle;
    struct hv_console_ring *console; /* owned; NULL: none */
    /* Guarded by the roster's lock. */
    bool kept;
    bool changing;    /* a change was noticed, and waits until */
    uint64_t barrier; /* the output before it, up to here, is sent */
    uint32_t told;    /* the domain's changes that were told */
};

void hv_roster_init(struct hv_roster *roster, struct hv_core *core)
{
    roster->core = core;
    hv_lock_init(&roster->lock, HV_RANK_CONTROL, "control.roster", 0);
    hv_list_init(&roster->entries);
}

/* Nobody writes to its console any more. */
static void free_entry(struct hv_roster_entry *entry)
{
    if (!entry) {
        return;
    }
    hv_domain_put(entry->domain);
    if (entry->console) {
        hv_console_ring_finish(entry->console);
        hv_free(entry->console);
    }
    hv_free(entry);
}

static struct hv_roster_entry *new_entry(struct hv_roster *roster, bool console)
{
    struct hv_roster_entry *entry = hv_alloc(1, sizeof(*entry));

    if (!entry || !console) {
        return entry;
    }
    entry->console = hv_alloc(1, sizeof(*entry->console));
    if (!entry->console) {
        hv_free(entry);
        return NULL;
    }
    hv_console_ring_init(entry->console, &roster->core->changes);
    hv_console_ring_attach(entry->console);
    return entry;
}

static void add_entry(struct hv_roster *roster, struct hv_roster_entry *entry,
                      struct hv_domain *domain)
{
    entry->domain = domain;
    entry->handle = hv_domain_handle(domain);
    hv_lock_take(&roster->lock);
    hv_list_push_tail(&roster->entries, &entry->link);
    hv_lock_drop(&roster->lock);
    /* Killed before it was listed, perhaps gone by now, it has changed unseen. */
    hv_eventcount_signal(&roster->core->changes);
}

int hv_roster_create(struct hv_roster *roster, const struct hv_op_create *create,
                     struct hv_op_made *made_out, char *why, size_t why_size)
{
    struct hv_domain_config config = {
        .name = create->name,
        .engine = create->engine,
        .memory_bytes = create->memory_bytes,
        .vcpus = create->vcpus,
        .flags = create->flags,
        .pv_hidden = create->pv_hidden,
        .sched = create->sched,
        .clock_policy = (enum hv_clock_policy)create->clock_policy,
        .rtc_track = (enum hv_rtc_track)create->rtc_track,
        .timers_absent = create->timers_absent,
    };
    struct hv_roster_entry *entry = new_entry(roster, create->console);
    struct hv_domain *domain;
    int rc;

    if (!entry) {
        hv_format(why, why_size, "the host has not enough memory");
        return -ENOMEM;
    }
    if (entry->console) {
        config.console = &hv_console_ring_ops;
        config.console_context = entry->console;
    }
    rc = hv_domain_create(roster->core, &config, &domain, why, why_size);
    if (rc < 0) {
        free_entry(entry);
        return rc;
    }
    HV_RACE("roster.create.made");
    hv_answer_made(domain, made_out);
    add_entry(roster, entry, domain);
    return 0;
}

static struct hv_roster_entry *find_locked(const struct hv_roster *roster, hv_handle handle)
{
    hv_lock_assert_held(&roster->lock);
    hv_list_for_each(node, &roster->entries) {
        struct hv_roster_entry *entry = hv_list_entry(node, struct hv_roster_entry, link);

        if (entry->handle.v == handle.v) {
            return entry;
        }
    }
    return NULL;
}

int hv_roster_keep(struct hv_roster *roster, hv_handle handle)
{
    struct hv_roster_entry *entry;

    hv_lock_take(&roster->lock);
    entry = find_locked(roster, handle);
    if (entry) {
        entry->kept = true;
    }
    hv_lock_drop(&roster->lock);
    return entry ? 0 : -ENOENT;
}

static int find_console_locked(const struct hv_roster *roster, hv_handle handle,
                               struct hv_roster_entry **entry_out)
{
    struct hv_roster_entry *entry = find_locked(roster, handle);

    *entry_out = entry;
    if (!entry) {
        return -ENOENT;
    }
    return entry->console ? 0 : -ENOTSUP;
}

int hv_roster_attach(struct hv_roster *roster, hv_handle handle, uint64_t *position_out)
{
    struct hv_roster_entry *entry;
    int rc;

    hv_lock_take(&roster->lock);
    rc = find_console_locked(roster, handle, &entry);
    *position_out = rc == 0 ? hv_console_ring_attach(entry->console) : 0;
    hv_lock_drop(&roster->lock);
    return rc;
}

/* No lock is held: it writes what waits, into the ring. */
static void tell_writable(struct hv_roster *roster, hv_handle handle)
{
    struct hv_domain *domain;

    if (hv_domain_get(roster->core, handle, &domain) == 0) {
        hv_domain_console_writable(domain);
        hv_domain_put(domain);
    }
}

int hv_roster_accept(struct hv_roster *roster, hv_handle handle, uint64_t position)
{
    struct hv_roster_entry *entry;
    bool writable = false;
    int rc;

    hv_lock_take(&roster->lock);
    rc = find_console_locked(roster, handle, &entry);
    if (rc == 0) {
        rc = hv_console_ring_accept(entry->console, position, &writable);
    }
    hv_lock_drop(&roster->lock);
    if (writable) {
        tell_writable(roster, handle);
    }
    return rc;
}

/* Detach one that waits for somebody to take its output. */
static bool detach_one(struct hv_roster *roster, hv_handle *handle_out)
{
    bool writable = false;

    hv_lock_take(&roster->lock);
    hv_list_for_each(node, &roster->entries) {
        struct hv_roster_entry *entry = hv_list_entry(node, struct hv_roster_entry, link);

        if (entry->console && hv_console_ring_detach(entry->console)) {
            *handle_out = entry->handle;
            writable = true;
            break;
        }
    }
    hv_lock_drop(&roster->lock);
    return writable;
}

static void kill_if(struct hv_roster *roster, bool kept_too)
{
    hv_lock_take(&roster->lock);
    hv_list_for_each(node, &roster->entries) {
        struct hv_roster_entry *entry = hv_list_entry(node, struct hv_roster_entry, link);

        if (kept_too || !entry->kept) {
            /* -ECANCELED: somebody has. */
            int rc = hv_domain_kill(entry->domain);

            (void)rc;
        }
    }
    hv_lock_drop(&roster->lock);
}

void hv_roster_end_lease(struct hv_roster *roster)
{
    hv_handle handle;

    kill_if(roster, false);
    while (detach_one(roster, &handle)) {
        tell_writable(roster, handle);
    }
}

void hv_roster_finish(struct hv_roster *roster)
{
    struct hv_list *node;

    kill_if(roster, true);
    while ((node = hv_list_pop_head(&roster->entries)) != NULL) {
        struct hv_roster_entry *entry = hv_list_entry(node, struct hv_roster_entry, link);

        /* Its vCPUs may be writing to its console still. */
        hv_domain_destroy(entry->domain);
        entry->domain = NULL;
        free_entry(entry);
    }
    hv_lock_finish(&roster->lock);
}

/* ---- looking ---- */

/* The lowest id above, or NULL. */
static struct hv_roster_entry *next_id_locked(const struct hv_roster *roster, unsigned after)
{
    struct hv_roster_entry *next = NULL;

    hv_list_for_each(node, &roster->entries) {
        struct hv_roster_entry *entry = hv_list_entry(node, struct hv_roster_entry, link);

        if (hv_handle_id(entry->handle) > after &&
            (!next || hv_handle_id(entry->handle) < hv_handle_id(next->handle))) {
            next = entry;
        }
    }
    return next;
}

void hv_roster_list(struct hv_roster *roster, hv_handle after, struct hv_op_listing *listing_out)
{
    struct hv_roster_entry *entry;
    unsigned id = hv_handle_id(after);

    memset(listing_out, 0, sizeof(*listing_out));
    hv_lock_take(&roster->lock);
    while (listing_out->count < HV_OP_LISTED_MAX && (entry = next_id_locked(roster, id)) != NULL) {
        struct hv_op_listed *listed = &listing_out->listed[listing_out->count++];

        listed->handle = entry->handle.v;
        listed->state = hv_load_seq(&entry->domain->state);
        listed->kept = entry->kept;
        memcpy(listed->name, entry->domain->name, sizeof(listed->name));
        id = hv_handle_id(entry->handle);
    }
    hv_lock_drop(&roster->lock);
}

size_t hv_roster_count(struct hv_roster *roster)
{
    size_t count = 0;

    hv_lock_take(&roster->lock);
    hv_list_for_each(node, &roster->entries) {
        count++;
    }
    hv_lock_drop(&roster->lock);
    return count;
}

/* ---- events ---- */

/* What it wrote before it changed is told before that: its last words, and then that it has ended. */
static bool output_comes_first_locked(struct hv_roster_entry *entry)
{
    if (!entry->console) {
        return false;
    }
    if (!entry->changing) {
        entry->changing = true;
        entry->barrier = hv_console_ring_written(entry->console);
    }
    return hv_console_ring_owes(entry->console, entry->barrier);
}

/* What does not run has no more to say, so all that it wrote can be waited for. It may have run when the
 * barrier was set: the last words are then behind that, and before what the status says of it. */
static bool last_words_come_first_locked(struct hv_roster_entry *entry,
                                         const struct hv_op_status *status)
{
    return entry->console && status->state != HV_DOMAIN_STATE_RUNNING &&
           hv_console_ring_owes(entry->console, hv_console_ring_written(entry->console));
}

static bool take_state_locked(struct hv_roster_entry *entry, struct hv_op_state *event)
{
    /* In this order: a change after the look at the count is told by the next look. */
    uint32_t changes = hv_load_seq(&entry->domain->changes);

    if (changes == entry->told || output_comes_first_locked(entry)) {
        return false;
    }
    HV_RACE("roster.state.output-told");
    hv_answer_status(entry->domain, &event->status);
    if (last_words_come_first_locked(entry, &event->status)) {
        return false;
    }
    entry->told = changes;
    entry->changing = false;
    event->handle = entry->handle.v;
    return true;
}

static size_t take_event_locked(struct hv_roster_entry *entry, struct hv_op_answer *event)
{
    if (take_state_locked(entry, &event->body.state)) {
        event->header.op = HV_OP_STATE;
        return sizeof(event->header) + sizeof(event->body.state);
    }
    if (entry->console && hv_console_ring_take(entry->console, &event->body.console)) {
        event->header.op = HV_OP_CONSOLE;
        event->body.console.handle = entry->handle.v;
        return sizeof(event->header) + offsetof(struct hv_op_console, data) +
               event->body.console.bytes;
    }
    return 0;
}

bool hv_roster_is_last(const struct hv_op_answer *event)
{
    return event->header.op == HV_OP_STATE &&
           event->body.state.status.state == HV_DOMAIN_STATE_GONE;
}

size_t hv_roster_next_event(struct hv_roster *roster, struct hv_op_answer *event_out)
{
    struct hv_roster_entry *gone = NULL;
    size_t bytes = 0;

    memset(&event_out->header, 0, sizeof(event_out->header));
    hv_lock_take(&roster->lock);
    hv_list_for_each(node, &roster->entries) {
        struct hv_roster_entry *entry = hv_list_entry(node, struct hv_roster_entry, link);

        bytes = take_event_locked(entry, event_out);
        if (bytes > 0) {
            hv_list_unlink(&entry->link);
            if (hv_roster_is_last(event_out)) {
                gone = entry;
            } else {
                hv_list_push_tail(&roster->entries, &entry->link);
            }
            break;
        }
    }
    hv_lock_drop(&roster->lock);
    event_out->header.bytes = (uint32_t)bytes;
    free_entry(gone);
    return bytes;
}

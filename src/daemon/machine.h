/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A machine as libvirt's clients see it: a definition, and perhaps an instance that runs by it.
 *
 *                 start              suspend
 *     SHUTOFF ------------> RUNNING ---------> PAUSED
 *        ^                  |  ^ |  <---------   |      (also CRASHED, with on_crash preserve)
 *        |  destroy, end    |  | | resume        |
 *        +------------------+  +-+ reset         |
 *        +---------------------------------------+
 *
 * A transient machine has no SHUTOFF: it is gone then. One change at a time (a *job*) is under way on a
 * machine; whoever looks sees what was before it or after it. Destroying one does not wait for what
 * hangs: it kills the instance first and takes its turn then.
 *
 * Any thread. Each function that changes something returns FALSE with an error that has a libvirt
 * number and names the machine.
 */
#pragma once

#include "config/domain-config.h"
#include "daemon/instance.h"
#include "wire/libvirt.h"

typedef struct _LodgeMachine LodgeMachine;

LodgeMachine *lodge_machine_ref(LodgeMachine *machine);
void lodge_machine_unref(LodgeMachine *machine);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LodgeMachine, lodge_machine_unref)

/* How it is at one moment. */
typedef struct {
    lv_domain dom;     /* its name is the view's */
    int state, reason; /* VIR_DOMAIN_…, VIR_DOMAIN_…_… */
    gboolean persistent, autostart, busy;
    guint64 max_memory_bytes, memory_bytes;
    guint vcpus, vcpus_max;
} LodgeMachineView;

void lodge_machine_view(LodgeMachine *machine, LodgeMachineView *view_out);
void lodge_machine_view_clear(LodgeMachineView *view);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(LodgeMachineView, lodge_machine_view_clear)

/** How calls name it; its name is the caller's to free. */
void lodge_machine_handle(LodgeMachine *machine, lv_domain *dom_out);
gboolean lodge_machine_is_active(LodgeMachine *machine);

typedef enum {
    LODGE_DEFINITION_CURRENT, /* of the instance when there is one, else the stored one */
    LODGE_DEFINITION_LIVE,
    LODGE_DEFINITION_STORED,
} LodgeDefinition;

/** A copy, owned by the caller; NULL with an error when there is none of that kind. */
LodgeDomainConfig *lodge_machine_copy_definition(LodgeMachine *machine, LodgeDefinition which,
                                                 GError **error);
/** XML; free with g_free(). @flags: of LodgeFormatFlag. */
char *lodge_machine_format(LodgeMachine *machine, gboolean stored, guint flags);

/** What runs, with a reference; NULL when nothing does. */
LodgeInstance *lodge_machine_get_instance(LodgeMachine *machine);
/** The same, or an error that says that it does not run. */
LodgeInstance *lodge_machine_need_instance(LodgeMachine *machine, GError **error);

gboolean lodge_machine_start(LodgeMachine *machine, gboolean paused, GError **error);
gboolean lodge_machine_suspend(LodgeMachine *machine, GError **error);
gboolean lodge_machine_resume(LodgeMachine *machine, GError **error);
/** As by the reset button. */
gboolean lodge_machine_reset(LodgeMachine *machine, GError **error);
/** Press the power button; @again: start it anew when that has ended it. */
gboolean lodge_machine_shutdown(LodgeMachine *machine, gboolean again, GError **error);
/** Press the NMI button: all vCPUs whose guest listens to it. */
gboolean lodge_machine_press_nmi(LodgeMachine *machine, GError **error);
gboolean lodge_machine_destroy(LodgeMachine *machine, GError **error);

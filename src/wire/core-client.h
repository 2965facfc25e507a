/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A core that is another process: lodge-core, reached over its control socket (hv/op.h).
 *
 * Who is linked with this library instead of the core calls the same functions, those of hv/domain.h,
 * hv/teardown.h, hv/guest-copy.h, hv/lock-stats.h and hv/stat-pages.h: they are defined here once more,
 * each as a message and its answer. So nothing above cares where the core is, but for who connects.
 * There is no table of functions in between: a program that is linked with both does not link.
 *
 * What is different from a core in the same process:
 *   - the connection can be lost: the core has ended, or another controller has taken the lease. From
 *     then on whatever returns an errno returns -ENOTCONN, and every machine is HV_DOMAIN_STATE_GONE;
 *   - whatever asks the core for something waits for its answer, hv_domain_get() and
 *     hv_domain_get_status() too. hv_domain_get_layout(), hv_domain_handle() and hv_domain_name() do not;
 *   - hv_guest_copy() of more than LODGE_CORE_COPY_BYTES is several copies: when one fails, those before
 *     it are done;
 *   - of hv_core_write_stats() one at a time is asked; who comes meanwhile shares the next;
 *   - a machine that was created and neither unpaused nor kept is undone when the connection ends;
 *   - hv_domain_press_nmi() and hv_core_write_stats() are -ENOTSUP when the core is older than they are;
 *   - hv_core_create(), hv_core_destroy() and hv_domain_crash() are not here.
 *
 * Any thread may call anything. Consoles and events are called on one thread of the client's own, one
 * after the other; they may call anything but lodge_core_client_close().
 */
#pragma once

#include <glib.h>
#include <hv/domain.h>

#define LODGE_CORE_COPY_BYTES (512 * HV_KIB)

typedef struct {
    /* A machine has changed: this is how it is. Any of the core's, held or not. May be NULL. */
    void (*state)(gpointer user_data, hv_handle handle, const struct hv_domain_status *status);
    /* The connection is lost. Comes last, and once; not after lodge_core_client_close(). May be NULL. */
    void (*lost)(gpointer user_data);
} LodgeCoreEvents;

/**
 * Connect, and take the lease: whoever had it loses it.
 *
 * @path    of the socket.
 * @events  borrowed until it is closed; NULL: none are wanted.
 *
 * Returns the core, for lodge_core_client_close(); NULL with LODGE_ERROR_FAILED when nobody serves it;
 * LODGE_ERROR_VERSION when it does not speak this version.
 */
struct hv_core *lodge_core_client_connect(const char *path, const LodgeCoreEvents *events,
                                          gpointer user_data, GError **error);

/** The same by a connected socket, which is taken over, whatever comes of it. */
struct hv_core *lodge_core_client_adopt(int fd, const LodgeCoreEvents *events, gpointer user_data,
                                        GError **error);

/**
 * Give the lease back. Machines that were kept live on; none is held by the caller any more, and
 * nobody is inside any of the functions. NULL is accepted.
 */
void lodge_core_client_close(struct hv_core *core);

/** Close hv_core_stat_fd(), which is -1 from then on: it is mapped. Before other threads use the core. */
void lodge_core_client_close_stats(struct hv_core *core);

/* How the core said it is, when it gave the lease. */
typedef struct {
    guint64 epoch;         /* leases that there were, with this one */
    guint64 refused_calls; /* host calls its sandbox has refused it until then; a mistake in it */
    guint refused_call;    /* the last one's number */
} LodgeCoreInfo;

void lodge_core_client_get_info(const struct hv_core *core, LodgeCoreInfo *info_out);

/**
 * hv_core_list(), for who must know whether that is all of them.
 *
 * Returns 0; -ENOTCONN; -EPROTO when the core lists what cannot be. *count_out is then how many were
 * told before.
 */
HV_MUST_CHECK int lodge_core_client_list(struct hv_core *core, hv_handle *handles, gsize max,
                                         gsize *count_out);

/**
 * The machine is whole, though it has not run yet: from here on it outlives the connection. One that
 * was unpaused is kept already. -ENOENT, -ENOTCONN.
 */
HV_MUST_CHECK int lodge_core_client_keep(struct hv_domain *domain);

/**
 * Take the output of a machine that an earlier controller has made. What that had not taken comes
 * first, the latest 64 KiB at most.
 *
 * @console  borrowed until lodge_core_client_detach(), or the connection is closed.
 *
 * Returns 0 and how many bytes came before the first that comes now; -ENOENT; -ENOTSUP when it was made
 * without a console; -EEXIST when somebody takes it already; -ENOTCONN.
 */
HV_MUST_CHECK int lodge_core_client_attach(struct hv_domain *domain,
                                           const struct hv_console_ops *console, void *context,
                                           guint64 *position_out);

/**
 * Take a machine's console away from it, one that it was made with or that was attached. When this
 * returns, the console is not being called, and never is again: only then may its context go, for
 * output that the core has sent already is told after the machine is destroyed, too. What it has
 * not taken by then it does not get. A machine without one is left as it is.
 *
 * Waits for a console's write() that is running; so not from one of this machine.
 */
void lodge_core_client_detach(struct hv_domain *domain);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Descriptors that clients have given for machines, in groups with names (virDomainFDAssociate). A
 * definition names a group where it would else name a file. A group is of the connection that gave it,
 * and goes with it; what was read of it by then stays with the instance.
 *
 * Any thread.
 */
#pragma once

#include "config/uuid.h"

#include <gio/gunixfdlist.h>

/* Descriptors that one connection may have given. */
#define LODGE_FD_GROUPS_FDS_MAX       512u
/* Of a group's name. */
#define LODGE_FD_GROUP_NAME_BYTES_MAX 255u

typedef struct _LodgeFdGroups LodgeFdGroups;

/** @fds_max  descriptors that all connections together may have given. */
LodgeFdGroups *lodge_fd_groups_new(guint fds_max);
void lodge_fd_groups_free(LodgeFdGroups *groups);

/**
 * Give a machine a group; one of that name that it has is replaced, whoever gave that.
 *
 * @owner  the connection; only compared.
 * @name   a line of UTF-8 of at most LODGE_FD_GROUP_NAME_BYTES_MAX; copied.
 * @fds    a reference is taken.
 *
 * Returns FALSE with LODGE_ERROR_INPUT when the connection, or all together, would have given too many.
 */
gboolean lodge_fd_groups_put(LodgeFdGroups *groups, gconstpointer owner, const guint8 *uuid,
                             const char *name, GUnixFDList *fds, GError **error);
/** A reference, or NULL. */
GUnixFDList *lodge_fd_groups_get(LodgeFdGroups *groups, const guint8 *uuid, const char *name);
/** A connection has ended: what it gave is closed, when nobody reads it any more. */
void lodge_fd_groups_forget(LodgeFdGroups *groups, gconstpointer owner);

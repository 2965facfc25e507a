/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A list: there are few, and they are looked for when a machine starts. */
#include "daemon/fd-groups.h"

#include "common/i18n.h"
#include "common/lodge-error.h"

#include <string.h>

typedef struct {
    gconstpointer owner;
    guint8 uuid[LODGE_UUID_BYTES];
    char *name;
    GUnixFDList *fds;
} Group;

struct _LodgeFdGroups {
    guint fds_max; /* set at creation */
    GMutex mutex;
    GPtrArray *all; /* guarded by mutex; of Group */
};

static void free_group(gpointer data)
{
    Group *group = data;

    g_object_unref(group->fds);
    g_free(group->name);
    g_free(group);
}

LodgeFdGroups *lodge_fd_groups_new(guint fds_max)
{
    LodgeFdGroups *groups = g_new0(LodgeFdGroups, 1);

    groups->fds_max = fds_max;
    g_mutex_init(&groups->mutex);
    groups->all = g_ptr_array_new_with_free_func(free_group);
    return groups;
}

void lodge_fd_groups_free(LodgeFdGroups *groups)
{
    if (groups) {
        g_ptr_array_unref(groups->all);
        g_mutex_clear(&groups->mutex);
        g_free(groups);
    }
}

static Group *find_locked(LodgeFdGroups *groups, const guint8 *uuid, const char *name)
{
    for (guint i = 0; i < groups->all->len; i++) {
        Group *group = groups->all->pdata[i];

        if (memcmp(group->uuid, uuid, LODGE_UUID_BYTES) == 0 && strcmp(group->name, name) == 0) {
            return group;
        }
    }
    return NULL;
}

/* Descriptors that @owner has given (NULL: that all have), but for those of @except. */
static guint count_locked(LodgeFdGroups *groups, gconstpointer owner, const Group *except)
{
    guint count = 0;

    for (guint i = 0; i < groups->all->len; i++) {
        const Group *group = groups->all->pdata[i];

        if ((!owner || group->owner == owner) && group != except) {
            count += (guint)g_unix_fd_list_get_length(group->fds);
        }
    }
    return count;
}

gboolean lodge_fd_groups_put(LodgeFdGroups *groups, gconstpointer owner, const guint8 *uuid,
                             const char *name, GUnixFDList *fds, GError **error)
{
    guint more = (guint)g_unix_fd_list_get_length(fds);
    gboolean fits, fits_all;
    Group *group, *old;

    g_mutex_lock(&groups->mutex);
    old = find_locked(groups, uuid, name);
    fits = count_locked(groups, owner, old) + more <= LODGE_FD_GROUPS_FDS_MAX;
    fits_all = count_locked(groups, NULL, old) + more <= groups->fds_max;
    if (fits && fits_all) {
        if (old) {
            g_ptr_array_remove_fast(groups->all, old);
        }
        group = g_new0(Group, 1);
        *group = (Group){.owner = owner, .name = g_strdup(name), .fds = g_object_ref(fds)};
        memcpy(group->uuid, uuid, LODGE_UUID_BYTES);
        g_ptr_array_add(groups->all, group);
    }
    g_mutex_unlock(&groups->mutex);
    if (!fits) {
        return lodge_error_refuse(error,
                                  _("The descriptor group “%s” is too much: one connection can "
                                    "give %u descriptors; close it, and open another"),
                                  name, LODGE_FD_GROUPS_FDS_MAX);
    }
    return fits_all ||
           lodge_error_refuse(error,
                              _("The descriptor group “%s” is too much: all connections together "
                                "can give %u descriptors, a quarter of virtlodged's open files; "
                                "close some, or raise that limit (ulimit -n)"),
                              name, groups->fds_max);
}

GUnixFDList *lodge_fd_groups_get(LodgeFdGroups *groups, const guint8 *uuid, const char *name)
{
    GUnixFDList *fds = NULL;
    Group *group;

    g_mutex_lock(&groups->mutex);
    group = find_locked(groups, uuid, name);
    if (group) {
        fds = g_object_ref(group->fds);
    }
    g_mutex_unlock(&groups->mutex);
    return fds;
}

void lodge_fd_groups_forget(LodgeFdGroups *groups, gconstpointer owner)
{
    g_mutex_lock(&groups->mutex);
    for (guint i = groups->all->len; i > 0; i--) {
        if (((const Group *)groups->all->pdata[i - 1])->owner == owner) {
            g_ptr_array_remove_index_fast(groups->all, i - 1);
        }
    }
    g_mutex_unlock(&groups->mutex);
}

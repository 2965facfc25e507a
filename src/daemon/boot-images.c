/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Paths and groups of descriptors. */
#include "daemon/boot-images.h"

#include "common/i18n.h"
#include "common/lodge-error.h"

typedef struct {
    const char *what, *element; /* in messages, in a definition */
    const char *path, *group;   /* the group counts when there are both */
} Image;

static GBytes *read_group(const LodgeDomainConfig *config, const Image *image, LodgeFdGroups *fds,
                          GError **error)
{
    g_autoptr(GUnixFDList) list = lodge_fd_groups_get(fds, config->uuid, image->group);
    g_autofree char *name = g_strdup_printf("fdgroup %s", image->group);
    gint count = 0;
    const gint *all;

    if (!list) {
        lodge_error_refuse(error,
                           _("The machine “%s” takes its %s from the descriptor group “%s” "
                             "(<lodge:%s>), which no open connection has given: associate it "
                             "(virDomainFDAssociate) and keep that connection while the machine "
                             "starts, or name a file in <os><%s>"),
                           config->name, image->what, image->group, image->element, image->element);
        return NULL;
    }
    all = g_unix_fd_list_peek_fds(list, &count);
    if (count != 1) {
        lodge_error_refuse(error,
                           _("The descriptor group “%s” has %d descriptors: the %s of the machine "
                             "“%s” is one file"),
                           image->group, count, image->what, config->name);
        return NULL;
    }
    return lodge_image_read_fd(image->what, name, all[0], error);
}

static GBytes *read_image(const LodgeDomainConfig *config, const Image *image, LodgeFdGroups *fds,
                          GError **error)
{
    return image->group ? read_group(config, image, fds, error)
                        : lodge_image_read(image->what, image->path, error);
}

LodgeBuilder *lodge_boot_images_open(const LodgeDomainConfig *config, LodgeFdGroups *fds,
                                     GError **error)
{
    const Image kernel_image = {_("kernel"), "kernel", config->kernel, config->kernel_fdgroup};
    const Image initrd_image = {_("initrd"), "initrd", config->initrd, config->initrd_fdgroup};
    g_autofree char *name = config->kernel_fdgroup
                                ? g_strdup_printf("fdgroup %s", config->kernel_fdgroup)
                                : g_strdup(config->kernel);
    g_autoptr(GBytes) kernel = NULL;
    g_autoptr(GBytes) initrd = NULL;

    if (!name) {
        lodge_error_refuse(
            error, _("The machine “%s” has no kernel to start: give it <os><kernel>PATH</kernel>"),
            config->name);
        return NULL;
    }
    kernel = read_image(config, &kernel_image, fds, error);
    if (!kernel) {
        return NULL;
    }
    if (initrd_image.path || initrd_image.group) {
        initrd = read_image(config, &initrd_image, fds, error);
        if (!initrd) {
            return NULL;
        }
    }
    return lodge_builder_new_from_images(name, kernel, initrd, config->command_line, error);
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The domain builder: from files to a machine that is ready to run.
 *
 * Images are parsed here, outside the core, and reach guest memory through hv_guest_copy() alone.
 */
#pragma once

#include "build/image.h"

#include <hv/domain.h>

typedef struct _LodgeBuilder LodgeBuilder;

/**
 * Read and check the images.
 *
 * @initrd_path   may be NULL.
 * @command_line  copied.
 *
 * Returns a builder, owned by the caller; NULL with LODGE_ERROR_INPUT naming file and cause.
 */
LodgeBuilder *lodge_builder_new(const char *kernel_path, const char *initrd_path,
                                const char *command_line, GError **error);
/**
 * The same of images that were read already.
 *
 * @kernel_name  in messages.
 * @initrd       may be NULL. References are taken.
 */
LodgeBuilder *lodge_builder_new_from_images(const char *kernel_name, GBytes *kernel, GBytes *initrd,
                                            const char *command_line, GError **error);
void lodge_builder_free(LodgeBuilder *builder);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LodgeBuilder, lodge_builder_free)

/**
 * Load everything into a paused domain and set its entry state. Can be called again after a reset.
 *
 * Returns FALSE with LODGE_ERROR_INPUT when something does not fit, LODGE_ERROR_FAILED otherwise;
 * the domain then stays paused with its memory partly written.
 */
gboolean lodge_builder_load(LodgeBuilder *builder, struct hv_domain *domain, GError **error);

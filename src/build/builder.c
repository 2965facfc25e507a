/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The domain builder: identify, write ACPI, load by protocol, set the entry state. */
#include "build/builder.h"

#include "build/acpi.h"
#include "build/bzimage.h"
#include "build/elf-image.h"
#include "build/multiboot.h"
#include "common/i18n.h"
#include "common/lodge-error.h"

struct _LodgeBuilder {
    char *kernel_path; /* or what messages call it */
    GBytes *kernel;
    GBytes *initrd; /* may be NULL */
    char *command_line;
    LodgeKernelKind kind;
};

LodgeBuilder *lodge_builder_new_from_images(const char *kernel_name, GBytes *kernel, GBytes *initrd,
                                            const char *command_line, GError **error)
{
    g_autoptr(LodgeBuilder) builder = g_new0(LodgeBuilder, 1);

    builder->kernel_path = g_strdup(kernel_name);
    builder->command_line = g_strdup(command_line ? command_line : "");
    builder->kernel = g_bytes_ref(kernel);
    builder->initrd = initrd ? g_bytes_ref(initrd) : NULL;
    return lodge_kernel_identify(kernel, kernel_name, &builder->kind, error)
               ? g_steal_pointer(&builder)
               : NULL;
}

LodgeBuilder *lodge_builder_new(const char *kernel_path, const char *initrd_path,
                                const char *command_line, GError **error)
{
    g_autoptr(GBytes) kernel = lodge_image_read(_("kernel"), kernel_path, error);
    g_autoptr(GBytes) initrd = NULL;

    if (!kernel) {
        return NULL;
    }
    if (initrd_path) {
        initrd = lodge_image_read(_("initrd"), initrd_path, error);
        if (!initrd) {
            return NULL;
        }
    }
    return lodge_builder_new_from_images(kernel_path, kernel, initrd, command_line, error);
}

void lodge_builder_free(LodgeBuilder *builder)
{
    if (!builder) {
        return;
    }
    g_clear_pointer(&builder->kernel, g_bytes_unref);
    g_clear_pointer(&builder->initrd, g_bytes_unref);
    g_free(builder->kernel_path);
    g_free(builder->command_line);
    g_free(builder);
}

static int write_guest(void *context, guint64 gpa, const void *data, guint64 bytes)
{
    /* hv_guest_copy() only reads @data in this direction. */
    return hv_guest_copy(context, (hv_gpa){gpa}, (void *)data, bytes, HV_COPY_TO_GUEST);
}

static gboolean load_kernel(LodgeBuilder *builder, LodgeGuestWriter *writer,
                            struct hv_boot_state *state, GError **error)
{
    LodgeBootRequest request = {.command_line = builder->command_line, .initrd = builder->initrd};

    if (!lodge_acpi_load(writer, &request.rsdp, error)) {
        return FALSE;
    }
    switch (builder->kind) {
    case LODGE_KERNEL_BZIMAGE:
        return lodge_bzimage_load(builder->kernel, builder->kernel_path, &request, writer, state,
                                  error);
    case LODGE_KERNEL_PVH:
        return lodge_pvh_load(builder->kernel, builder->kernel_path, &request, writer, state,
                              error);
    case LODGE_KERNEL_MULTIBOOT:
        return lodge_multiboot_load(builder->kernel, builder->kernel_path, &request, writer, state,
                                    error);
    }
    g_return_val_if_reached(FALSE);
}

gboolean lodge_builder_load(LodgeBuilder *builder, struct hv_domain *domain, GError **error)
{
    struct hv_platform_layout layout;
    struct hv_boot_state state;
    LodgeGuestWriter writer;
    gboolean loaded;
    int rc;

    hv_domain_get_layout(domain, &layout);
    lodge_guest_writer_init(&writer, &layout, write_guest, domain);
    loaded = load_kernel(builder, &writer, &state, error);
    lodge_guest_writer_finish(&writer);
    if (!loaded) {
        return FALSE;
    }
    rc = hv_domain_set_boot(domain, &state);
    if (rc < 0) {
        lodge_error_set_errno(error, rc, _("Cannot set the entry state of the kernel “%s”"),
                              builder->kernel_path);
        return FALSE;
    }
    return TRUE;
}

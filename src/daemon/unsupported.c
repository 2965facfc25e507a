/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A table: libvirt's remote procedures from one number to another, by what they are about. Those that
 * clients are seen to ask for, and their like; libvirt has more.
 */
#include "daemon/unsupported.h"

#include "common/i18n.h"
#include "daemon/libvirt-error.h"

static const struct {
    guint32 first, last;
    const char *what;
} absent[] = {
    {8, 8, N_("devices that come and go")},
    {13, 13, N_("devices that come and go")},
    {36, 36, N_("virtual networks")},
    {38, 50, N_("virtual networks")},
    {52, 52, N_("virtual networks")},
    {53, 55, N_("saved machines")},
    {61, 63, N_("migration")},
    {64, 64, N_("disks")},
    {65, 65, N_("network cards")},
    {71, 90, N_("storage pools")},
    {91, 100, N_("storage volumes")},
    {103, 103, N_("disks")},
    {108, 109, N_("migration")},
    {111, 120, N_("host devices")},
    {123, 124, N_("host devices")},
    {125, 125, N_("storage volumes")},
    {126, 134, N_("host interfaces")},
    {137, 138, N_("host interfaces")},
    {139, 147, N_("secrets")},
    {148, 148, N_("migration")},
    {152, 153, N_("virtual networks")},
    {154, 155, N_("storage pools")},
    {156, 156, N_("host interfaces")},
    {160, 161, N_("devices that come and go")},
    {164, 164, N_("migration")},
    {165, 165, N_("storage volumes")},
    {166, 166, N_("migration")},
    {174, 174, N_("devices that come and go")},
    {175, 181, N_("network filters")},
    {182, 182, N_("saved machines")},
    {184, 184, N_("saved machines")},
    {185, 186, N_("snapshots")},
    {188, 193, N_("snapshots")},
    {194, 194, N_("disks")},
    {205, 206, N_("disks")},
    {207, 207, N_("migration")},
    {211, 211, N_("displays")},
    {213, 214, N_("migration")},
    {216, 218, N_("migration")},
    {226, 226, N_("keyboards")},
    {242, 242, N_("migration")},
    {243, 243, N_("disks")},
    {249, 249, N_("displays")},
    {253, 253, N_("disks")},
    {263, 263, N_("disks")},
    {274, 274, N_("snapshots")},
    {277, 277, N_("guest agents")},
    {281, 281, N_("storage pools")},
    {282, 282, N_("storage volumes")},
    {283, 283, N_("virtual networks")},
    {284, 284, N_("host interfaces")},
    {285, 285, N_("host devices")},
    {286, 286, N_("network filters")},
    {287, 287, N_("secrets")},
    {294, 294, N_("guest agents")},
    {302, 303, N_("migration")},
    {305, 307, N_("migration")},
    {313, 313, N_("virtual networks")},
    {343, 343, N_("displays")},
    {349, 349, N_("guest agents")},
    {357, 357, N_("guest agents")},
    {364, 364, N_("migration")},
    {368, 368, N_("storage pools")},
    {371, 371, N_("guest agents")},
    {374, 374, N_("host devices")},
    {386, 386, N_("disks")},
    {387, 387, N_("migration")},
    {413, 413, N_("checkpoints")},
    {418, 418, N_("guest agents")},
    {422, 422, N_("checkpoints")},
    {424, 424, N_("guest agents")},
};

static const char *find_absent(guint32 procedure)
{
    for (gsize i = 0; i < G_N_ELEMENTS(absent); i++) {
        if (procedure >= absent[i].first && procedure <= absent[i].last) {
            return absent[i].what;
        }
    }
    return NULL;
}

gboolean lodge_refuse_unsupported(const LodgeMessageHeader *header, GError **error)
{
    const char *what = header->program == LV_REMOTE && header->version == LODGE_MESSAGE_VERSION
                           ? find_absent(header->procedure)
                           : NULL;

    if (what) {
        return lodge_refuse(error, VIR_ERR_NO_SUPPORT,
                            _("Lodge has no %s: function %u is not supported"), _(what),
                            header->procedure);
    }
    return lodge_refuse(error, VIR_ERR_NO_SUPPORT,
                        _("Lodge has no function %u of program 0x%x, version %u: it is not "
                          "supported"),
                        header->procedure, header->program, header->version);
}

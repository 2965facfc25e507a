/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The tables that make-procedures makes of libvirt.x. */
#include "wire/procedures.h"

#include "wire/libvirt.h"

#include "wire/procedure-table.h"

static const struct {
    guint32 program;
    const LodgeProcedure *table;
    guint32 end;
} programs[] = {
    {LV_REMOTE, lv_remote_table, G_N_ELEMENTS(lv_remote_table)},
    {LV_MONITOR, lv_monitor_table, G_N_ELEMENTS(lv_monitor_table)},
};

const LodgeProcedure *lodge_procedure_find(guint32 program, guint32 number)
{
    for (gsize i = 0; i < G_N_ELEMENTS(programs); i++) {
        if (programs[i].program == program && number < programs[i].end &&
            programs[i].table[number].name) {
            return &programs[i].table[number];
        }
    }
    return NULL;
}

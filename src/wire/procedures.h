/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The procedures of libvirt.x by number: what they take, and what they give. */
#pragma once

#include <glib.h>
#include <rpc/rpc.h>

typedef struct {
    const char *name;   /* as in libvirt.x, in lower case */
    xdrproc_t args_xdr; /* NULL when it takes nothing */
    gsize args_bytes;   /* of the structure in memory */
    xdrproc_t ret_xdr;
    gsize ret_bytes;
} LodgeProcedure;

/** Returns NULL for a program or a procedure that libvirt.x does not have. */
const LodgeProcedure *lodge_procedure_find(guint32 program, guint32 number);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Which elements of a <domain> Lodge knows, which hold elements alone, and libvirt's order of them. */
#pragma once

#include "config/xml-write.h"

/** LodgeXmlKindOf a <domain> and what is in it. */
LodgeXmlKind lodge_domain_kind_of(const xmlNode *element);

/** Is it one of Lodge's own that Lodge knows? */
gboolean lodge_domain_is_ours(const xmlNode *element);

/**
 * Check that no element that counts stands twice, and list those that do nothing.
 *
 * @inert_out  set to a NULL-terminated list of paths, each once, owned by the caller.
 *
 * Returns FALSE with LODGE_ERROR_INPUT.
 */
gboolean lodge_domain_list_inert(const xmlNode *domain, GStrv *inert_out, GError **error);

/**
 * Put the children of <domain> into libvirt's order. What libvirt does not know stays behind what it
 * followed, and a comment stays before what it preceded.
 */
void lodge_domain_sort(xmlNode *domain);

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What applications keep in a definition's <metadata>: an element each, found by its namespace. Calls
 * carry it without the namespace, the document has it with.
 */
#pragma once

#include "config/domain-config.h"

/** The element of the namespace @uri, as XML; NULL when there is none. Free with g_free(). */
char *lodge_domain_config_get_metadata(const LodgeDomainConfig *config, const char *uri);

/**
 * Put an element in, for the one of that namespace there may be.
 *
 * @xml     one element; what has no namespace in it gets @uri. NULL: take the element out.
 * @prefix  that the document shows for @uri; not looked at without @xml.
 *
 * Returns FALSE with LODGE_ERROR_INPUT naming what is wrong with the XML, the prefix or the URI.
 */
gboolean lodge_domain_config_set_metadata(LodgeDomainConfig *config, const char *uri,
                                          const char *prefix, const char *xml, GError **error);

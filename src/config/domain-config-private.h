/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The sections of a definition. Each has one that takes its fields from the document, and one that
 * puts them back: what it does not know stays, what a field no longer says goes.
 *
 * Those that parse get the <domain> stripped and without doubles, and a config of zeros; they return
 * FALSE with LODGE_ERROR_INPUT. They need not check what lodge_domain_config_check() does.
 */
#pragma once

#include "config/domain-config.h"
#include "config/xml-node.h"

/* Name, UUID, title, description; memory; vCPUs and their CPUs. */
gboolean lodge_domain_parse_basics(const xmlNode *domain, LodgeDomainConfig *config,
                                   GError **error);
void lodge_domain_write_basics(xmlNode *domain, const LodgeDomainConfig *config);

/* <os>, <features>, on_poweroff and the like. */
gboolean lodge_domain_parse_boot(const xmlNode *domain, LodgeDomainConfig *config, GError **error);
void lodge_domain_write_boot(xmlNode *domain, const LodgeDomainConfig *config);

/* <clock> and its timers. */
gboolean lodge_domain_parse_clock(const xmlNode *domain, LodgeDomainConfig *config, GError **error);
void lodge_domain_write_clock(xmlNode *domain, const LodgeDomainConfig *config);
gboolean lodge_domain_check_clock(const LodgeClockConfig *clock, GError **error);

/* <cputune>. */
gboolean lodge_domain_parse_tune(const xmlNode *domain, LodgeDomainConfig *config, GError **error);
void lodge_domain_write_tune(xmlNode *domain, const LodgeDomainConfig *config);
gboolean lodge_domain_check_tune(const LodgeTuneConfig *tune, guint vcpus, GError **error);

/* <devices>: the emulator, and the serial port that is the console. */
gboolean lodge_domain_parse_devices(const xmlNode *domain, LodgeDomainConfig *config,
                                    GError **error);
/* @live  as for lodge_domain_config_format(). */
void lodge_domain_write_devices(xmlNode *domain, const LodgeDomainConfig *config,
                                const LodgeDomainLive *live);

/* Elements in Lodge's namespace. */
gboolean lodge_domain_parse_ours(const xmlNode *domain, LodgeDomainConfig *config, GError **error);
void lodge_domain_write_ours(xmlNode *domain, const LodgeDomainConfig *config);

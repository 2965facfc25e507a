/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The application: its connections, its jobs, its one window. */
#pragma once

#include "app/model/connection-item.h"
#include "app/model/job.h"

#include <adwaita.h>

#define LODGE_APPLICATION_ID   "org.lodgevm.Lodge"

#define LODGE_TYPE_APPLICATION (lodge_application_get_type())
G_DECLARE_FINAL_TYPE(LodgeApplication, lodge_application, LODGE, APPLICATION, AdwApplication)

LodgeApplication *lodge_application_new(void);

/** Borrowed; of LodgeConnectionItem, and of LodgeJob with the newest first. */
GListModel *lodge_application_get_connections(LodgeApplication *application);
GListModel *lodge_application_get_jobs(LodgeApplication *application);
/** NULL where the settings' schema is not installed: then nothing is remembered. Borrowed. */
GSettings *lodge_application_get_settings(LodgeApplication *application);

/** The connection of that URI; a new one, which is being opened, if there is none. Borrowed. */
LodgeConnectionItem *lodge_application_connect(LodgeApplication *application, const char *uri);

/** Run a job and list it. A long one that ends while no window is active is told of. @job is moved in. */
void lodge_application_run_job(LodgeApplication *application, LodgeJob *job);
/** Take one off the list that has ended. */
void lodge_application_dismiss_job(LodgeApplication *application, LodgeJob *job);

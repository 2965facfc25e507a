/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A job in the popover: how far it is, Cancel while it runs, its failures whole and to be copied. */
#pragma once

#include "app/model/job.h"

#include <gtk/gtk.h>

#define LODGE_TYPE_JOB_ROW (lodge_job_row_get_type())
G_DECLARE_FINAL_TYPE(LodgeJobRow, lodge_job_row, LODGE, JOB_ROW, GtkBox)

/** Emits "dismissed" when the person wants no more of it. */
GtkWidget *lodge_job_row_new(LodgeJob *job);
LodgeJob *lodge_job_row_get_job(LodgeJobRow *row);

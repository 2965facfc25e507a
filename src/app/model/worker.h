/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Threads for what waits: every call of libvirt's library but those that its header calls local.
 *
 * GLib's own pool for tasks has ten threads before it begins to wait: one daemon that hangs would take
 * them all. Here there are LODGE_WORKERS, and no model has more than a few tasks under way.
 */
#pragma once

#include <gio/gio.h>

#define LODGE_WORKERS 32

/**
 * Run @function in a worker; the task's callback comes in the main thread, after g_task_return_….
 *
 * @task  moved in.
 */
void lodge_worker_run(GTask *task, GTaskThreadFunc function);

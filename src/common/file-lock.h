/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A file that one process has at a time, by flock(2).
 *
 * Such a lock is also held by a child between fork() and exec(): of a process that was killed while it
 * started another, it goes a moment later than the process. Who comes next waits for that.
 */
#pragma once

/**
 * Lock the file, for as long as @fd is open.
 *
 * Returns 0; -EWOULDBLOCK when another process has it, and still had it after a second; another negative
 * errno. Context: may wait.
 */
int lodge_file_lock(int fd);

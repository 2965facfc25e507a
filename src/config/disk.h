/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A folder of small files, changed by steps whose order is what survives a crash.
 *
 * A step that changes something is told to a watch before it is done. The product has none; tests stop
 * the process there, have the step fail, or record it and work out what a power cut could leave.
 *
 * Results are 0 or a negative errno of the system.
 */
#pragma once

#include <glib.h>

typedef enum {
    LODGE_DISK_CREATE,    /* an empty file, or one cut to nothing */
    LODGE_DISK_WRITE,     /* data at its end */
    LODGE_DISK_OVERWRITE, /* data at its beginning, none longer than before */
    LODGE_DISK_SYNC,      /* of what the file holds */
    LODGE_DISK_LINK,      /* a second name, @to */
    LODGE_DISK_RENAME,    /* to @to, whatever had that name */
    LODGE_DISK_REMOVE,
    LODGE_DISK_SYNC_FOLDER, /* of which names there are */
} LodgeDiskOp;

typedef struct {
    LodgeDiskOp op;
    const char *name, *to; /* NULL where the step has none */
    const void *data;
    gsize length;
} LodgeDiskStep;

typedef struct {
    /** Returns 0: do it; 1: take a sync as done; a negative errno: it fails. NULL: no watch. */
    int (*before)(void *context, const LodgeDiskStep *step);
    void *context;
} LodgeDiskWatch;

typedef struct {
    int folder;
    char *path;
    LodgeDiskWatch watch;
} LodgeDisk;

/** Open the folder, made with its parents if need be. @watch: copied; may be NULL. */
int lodge_disk_open(LodgeDisk *disk, const char *path, const LodgeDiskWatch *watch);
/** Zeroed memory but for folder = -1 is accepted. */
void lodge_disk_close(LodgeDisk *disk);

/** The full path of a file, for messages. Free with g_free(). */
char *lodge_disk_path(const LodgeDisk *disk, const char *name);

/** Is there such a name? An answer that cannot be had is yes: nothing is done to what may be there. */
gboolean lodge_disk_has(const LodgeDisk *disk, const char *name);

/**
 * Read a regular file whole.
 *
 * Returns 0 and *data_out, owned by the caller; -EISDIR; -EINVAL for what is no file either; -EFBIG
 * beyond @max bytes.
 */
int lodge_disk_read(const LodgeDisk *disk, const char *name, gsize max, GBytes **data_out);

/** A file with this content, on disk when this returns; of a half-written one nothing is left. */
int lodge_disk_write(LodgeDisk *disk, const char *name, const void *data, gsize length);
/** Write over the beginning of an open file, and have it on disk. */
int lodge_disk_overwrite(LodgeDisk *disk, int fd, const char *name, const void *data, gsize length);

int lodge_disk_link(LodgeDisk *disk, const char *name, const char *to);
int lodge_disk_rename(LodgeDisk *disk, const char *name, const char *to);
/** None of that name is as good. */
int lodge_disk_remove(LodgeDisk *disk, const char *name);
/** Names are on disk as they are now. */
int lodge_disk_sync(LodgeDisk *disk);

/** All names but "." and "..", in the order of their bytes. Returns 0 and *names_out. */
int lodge_disk_list(const LodgeDisk *disk, GStrv *names_out);

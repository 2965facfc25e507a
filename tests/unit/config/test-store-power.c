/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Power is cut before each step of a script. What a disk may then hold is worked out by a model of one:
 *
 *   - names: those of the last sync of the folder, and any number of the changes since, in order;
 *   - what a file holds: as of its last sync; or all that was written; or something between.
 *
 * Each such state is made in a folder, and opened: there is the state of before the change under way, or
 * of after it; and once a change has returned, the one of after it.
 */
#include "lib/tap.h"
#include "store-script.h"

#include <string.h>

typedef struct {
    LodgeDiskOp op;
    char *name, *to;
    GBytes *data;
    guint done; /* changes that had returned before it */
} Step;

typedef struct {
    GPtrArray *steps;
    guint done;
} Recorder;

/* One file: what was written, and what of it is on disk for sure. */
typedef struct {
    GByteArray *now, *synced;
} Inode;

typedef enum {
    CONTENT_SYNCED,
    CONTENT_WRITTEN,
    CONTENT_TORN,
    CONTENT_COUNT,
} Content;

static void free_step(gpointer data)
{
    Step *step = data;

    g_free(step->name);
    g_free(step->to);
    g_bytes_unref(step->data);
    g_free(step);
}

static int record_step(void *context, const LodgeDiskStep *step)
{
    Recorder *recorder = context;
    Step *copy = g_new0(Step, 1);

    *copy = (Step){step->op, g_strdup(step->name), g_strdup(step->to),
                   g_bytes_new(step->data, step->length), recorder->done};
    g_ptr_array_add(recorder->steps, copy);
    return step->op == LODGE_DISK_SYNC || step->op == LODGE_DISK_SYNC_FOLDER;
}

static void free_inode(gpointer data)
{
    Inode *inode = data;

    g_byte_array_unref(inode->now);
    g_byte_array_unref(inode->synced);
    g_free(inode);
}

static void set_bytes(GByteArray *to, const guint8 *data, gsize length)
{
    g_byte_array_set_size(to, 0);
    g_byte_array_append(to, data, (guint)length);
}

static Inode *create_inode(GPtrArray *inodes)
{
    Inode *inode = g_new0(Inode, 1);

    inode->now = g_byte_array_new();
    inode->synced = g_byte_array_new();
    g_ptr_array_add(inodes, inode);
    return inode;
}

/* One step, on names and files. @inodes owns the files. */
static void apply(const Step *step, GHashTable *names, GPtrArray *inodes)
{
    Inode *inode = step->name ? g_hash_table_lookup(names, step->name) : NULL;
    gsize length = 0;
    const guint8 *data = g_bytes_get_data(step->data, &length);

    switch (step->op) {
    case LODGE_DISK_CREATE:
        if (!inode) {
            inode = create_inode(inodes);
            g_hash_table_insert(names, g_strdup(step->name), inode);
        }
        g_byte_array_set_size(inode->now, 0);
        break;
    case LODGE_DISK_WRITE:
        g_byte_array_append(inode->now, data, (guint)length);
        break;
    case LODGE_DISK_OVERWRITE:
        memcpy(inode->now->data, data, MIN(length, inode->now->len));
        break;
    case LODGE_DISK_SYNC:
        set_bytes(inode->synced, inode->now->data, inode->now->len);
        break;
    case LODGE_DISK_LINK:
        g_hash_table_insert(names, g_strdup(step->to), inode);
        break;
    case LODGE_DISK_RENAME:
        /* Two names of one file: nothing happens, as POSIX has it. */
        if (g_hash_table_lookup(names, step->to) != inode) {
            g_hash_table_remove(names, step->name);
            g_hash_table_insert(names, g_strdup(step->to), inode);
        }
        break;
    case LODGE_DISK_REMOVE:
        g_hash_table_remove(names, step->name);
        break;
    case LODGE_DISK_SYNC_FOLDER:
        break;
    }
}

/* What the file holds after the cut. */
static void choose_content(const Inode *inode, Content content, GByteArray *to)
{
    guint half = inode->now->len / 2;

    switch (content) {
    case CONTENT_SYNCED:
        set_bytes(to, inode->synced->data, inode->synced->len);
        return;
    case CONTENT_TORN:
        if (inode->now->len != inode->synced->len ||
            (half && memcmp(inode->now->data, inode->synced->data, inode->now->len) != 0)) {
            set_bytes(to, inode->now->data, half);
            if (inode->synced->len > half) {
                g_byte_array_append(to, inode->synced->data + half, inode->synced->len - half);
            }
            return;
        }
        set_bytes(to, inode->now->data, inode->now->len);
        return;
    case CONTENT_WRITTEN:
    case CONTENT_COUNT:
        set_bytes(to, inode->now->data, inode->now->len);
        return;
    }
}

/* The state of names after @named steps, and of files after @written, as a folder. */
static char *make_folder(const GPtrArray *steps, guint named, guint written, Content content)
{
    g_autoptr(GHashTable) names = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    g_autoptr(GHashTable) on_disk = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    g_autoptr(GPtrArray) inodes = g_ptr_array_new_with_free_func(free_inode);
    g_autoptr(GByteArray) bytes = g_byte_array_new();
    char *folder = store_folder_make();
    GHashTableIter iter;
    gpointer name, inode;

    for (guint i = 0; i < written; i++) {
        apply(steps->pdata[i], names, inodes);
        if (i + 1 == named) {
            g_hash_table_iter_init(&iter, names);
            while (g_hash_table_iter_next(&iter, &name, &inode)) {
                g_hash_table_insert(on_disk, g_strdup(name), inode);
            }
        }
    }
    g_hash_table_iter_init(&iter, on_disk);
    while (g_hash_table_iter_next(&iter, &name, &inode)) {
        g_autofree char *path = g_build_filename(folder, name, NULL);

        choose_content(inode, content, bytes);
        g_file_set_contents_full(path, (const char *)bytes->data, bytes->len,
                                 G_FILE_SET_CONTENTS_NONE, 0600, NULL);
    }
    return folder;
}

/* Steps that are on disk for sure when @count have been done: up to the last sync of the folder. */
static guint synced_steps(const GPtrArray *steps, guint count)
{
    while (count > 0 && ((const Step *)steps->pdata[count - 1])->op != LODGE_DISK_SYNC_FOLDER) {
        count--;
    }
    return count;
}

static GPtrArray *record_script(void)
{
    g_autofree char *folder = store_folder_make();
    Recorder recorder = {g_ptr_array_new_with_free_func(free_step), 0};
    const LodgeDiskWatch watch = {record_step, &recorder};
    LodgeDomainStore *store = lodge_domain_store_open_watched(folder, &watch, NULL);

    while (store && recorder.done < STORE_SCRIPT_CHANGES &&
           store_script_do(store, recorder.done, NULL)) {
        recorder.done++;
    }
    lodge_domain_store_close(store);
    store_folder_remove(folder);
    if (recorder.done < STORE_SCRIPT_CHANGES) {
        tap_fail(__FILE__, __LINE__, "change %u failed", recorder.done);
    }
    return recorder.steps;
}

static void test_cut(void)
{
    g_autoptr(GPtrArray) steps = record_script();
    guint states = 0;

    for (guint cut = 0; cut <= steps->len && !tap_failed(); cut++) {
        guint done =
            cut < steps->len ? ((const Step *)steps->pdata[cut])->done : STORE_SCRIPT_CHANGES;

        for (guint named = synced_steps(steps, cut); named <= cut && !tap_failed(); named++) {
            for (guint content = 0; content < CONTENT_COUNT && !tap_failed(); content++) {
                g_autofree char *folder = make_folder(steps, named, cut, content);
                g_autofree char *wrong = store_script_check(folder, done, TRUE);

                store_folder_remove(folder);
                states++;
                if (wrong) {
                    tap_fail(__FILE__, __LINE__,
                             "power cut before step %u, %u of them named, content %u: %s", cut,
                             named, content, wrong);
                }
            }
        }
    }
    tap_note("%u states of the disk after %u steps", states, steps->len);
    TAP_OK(states > 500);
}

/* The model itself: without the sync of a file, or of the folder, states are lost that must not be. */
static void test_syncs_are_needed(void)
{
    static const LodgeDiskOp ops[] = {LODGE_DISK_SYNC, LODGE_DISK_SYNC_FOLDER};

    for (gsize i = 0; i < G_N_ELEMENTS(ops); i++) {
        g_autoptr(GPtrArray) steps = record_script();
        gboolean lost = FALSE;

        for (guint at = 0; at < steps->len; at++) {
            Step *step = steps->pdata[at];

            /* A step that changes nothing in its place. */
            if (step->op == ops[i]) {
                g_free(step->name);
                step->op = LODGE_DISK_REMOVE;
                step->name = g_strdup("nothing");
            }
        }
        for (guint cut = 0; cut <= steps->len && !lost; cut++) {
            guint done =
                cut < steps->len ? ((const Step *)steps->pdata[cut])->done : STORE_SCRIPT_CHANGES;
            g_autofree char *folder =
                make_folder(steps, synced_steps(steps, cut), cut, CONTENT_SYNCED);
            g_autofree char *wrong = store_script_check(folder, done, TRUE);

            store_folder_remove(folder);
            lost = wrong != NULL;
        }
        TAP_OK(lost);
    }
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"config.store-power.cut", test_cut},
        {"config.store-power.syncs-are-needed", test_syncs_are_needed},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

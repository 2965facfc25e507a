/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The store, broken off at every step: the process is killed; it is killed again while the next start
 * finishes; each step fails; and power is cut, with every state of the disk that the syncs allow.
 * Whatever it is, there is the old state or the new one, and nothing else.
 */
#include "lib/tap.h"
#include "store-script.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define KILLED 42

/* Shared with the child. */
typedef struct {
    guint steps, done;
} Progress;

typedef struct {
    Progress *progress;
    guint at; /* the step before which it ends */
} Killer;

static int is_sync(const LodgeDiskStep *step)
{
    return step->op == LODGE_DISK_SYNC || step->op == LODGE_DISK_SYNC_FOLDER;
}

/* A process that dies loses nothing that it has written: syncs are left out, and save the time. */
static int kill_before(void *context, const LodgeDiskStep *step)
{
    Killer *killer = context;

    if (killer->progress->steps++ == killer->at) {
        _exit(KILLED);
    }
    return is_sync(step);
}

/* Open and do changes from @first on, in a child that dies before step @at. TRUE: it did die. */
static gboolean die_at(const char *folder, guint first, guint count, guint at, Progress *progress)
{
    Killer killer = {progress, at};
    const LodgeDiskWatch watch = {kill_before, &killer};
    int status = 0;
    pid_t child;

    *progress = (Progress){0, first};
    child = fork();
    if (child == 0) {
        LodgeDomainStore *store = lodge_domain_store_open_watched(folder, &watch, NULL);

        for (guint i = first; store && i < first + count; i++) {
            if (!store_script_do(store, i, NULL)) {
                _exit(1);
            }
            progress->done = i + 1;
        }
        _exit(store ? 0 : 1);
    }
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
        (WEXITSTATUS(status) != KILLED && WEXITSTATUS(status) != 0)) {
        tap_fail(__FILE__, __LINE__, "the child before step %u failed: %#x", at, (guint)status);
    }
    return WEXITSTATUS(status) == KILLED;
}

static Progress *share_progress(void)
{
    return mmap(NULL, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static void test_killed(void)
{
    Progress *progress = share_progress();
    gboolean died = TRUE;
    guint at = 0;

    for (; died && !tap_failed(); at++) {
        g_autofree char *folder = store_folder_make();
        g_autofree char *wrong = NULL;

        died = die_at(folder, 0, STORE_SCRIPT_CHANGES, at, progress);
        wrong = store_script_check(folder, progress->done, TRUE);
        store_folder_remove(folder);
        if (wrong) {
            tap_fail(__FILE__, __LINE__, "killed before step %u: %s", at, wrong);
        }
    }
    tap_note("killed before each of %u steps", at - 1);
    TAP_OK(at > 50);
    munmap(progress, sizeof(*progress));
}

/* The start after that is killed too, at each of its steps. */
static void test_killed_twice(void)
{
    Progress *progress = share_progress();
    gboolean died = TRUE;
    guint starts = 0;

    for (guint at = 0; died && !tap_failed(); at++) {
        gboolean died_again = TRUE;

        for (guint again = 0; died && died_again && !tap_failed(); again++) {
            g_autofree char *folder = store_folder_make();
            g_autofree char *wrong = NULL;
            guint done;

            died = die_at(folder, 0, STORE_SCRIPT_CHANGES, at, progress);
            done = progress->done;
            died_again = die_at(folder, 0, 0, again, progress);
            wrong = store_script_check(folder, done, TRUE);
            store_folder_remove(folder);
            starts++;
            if (wrong) {
                tap_fail(__FILE__, __LINE__, "killed before step %u, and %u of the next start: %s",
                         at, again, wrong);
            }
        }
    }
    tap_note("%u starts", starts);
    munmap(progress, sizeof(*progress));
}

/* A step that fails. */
typedef struct {
    guint steps, at;
    int result;
    gboolean for_good; /* and all that follow */
} Fault;

static int fail_step(void *context, const LodgeDiskStep *step)
{
    Fault *fault = context;
    guint index = fault->steps++;

    if (index == fault->at || (fault->for_good && index > fault->at)) {
        return fault->result;
    }
    return is_sync(step);
}

/* Once: asked again, it does what it was asked for. Returns what is wrong, or NULL. */
static char *run_with_fault(const char *folder, Fault *fault)
{
    const LodgeDiskWatch watch = {fail_step, fault};
    g_autoptr(LodgeDomainStore) store = lodge_domain_store_open_watched(folder, &watch, NULL);
    guint failed = 0;

    if (!store) {
        return g_strdup("the store cannot be opened");
    }
    for (guint i = 0; i < STORE_SCRIPT_CHANGES; i++) {
        g_autoptr(GError) error = NULL;
        gboolean good = store_script_do(store, i, &error);

        /* A rename that was decided has been finished: there is nothing left to rename. */
        if (!good && !store_script_do(store, i, NULL) && !lodge_disk_has(&store->disk, "c.xml")) {
            return g_strdup_printf("change %u fails twice: %s", i, error->message);
        }
        failed += !good;
        if (fault->steps > fault->at) {
            char *leftover = store_script_find_leftover(store);

            if (leftover) {
                return leftover;
            }
        }
    }
    return failed > 1 ? g_strdup_printf("%u changes failed", failed) : NULL;
}

static void test_step_fails(void)
{
    static const int results[] = {-EIO, -ENOSPC, -EPERM};
    Fault fault = {0};

    for (guint at = 0; at <= fault.steps && !tap_failed(); at++) {
        g_autofree char *folder = store_folder_make();
        g_autofree char *wrong = NULL;

        fault = (Fault){0, at, results[at % G_N_ELEMENTS(results)], FALSE};
        wrong = run_with_fault(folder, &fault);
        if (!wrong) {
            wrong = store_script_check(folder, STORE_SCRIPT_CHANGES, FALSE);
        }
        store_folder_remove(folder);
        if (wrong) {
            tap_fail(__FILE__, __LINE__, "step %u fails: %s", at, wrong);
        }
    }
    TAP_OK(fault.steps > 50);
}

/* From one step on the disk can no more be written to: the next start finds old or new. */
static void test_all_fails_from(void)
{
    Fault fault = {0};

    for (guint at = 0; at <= fault.steps && !tap_failed(); at++) {
        g_autofree char *folder = store_folder_make();
        g_autofree char *wrong = NULL;
        const LodgeDiskWatch watch = {fail_step, &fault};
        LodgeDomainStore *store;
        guint done = 0;

        fault = (Fault){0, at, -EROFS, TRUE};
        store = lodge_domain_store_open_watched(folder, &watch, NULL);
        while (store && done < STORE_SCRIPT_CHANGES && store_script_do(store, done, NULL)) {
            done++;
        }
        lodge_domain_store_close(store);
        wrong = store_script_check(folder, done, TRUE);
        store_folder_remove(folder);
        if (wrong) {
            tap_fail(__FILE__, __LINE__, "all fails from step %u on: %s", at, wrong);
        }
    }
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"config.store-crash.killed", test_killed},
        {"config.store-crash.killed-twice", test_killed_twice},
        {"config.store-crash.step-fails", test_step_fails},
        {"config.store-crash.all-fails-from", test_all_fails_from},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A controller killed at any moment: nothing half made is left, all that is left can be deleted, and
 * afterwards the core has its memory and its descriptors back. And the core killed at any moment: its
 * controller is told, and the next core is not held up by what is left of it. LODGE_TEST_SCALE makes it
 * longer.
 */
#include "../unit/control/guest-code.h"
#include "lib/tap.h"
#include "lib/threads.h"
#include "process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hv/stat-pages.h>

#define ROUNDS    25
#define STEPS_MAX 40u

static struct process process;
static struct peer peer;

/* ---- the victim ---- */

static void step(int told)
{
    char byte = 0;

    if (write(told, &byte, 1) != 1) {
        _exit(1);
    }
}

/* Make machines, go on with each as far as chance wants, and leave some behind, until killed. */
static void work(int told, unsigned round)
{
    for (unsigned i = 0;; i++) {
        uint64_t chance = tap_rng();
        char name[32];
        uint64_t handle;

        snprintf(name, sizeof(name), "m-%u-%u", round, i);
        handle = peer_create(&peer, name, chance & 1);
        step(told);
        if (handle == 0) {
            _exit(1);
        }
        if (chance & 2) {
            peer_load(&peer, handle, loop, sizeof(loop));
            step(told);
        }
        if (chance & 4) {
            peer_call_domain(&peer, chance & 2 ? HV_OP_UNPAUSE : HV_OP_KEEP, handle);
            step(told);
        }
        /* Else it stays; there is not room for many. */
        if ((chance & 8) || i >= 3) {
            peer_call_domain(&peer, HV_OP_KILL, handle);
            step(told);
            peer_await_state(&peer, handle, HV_DOMAIN_STATE_GONE);
        }
    }
}

static pid_t start_victim(unsigned round, int *told)
{
    int pipes[2];
    pid_t child;

    if (pipe2(pipes, O_CLOEXEC) < 0) {
        return -1;
    }
    child = fork();
    if (child == 0) {
        /* What fails, when the core is killed, is no complaint. */
        dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDOUT_FILENO);
        if (process_join(&process, &peer)) {
            work(pipes[1], round);
        }
        _exit(1);
    }
    close(pipes[1]);
    *told = pipes[0];
    return child;
}

/* One that has come so far as chance wants. When it dies, that is before its next step, in the middle of
 * it, or after: as it comes. */
static pid_t follow_victim(unsigned round, int *told)
{
    unsigned steps = (unsigned)(tap_rng() % STEPS_MAX);
    pid_t victim = start_victim(round, told);
    char byte;

    for (unsigned i = 0; victim > 0 && i < steps && read(*told, &byte, 1) == 1; i++) {
    }
    return victim;
}

/* ---- what is left ---- */

static uint64_t read_heap(const char *name)
{
    const struct hv_stat_pages_record *records;
    uint64_t value = UINT64_MAX;
    size_t bytes;

    peer.request.body.stats = (struct hv_op_stats){.kind = HV_STAT_PAGES_CORE};
    if (peer_call(&peer, HV_OP_STATS, sizeof(struct hv_op_stats)) != 0) {
        return value;
    }
    bytes = peer.answer.body.stats.count * sizeof(*records);
    records = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, peer.statistics, 0);
    for (uint64_t i = 0; records != MAP_FAILED && i < peer.answer.body.stats.count; i++) {
        if (strcmp(records[i].name, name) == 0) {
            value = records[i].value;
        }
    }
    munmap((void *)(uintptr_t)records, bytes);
    close(peer.statistics);
    peer.statistics = -1;
    return value;
}

/* Those that the heap has for anybody. */
static uint64_t free_frames(void)
{
    return read_heap("heap.free") - read_heap("heap.claimed");
}

/* But for reports: one is closed only after it was sent, and read by us. */
static bool is_lasting(const char *directory, const char *name)
{
    char path[320], target[64] = "";

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    return readlink(path, target, sizeof(target) - 1) > 0 && !strstr(target, "lodge-report");
}

static unsigned descriptors(void)
{
    const struct dirent *entry;
    unsigned count = 0;
    char path[64];
    DIR *directory;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)process.pid);
    directory = opendir(path);
    while (directory && (entry = readdir(directory)) != NULL) {
        count += is_lasting(path, entry->d_name);
    }
    if (directory) {
        closedir(directory);
    }
    return count;
}

static bool join(void)
{
    if (!process_join(&process, &peer)) {
        return false;
    }
    close(peer.statistics); /* the shared pages' */
    peer.statistics = -1;
    return true;
}

/* Nothing half made is alive any more; delete the rest. */
static void delete_all(void)
{
    struct hv_op_listing listing;

    do {
        peer.request.body.after.handle = 0;
        TAP_EQ(peer_call(&peer, HV_OP_LIST, sizeof(struct hv_op_after)), 0);
        listing = peer.answer.body.listing;
        for (uint32_t i = 0; i < listing.count; i++) {
            int32_t rc;

            TAP_OK(listing.listed[i].kept || listing.listed[i].state >= HV_DOMAIN_STATE_DYING);
            rc = peer_call_domain(&peer, HV_OP_KILL, listing.listed[i].handle);
            TAP_OK(rc == 0 || rc == -ECANCELED || rc == -ENOENT);
        }
    } while (listing.count > 0);
}

static void kill_one(unsigned round)
{
    int status, told = -1;
    pid_t victim = follow_victim(round, &told);

    TAP_OK(victim > 0);
    kill(victim, SIGKILL);
    close(told);
    TAP_OK(waitpid(victim, &status, 0) == victim);
    TAP_OK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    TAP_OK(join());
    delete_all();
}

static const char *const options[] = {"--debuggable", "--linger", "forever", NULL};

static void test_client(void)
{
    uint64_t before;
    unsigned fds;

    if (!process_prepare(&process)) {
        return;
    }
    TAP_OK(process_start(&process, options));
    TAP_OK(descriptors() > 5);
    TAP_OK(join());
    TAP_AWAIT((before = free_frames()) == 128 * HV_MIB >> HV_PAGE_SHIFT);
    fds = descriptors();
    for (unsigned round = 0; round < threads_rounds(ROUNDS) && !tap_failed(); round++) {
        peer_finish(&peer);
        kill_one(round);
        if (tap_failed()) {
            break;
        }
        TAP_AWAIT(free_frames() == before);
        TAP_AWAIT(descriptors() == fds);
    }
    peer_finish(&peer);
    process_clean(&process);
}

static void kill_core(unsigned round)
{
    int status, told = -1;
    pid_t worker = follow_victim(round, &told);
    char byte;

    TAP_OK(worker > 0);
    TAP_EQ(process_kill(&process, SIGKILL), -SIGKILL);
    /* Told that the core has gone, it can do nothing more, and ends. */
    while (read(told, &byte, 1) == 1) {
    }
    close(told);
    TAP_OK(waitpid(worker, &status, 0) == worker);
    TAP_OK(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    TAP_OK(process_start(&process, options));
    TAP_OK(join());
    TAP_EQ(peer.answer.header.op, HV_OP_HELLO);
    TAP_EQ(peer.answer.body.welcome.epoch, 1u);
    TAP_EQ(peer.answer.body.welcome.domains, 0u);
    peer_finish(&peer);
}

static void test_core(void)
{
    if (!process_prepare(&process)) {
        return;
    }
    TAP_OK(process_start(&process, options));
    for (unsigned round = 0; round < threads_rounds(ROUNDS) && !tap_failed(); round++) {
        kill_core(round);
    }
    process_clean(&process);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"core.random-kill.client", test_client},
        {"core.random-kill.core", test_core},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

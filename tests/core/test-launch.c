/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A core that is there, or is started. */
#include "lib/tap.h"
#include "lib/threads.h"

#include "common/lodge-error.h"
#include "wire/core-launch.h"
#include "wire/core-sweep.h"

#include <errno.h>
#include <gio/gio.h>
#include <gio/gunixsocketaddress.h>
#include <glib/gstdio.h>
#include <hv/op.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const LodgeCoreLaunch launch = {.memory_bytes = 64 * HV_MIB, .linger_s = 60};

static char *directory;

static bool begin(void)
{
    g_autoptr(GError) error = NULL;

    directory = g_dir_make_tmp("lodge-launch-XXXXXX", &error);
    if (!directory) {
        tap_fail(__FILE__, __LINE__, "%s", error->message);
        return false;
    }
    g_setenv("XDG_RUNTIME_DIR", directory, TRUE);
    g_setenv("LODGE_CORE", LODGE_CORE, TRUE);
    /* The person's own systemd hears nothing of it. */
    g_unsetenv("DBUS_SESSION_BUS_ADDRESS");
    return true;
}

static struct hv_core *open_core(void)
{
    g_autoptr(GError) error = NULL;
    struct hv_core *core = lodge_core_launch_open(&launch, NULL, NULL, &error);

    if (!core) {
        tap_fail(__FILE__, __LINE__, "%s", error->message);
    }
    return core;
}

static uint64_t epoch_of(const struct hv_core *core)
{
    LodgeCoreInfo info;

    lodge_core_client_get_info(core, &info);
    return info.epoch;
}

/* The process that listens at the pool's socket; 0: there is none. */
static pid_t find_core(void)
{
    g_autofree char *path = lodge_core_launch_path(&launch);
    g_autoptr(GSocketAddress) address = g_unix_socket_address_new(path);
    g_autoptr(GSocket) socket = g_socket_new(G_SOCKET_FAMILY_UNIX, G_SOCKET_TYPE_SEQPACKET,
                                             G_SOCKET_PROTOCOL_DEFAULT, NULL);
    g_autoptr(GCredentials) peer = NULL;

    if (!socket || !g_socket_connect(socket, address, NULL, NULL)) {
        return 0;
    }
    peer = g_socket_get_credentials(socket, NULL);
    return peer ? g_credentials_get_unix_pid(peer, NULL) : 0;
}

/* It is nobody's child, so that it is waited for by looking. */
static void end(void)
{
    static const char *const files[] = {"lodge/core-default.sock", "lodge/core-default.lock",
                                        "lodge"};
    pid_t core = find_core();

    TAP_OK(core > 0 && kill(core, SIGTERM) == 0);
    TAP_AWAIT(find_core() == 0);
    for (unsigned i = 0; i < HV_ARRAY_LEN(files); i++) {
        g_autofree char *path = g_build_filename(directory, files[i], NULL);

        g_remove(path);
    }
    TAP_OK(rmdir(directory) == 0);
    g_free(directory);
}

static void test_start(void)
{
    const struct hv_domain_config config = {
        .name = "kept", .engine = "auto", .memory_bytes = 4 * HV_MIB, .vcpus = 1};
    struct hv_core *core;
    struct hv_domain *domain;
    hv_handle handle;

    if (!begin()) {
        return;
    }
    core = open_core();
    TAP_OK(core);
    TAP_EQ(epoch_of(core), 1u);
    TAP_EQ(hv_domain_create(core, &config, &domain, NULL, 0), 0);
    TAP_EQ(lodge_core_client_keep(domain), 0);
    hv_domain_put(domain);
    lodge_core_client_close(core);
    /* The same one, and what was left in it. */
    core = open_core();
    TAP_OK(core);
    TAP_EQ(epoch_of(core), 2u);
    TAP_EQ(hv_core_list(core, &handle, 1), 1u);
    TAP_EQ(hv_domain_get(core, handle, &domain), 0);
    TAP_STR(hv_domain_name(domain), "kept");
    hv_domain_destroy(domain);
    lodge_core_client_close(core);
    end();
}

static void open_and_close(unsigned index, void *context)
{
    struct hv_core *core = lodge_core_launch_open(&launch, NULL, NULL, NULL);

    (void)index;
    if (core) {
        g_atomic_int_inc((gint *)context);
    }
    lodge_core_client_close(core);
}

/* Of several who begin at the same time each has it in turn, and there is one core: epochs count on. */
static void test_at_once(void)
{
    struct hv_core *core;
    gint opened = 0;

    if (!begin()) {
        return;
    }
    threads_run(4, open_and_close, &opened);
    TAP_EQ(opened, 4);
    core = open_core();
    TAP_OK(core && epoch_of(core) >= 5);
    lodge_core_client_close(core);
    end();
}

static bool has(const char *name)
{
    g_autofree char *path = g_build_filename(directory, "lodge", name, NULL);

    return g_file_test(path, G_FILE_TEST_EXISTS);
}

/* What an ended core has left goes; what is another's, or one's that lives, stays. */
static void test_sweep(void)
{
    LodgeCoreLaunch ends = launch;
    g_autofree char *stranger = NULL;
    struct hv_core *living, *ending;

    if (!begin()) {
        return;
    }
    ends.pool = "ends";
    ends.linger_s = 1;
    TAP_EQ(lodge_core_sweep(), 0u);
    living = open_core();
    ending = lodge_core_launch_open(&ends, NULL, NULL, NULL);
    TAP_OK(living && ending);
    stranger = g_build_filename(directory, "lodge", "core-stranger", NULL);
    TAP_OK(g_file_set_contents(stranger, "", 0, NULL));
    TAP_EQ(lodge_core_sweep(), 2u);
    TAP_OK(has("core-ends.sock") && has("core-ends.lock"));
    lodge_core_client_close(ending);
    TAP_AWAIT(lodge_core_sweep() == 1);
    TAP_OK(!has("core-ends.sock") && !has("core-ends.lock"));
    TAP_OK(has("core-default.sock") && has("core-default.lock") && has("core-stranger"));
    /* As often as one likes, and the pool's next core begins as its first has. */
    ending = lodge_core_launch_open(&ends, NULL, NULL, NULL);
    TAP_OK(ending && has("core-ends.sock"));
    lodge_core_client_close(ending);
    TAP_AWAIT(lodge_core_sweep() == 1);
    lodge_core_client_close(living);
    g_remove(stranger);
    end();
}

/* What the core says of itself, or that it is not there, is in the error. */
static void test_failures(void)
{
    LodgeCoreLaunch bad = launch;
    g_autoptr(GError) error = NULL;

    if (!begin()) {
        return;
    }
    bad.memory_bytes = 3 * HV_MIB;
    TAP_OK(!lodge_core_launch_open(&bad, NULL, NULL, &error));
    TAP_OK(strstr(error->message, "--memory 3145728") && strstr(error->message, "2 MiB"));
    g_clear_error(&error);
    bad = launch;
    bad.pool = "../../etc";
    TAP_OK(!lodge_core_launch_open(&bad, NULL, NULL, &error));
    TAP_OK(strstr(error->message, "pool's name"));
    g_clear_error(&error);
    bad = launch;
    bad.workers = 100000;
    TAP_OK(!lodge_core_launch_open(&bad, NULL, NULL, &error));
    TAP_OK(strstr(error->message, "--workers 100000"));
    g_clear_error(&error);
    g_setenv("LODGE_CORE", "/nonexistent/lodge-core", TRUE);
    TAP_OK(!lodge_core_launch_open(&launch, NULL, NULL, &error));
    TAP_OK(strstr(error->message, "/nonexistent/lodge-core"));
    g_clear_error(&error);
    /* A program that ends without a word. */
    g_setenv("LODGE_CORE", "/bin/true", TRUE);
    TAP_OK(!lodge_core_launch_open(&launch, NULL, NULL, &error));
    TAP_OK(strstr(error->message, "/bin/true"));
    g_clear_error(&error);
    g_setenv("XDG_RUNTIME_DIR", "/nonexistent", TRUE);
    g_setenv("LODGE_CORE", LODGE_CORE, TRUE);
    TAP_OK(!lodge_core_launch_open(&launch, NULL, NULL, &error));
    TAP_OK(strstr(error->message, "/nonexistent/lodge"));
    TAP_OK(rmdir(directory) == 0);
    g_free(directory);
}

/* A core of another version: one HELLO is heard, and refused. */
static void *refuse_one(void *listener)
{
    static const char why[] = "HELLO asks for another version than this core's, which is 7";
    int fd = accept(GPOINTER_TO_INT(listener), NULL, NULL);
    struct hv_op_answer answer = {.header.op = HV_OP_HELLO, .header.result = -EPROTO};
    struct hv_op_request hello;
    bool heard = recv(fd, &hello, sizeof(hello), 0) > 0 && hello.header.op == HV_OP_HELLO;

    answer.header.serial = hello.header.serial;
    answer.header.bytes = sizeof(answer.header) + sizeof(answer.body.refusal);
    memcpy(answer.body.refusal.why, why, sizeof(why));
    heard = heard && send(fd, &answer, answer.header.bytes, MSG_NOSIGNAL) > 0;
    close(fd);
    return GINT_TO_POINTER(heard);
}

static int listen_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    g_strlcpy(address.sun_path, path, sizeof(address.sun_path));
    if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 1) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* One that runs and is of another version is told of; none is started that would find the same. */
static void test_other_version(void)
{
    g_autofree char *path = NULL, *folder = NULL;
    g_autoptr(GError) error = NULL;
    GThread *thread;
    int listener;

    if (!begin()) {
        return;
    }
    g_setenv("LODGE_CORE", "/nonexistent/lodge-core", TRUE);
    path = lodge_core_launch_path(&launch);
    folder = g_path_get_dirname(path);
    TAP_OK(g_mkdir(folder, 0700) == 0);
    listener = listen_at(path);
    TAP_OK(listener >= 0);
    thread = g_thread_new("core", refuse_one, GINT_TO_POINTER(listener));
    TAP_OK(!lodge_core_launch_open(&launch, NULL, NULL, &error));
    TAP_OK(GPOINTER_TO_INT(g_thread_join(thread)));
    TAP_OK(g_error_matches(error, LODGE_ERROR, LODGE_ERROR_VERSION));
    TAP_OK(strstr(error->message, "“default”") && strstr(error->message, path));
    TAP_OK(strstr(error->message, "version 1 "));
    TAP_OK(strstr(error->message, "which is 7"));
    close(listener);
    g_remove(path);
    g_remove(folder);
    TAP_OK(rmdir(directory) == 0);
    g_free(directory);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"core.launch.start", test_start},
        {"core.launch.at-once", test_at_once},
        {"core.launch.sweep", test_sweep},
        {"core.launch.failures", test_failures},
        {"core.launch.other-version", test_other_version},
    };
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Machines stored and loaded again; files that are damaged, foreign or not readable; full disks. */
#include "common/lodge-error.h"
#include "config/domain-store.h"
#include "lib/tap.h"
#include "store-tools.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static gboolean save(LodgeDomainStore *store, const char *name, guint mib)
{
    g_autoptr(LodgeDomainConfig) config = store_machine(name, mib);
    g_autoptr(GError) error = NULL;
    gboolean saved = config && lodge_domain_store_save(store, config, &error);

    if (error) {
        tap_note("%s", error->message);
    }
    return saved;
}

/* What a store just opened loads. */
static char *look(const char *folder)
{
    g_autoptr(LodgeDomainStore) store = lodge_domain_store_open(folder, NULL);

    return store ? store_summary(store) : g_strdup("(not opened)");
}

static char *read_file(const char *folder, const char *file)
{
    g_autofree char *path = g_build_filename(folder, file, NULL);
    char *text = NULL;

    g_file_get_contents(path, &text, NULL, NULL);
    return text;
}

static void test_life(void)
{
    g_autofree char *folder = store_folder_make();
    g_autoptr(LodgeDomainStore) store = lodge_domain_store_open(folder, NULL);
    g_autofree char *first = NULL;
    g_autofree char *second = NULL;
    g_autofree char *old = NULL;

    TAP_OK(store && save(store, "web", 4) && save(store, "Ünï 日本 \"x\"", 8));
    TAP_OK(lodge_domain_store_set_autostart(store, "web", TRUE, NULL));
    TAP_OK(save(store, "web", 16));
    g_clear_pointer(&store, lodge_domain_store_close);
    first = look(folder);
    TAP_STR(first, "Ünï 日本 \"x\":8 web:16*");
    old = read_file(folder, "web.old");
    TAP_OK(old && strstr(old, "<memory unit='KiB'>4096</memory>"));
    store = lodge_domain_store_open(folder, NULL);
    TAP_OK(store && lodge_domain_store_set_autostart(store, "web", FALSE, NULL));
    TAP_OK(lodge_domain_store_delete(store, "Ünï 日本 \"x\"", NULL));
    TAP_OK(lodge_domain_store_delete(store, "Ünï 日本 \"x\"", NULL));
    TAP_OK(lodge_domain_store_delete(store, "never was", NULL));
    g_clear_pointer(&store, lodge_domain_store_close);
    second = look(folder);
    TAP_STR(second, "web:16");
    store_folder_remove(folder);
}

/* The one before is the last that was different. */
static void test_unchanged(void)
{
    g_autofree char *folder = store_folder_make();
    g_autoptr(LodgeDomainStore) store = lodge_domain_store_open(folder, NULL);
    g_autofree char *old = NULL;

    TAP_OK(store && save(store, "a", 4) && save(store, "a", 8) && save(store, "a", 8));
    old = read_file(folder, "a.old");
    TAP_OK(old && strstr(old, ">4096<"));
    store_folder_remove(folder);
}

static void test_rename(void)
{
    g_autofree char *folder = store_folder_make();
    g_autoptr(LodgeDomainStore) store = lodge_domain_store_open(folder, NULL);
    g_autoptr(LodgeDomainConfig) config = store_machine("new", 5);
    g_autoptr(GError) exists = NULL;
    g_autoptr(GError) missing = NULL;
    g_autofree char *summary = NULL;
    g_autofree char *old = NULL;

    TAP_OK(store && save(store, "a", 4) && save(store, "b", 4));
    TAP_OK(lodge_domain_store_set_autostart(store, "a", TRUE, NULL));
    TAP_OK(lodge_domain_store_rename(store, "a", config, NULL));
    TAP_OK(!lodge_domain_store_rename(store, "b", config, &exists));
    TAP_OK(g_error_matches(exists, LODGE_ERROR, LODGE_ERROR_INPUT));
    TAP_OK(g_str_has_prefix(exists->message, "Cannot rename the machine “b” to “new” in “"));
    TAP_OK(!lodge_domain_store_rename(store, "a", config, &missing));
    TAP_OK(g_error_matches(missing, LODGE_ERROR, LODGE_ERROR_INPUT));
    summary = store_summary(store);
    TAP_STR(summary, "b:4 new:5*");
    old = read_file(folder, "new.old");
    TAP_OK(old && strstr(old, "<name>a</name>"));
    store_folder_remove(folder);
}

static void test_one_process(void)
{
    g_autofree char *folder = store_folder_make();
    g_autoptr(LodgeDomainStore) store = lodge_domain_store_open(folder, NULL);
    g_autoptr(GError) error = NULL;

    TAP_OK(store != NULL);
    TAP_OK(!lodge_domain_store_open(folder, &error));
    TAP_OK(strstr(error->message, folder) && strstr(error->message, "another process has it"));
    store_folder_remove(folder);
}

/* Whatever else lies in the folder: said by name, left alone, and in nobody's way. */
static void test_foreign_files(void)
{
    static const struct {
        const char *file, *text, *said;
    } files[] = {
        {"README.txt", "hello", "it is no machine's file, by its name"},
        {"Web.xml", "<domain/>", "it is no machine's file, by its name"},
        {"broken.xml", "<domain type='lodge'><name>brok", "line 1: "},
        {"empty.xml", "", "Document is empty"},
        {"kvm.xml", "<domain type='kvm'/>", "has no KVM engine yet"},
        {"other.xml", "<domain type='lodge'><name>Another</name><memory>4096</memory></domain>",
         "it holds the machine “Another”, whose file is called “%41nother.xml”"},
        {"gone.autostart", "", "its machine's definition, “gone.xml”, is missing"},
        {"lost.old", "<domain/>", "its machine's definition, “lost.xml”, is missing"},
    };
    g_autofree char *folder = store_folder_make();
    g_autoptr(LodgeDomainStore) store = lodge_domain_store_open(folder, NULL);
    g_autoptr(GPtrArray) domains = NULL;
    g_autoptr(GPtrArray) problems = NULL;

    TAP_OK(store && save(store, "good", 4));
    for (gsize i = 0; i < G_N_ELEMENTS(files); i++) {
        TAP_OK(store_folder_write(folder, files[i].file, files[i].text));
    }
    TAP_OK(lodge_domain_store_load(store, &domains, &problems, NULL));
    TAP_EQ(domains->len, 1);
    TAP_EQ(problems->len, G_N_ELEMENTS(files));
    for (guint i = 0; i < problems->len; i++) {
        const LodgeStoreProblem *problem = problems->pdata[i];
        guint at = 0;

        while (!g_str_has_suffix(problem->path, files[at].file)) {
            TAP_OK(++at < G_N_ELEMENTS(files));
        }
        TAP_OK(strstr(problem->error->message, problem->path) != NULL);
        if (!strstr(problem->error->message, files[at].said)) {
            TAP_STR(problem->error->message, files[at].said);
        }
    }
    /* What is damaged can be deleted as any other. */
    TAP_OK(lodge_domain_store_delete(store, "broken", NULL));
    TAP_OK(lodge_domain_store_delete(store, "lost", NULL));
    TAP_OK(!read_file(folder, "broken.xml") && !read_file(folder, "lost.old"));
    store_folder_remove(folder);
}

static void test_damaged_has_previous(void)
{
    g_autofree char *folder = store_folder_make();
    g_autoptr(LodgeDomainStore) store = lodge_domain_store_open(folder, NULL);
    g_autoptr(GPtrArray) domains = NULL;
    g_autoptr(GPtrArray) problems = NULL;
    g_autofree char *path = g_build_filename(folder, "a.xml", NULL);
    g_autoptr(GError) taken = NULL;
    const LodgeStoreProblem *problem;

    TAP_OK(store && lodge_domain_store_check_free(store, "a", NULL));
    TAP_OK(save(store, "a", 4) && save(store, "a", 8));
    TAP_OK(store_folder_write(folder, "a.xml", "{}"));
    TAP_OK(lodge_domain_store_load(store, &domains, &problems, NULL));
    TAP_EQ(domains->len, 0);
    TAP_EQ(problems->len, 1);
    problem = problems->pdata[0];
    TAP_STR(problem->name, "a");
    TAP_OK(strstr(problem->error->message, "the definition before it is in “") != NULL);
    TAP_OK(!lodge_domain_store_check_free(store, "a", &taken));
    TAP_OK(g_error_matches(taken, LODGE_ERROR, LODGE_ERROR_INPUT));
    TAP_OK(strstr(taken->message, path) != NULL);
    TAP_OK(lodge_domain_store_check_free(store, "b", NULL));
    store_folder_remove(folder);
}

static void test_same_uuid(void)
{
    static const char xml[] = "<domain type='lodge'><name>%s</name><uuid>00112233445566778899"
                              "aabbccddeeff</uuid><memory>4096</memory></domain>";
    g_autofree char *folder = store_folder_make();
    g_autofree char *one = g_strdup_printf(xml, "one");
    g_autofree char *two = g_strdup_printf(xml, "two");
    g_autofree char *summary = NULL;

    TAP_OK(store_folder_write(folder, "one.xml", one) &&
           store_folder_write(folder, "two.xml", two));
    summary = look(folder);
    TAP_STR(summary, "one:4 !two.xml");
    store_folder_remove(folder);
}

/* No regular file holds anybody up. */
static void test_strange_files(void)
{
    g_autofree char *folder = store_folder_make();
    g_autofree char *fifo = g_build_filename(folder, "fifo.xml", NULL);
    g_autofree char *inner = g_build_filename(folder, "folder.xml", NULL);
    g_autofree char *loop = g_build_filename(folder, "loop.xml", NULL);
    g_autofree char *large = g_build_filename(folder, "large.xml", NULL);
    g_autofree char *summary = NULL;
    int fd;

    TAP_OK(mkfifo(fifo, 0600) == 0 && mkdir(inner, 0700) == 0 && symlink("loop.xml", loop) == 0);
    fd = open(large, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    TAP_OK(fd >= 0 && ftruncate(fd, 1ll << 40) == 0);
    close(fd);
    summary = look(folder);
    TAP_STR(summary, " !fifo.xml !folder.xml !large.xml !loop.xml");
    store_folder_remove(folder);
}

/* As somebody who may not do everything: root gives its rights up in a child. */
static void in_child(void (*run)(const char *folder), const char *folder)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        if (geteuid() == 0 && (setgid(65534) < 0 || setuid(65534) < 0)) {
            _exit(99);
        }
        run(folder);
        _exit(tap_failed() ? 1 : 0);
    }
    TAP_OK(waitpid(child, &status, 0) == child);
    TAP_OK(WIFEXITED(status));
    TAP_EQ(WEXITSTATUS(status), 0);
}

static void use_without_rights(const char *folder)
{
    g_autoptr(GError) open_error = NULL;
    g_autoptr(LodgeDomainStore) store = lodge_domain_store_open(folder, &open_error);
    g_autoptr(LodgeDomainConfig) config = store_machine("new", 4);
    g_autoptr(GError) error = NULL;
    g_autoptr(GError) delete_error = NULL;
    g_autofree char *summary = NULL;

    TAP_STR(open_error ? open_error->message : "", "");
    summary = store_summary(store);
    TAP_STR(summary, "open:4 !closed.xml");
    TAP_OK(!lodge_domain_store_save(store, config, &error));
    TAP_OK(strstr(error->message, "Cannot store the machine “new”") &&
           strstr(error->message, "/new.xml") && strstr(error->message, "Permission denied"));
    TAP_OK(!lodge_domain_store_delete(store, "open", &delete_error));
    TAP_OK(strstr(delete_error->message, "Permission denied") != NULL);
}

static void test_without_rights(void)
{
    g_autofree char *folder = store_folder_make();
    g_autofree char *open_file = g_build_filename(folder, "open.xml", NULL);
    g_autofree char *closed = g_build_filename(folder, "closed.xml", NULL);
    g_autoptr(LodgeDomainStore) store = lodge_domain_store_open(folder, NULL);

    TAP_OK(store && save(store, "open", 4) && save(store, "closed", 4));
    g_clear_pointer(&store, lodge_domain_store_close);
    TAP_OK(chmod(open_file, 0444) == 0 && chmod(closed, 0) == 0 && chmod(folder, 0555) == 0);
    in_child(use_without_rights, folder);
    chmod(folder, 0700);
    store_folder_remove(folder);
}

static void test_folder_is_a_file(void)
{
    g_autofree char *folder = store_folder_make();
    g_autofree char *inside = g_build_filename(folder, "file", "machines", NULL);
    g_autoptr(GError) error = NULL;

    TAP_OK(store_folder_write(folder, "file", ""));
    TAP_OK(!lodge_domain_store_open(inside, &error));
    TAP_OK(strstr(error->message, inside) && strstr(error->message, "Not a directory"));
    store_folder_remove(folder);
}

/* The process may write no file longer than its definition is: the old one stays. */
static void test_file_limit(void)
{
    g_autofree char *folder = store_folder_make();
    g_autoptr(LodgeDomainStore) store = lodge_domain_store_open(folder, NULL);
    g_autoptr(LodgeDomainConfig) config = store_machine("a", 8);
    g_autoptr(GError) error = NULL;
    g_autofree char *summary = NULL;
    g_autofree char *left = NULL;
    struct rlimit former;
    struct rlimit limit;

    TAP_OK(store && save(store, "a", 4));
    TAP_OK(getrlimit(RLIMIT_FSIZE, &former) == 0);
    limit = (struct rlimit){100, former.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    TAP_OK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    lodge_domain_store_save(store, config, &error);
    setrlimit(RLIMIT_FSIZE, &former);
    TAP_OK(error && strstr(error->message, "File too large") && strstr(error->message, "/a.xml"));
    summary = store_summary(store);
    TAP_STR(summary, "a:4");
    left = read_file(folder, "a.new");
    TAP_OK(left == NULL);
    TAP_OK(save(store, "a", 8));
    store_folder_remove(folder);
}

static gboolean fill_up(const char *folder)
{
    g_autofree char *path = g_build_filename(folder, "filler", NULL);
    static const char block[4096];
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    gboolean full = FALSE;

    while (fd >= 0 && !full) {
        full = write(fd, block, sizeof(block)) < 0 && errno == ENOSPC;
    }
    close(fd);
    return full;
}

/* A disk without room: nothing is lost, the message says why, and a delete works, and makes room. */
static void test_full_disk(void)
{
    g_autofree char *folder = store_folder_make();
    g_autoptr(LodgeDomainStore) store = NULL;
    g_autoptr(LodgeDomainConfig) config = store_machine("a", 8);
    g_autoptr(GError) error = NULL;
    g_autofree char *summary = NULL;
    g_autofree char *after = NULL;

    if (mount("tmpfs", folder, "tmpfs", 0, "size=64k,nr_inodes=64") < 0) {
        store_folder_remove(folder);
        tap_skip("A small file system needs the right to mount one.");
        return;
    }
    store = lodge_domain_store_open(folder, NULL);
    if (store && save(store, "a", 4) && save(store, "b", 4) && fill_up(folder)) {
        lodge_domain_store_save(store, config, &error);
        summary = store_summary(store);
        if (lodge_domain_store_delete(store, "b", NULL) && save(store, "a", 8)) {
            after = store_summary(store);
        }
    }
    g_clear_pointer(&store, lodge_domain_store_close);
    umount2(folder, MNT_DETACH);
    store_folder_remove(folder);
    TAP_OK(error && strstr(error->message, "No space left on device"));
    TAP_STR(summary, "a:4 b:4 !filler");
    TAP_STR(after, "a:8 !filler");
}

/* Written, it would be longer than what is read: it is refused before it takes anything's place. */
static void test_unreadable(void)
{
    g_autofree char *folder = store_folder_make();
    g_autoptr(LodgeDomainStore) store = lodge_domain_store_open(folder, NULL);
    g_autoptr(LodgeDomainConfig) config = store_machine("a", 4);
    g_autoptr(GError) long_error = NULL;
    g_autoptr(GError) field_error = NULL;
    g_autofree char *summary = NULL;

    TAP_OK(store && save(store, "a", 8));
    config->description = g_strnfill(LODGE_XML_BYTES_MAX / 4, '<');
    TAP_OK(!lodge_domain_store_save(store, config, &long_error));
    TAP_OK(g_error_matches(long_error, LODGE_ERROR, LODGE_ERROR_INPUT));
    TAP_OK(strstr(long_error->message, "/a.xml") && strstr(long_error->message, "1 MiB"));
    g_clear_pointer(&config->description, g_free);
    config->vcpus = 0;
    TAP_OK(!lodge_domain_store_save(store, config, &field_error));
    TAP_OK(g_error_matches(field_error, LODGE_ERROR, LODGE_ERROR_INPUT));
    summary = store_summary(store);
    TAP_STR(summary, "a:8");
    store_folder_remove(folder);
}

static void test_bad_names(void)
{
    g_autofree char *folder = store_folder_make();
    g_autoptr(LodgeDomainStore) store = lodge_domain_store_open(folder, NULL);
    static const char *const names[] = {"", "..", "../a", "a/b"};

    TAP_OK(store != NULL);
    for (gsize i = 0; i < G_N_ELEMENTS(names); i++) {
        TAP_OK(!lodge_domain_store_delete(store, names[i], NULL));
        TAP_OK(!lodge_domain_store_set_autostart(store, names[i], TRUE, NULL));
    }
    TAP_OK(!lodge_domain_store_set_autostart(store, "nobody", TRUE, NULL));
    store_folder_remove(folder);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"config.domain-store.life", test_life},
        {"config.domain-store.unchanged", test_unchanged},
        {"config.domain-store.rename", test_rename},
        {"config.domain-store.one-process", test_one_process},
        {"config.domain-store.foreign-files", test_foreign_files},
        {"config.domain-store.damaged-has-previous", test_damaged_has_previous},
        {"config.domain-store.same-uuid", test_same_uuid},
        {"config.domain-store.strange-files", test_strange_files},
        {"config.domain-store.without-rights", test_without_rights},
        {"config.domain-store.folder-is-a-file", test_folder_is_a_file},
        {"config.domain-store.file-limit", test_file_limit},
        {"config.domain-store.full-disk", test_full_disk},
        {"config.domain-store.unreadable", test_unreadable},
        {"config.domain-store.bad-names", test_bad_names},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

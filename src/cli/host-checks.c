/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Checks that need no daemon. */
#include "cli/host-checks.h"

#include "common/i18n.h"
#include "common/units.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#define MIB               (1024u * 1024u)
#define MEMORY_LEAST      (256 * (guint64)MIB)
#define MAPS_LEAST        65530u /* the kernel's default */
#define FILES_LEAST       1024u
#define PROCESSES_LEAST   512u
#define STRICT_OVERCOMMIT 2u

/* The first line; NULL when the file cannot be read. */
static char *read_line(const char *root, const char *name)
{
    g_autofree char *path = g_strconcat(root, name, NULL);
    char *text = NULL;

    if (!g_file_get_contents(path, &text, NULL, NULL)) {
        return NULL;
    }
    text[strcspn(text, "\n")] = '\0';
    return text;
}

static gboolean cpu_can_virtualise(const char *root)
{
    g_autofree char *path = g_strconcat(root, "/proc/cpuinfo", NULL);
    g_autofree char *text = NULL;

    return g_file_get_contents(path, &text, NULL, NULL) &&
           g_regex_match_simple("^flags\\s*:.*\\b(vmx|svm)\\b", text, G_REGEX_MULTILINE, 0);
}

/* Says which of: no node, no permission, no CPU flag, busy. Machines run without it. */
static void check_kvm(LodgeFindings *findings, const char *root)
{
    g_autofree char *path = g_strconcat(root, "/dev/kvm", NULL);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    int why = errno;
    int version;

    if (fd < 0 && why == ENOENT && cpu_can_virtualise(root)) {
        lodge_findings_add(findings, "kvm", LODGE_FINDING_NOTE,
                           _("As root: modprobe kvm_intel, or kvm_amd. The software engine needs "
                             "neither."),
                           _("KVM: the CPU can, but there is no /dev/kvm"));
    } else if (fd < 0 && why == ENOENT) {
        lodge_findings_add(
            findings, "kvm", LODGE_FINDING_NOTE,
            _("Switch virtualisation on in the firmware, or in the machine that this "
              "one runs in. The software engine needs none."),
            _("KVM: the CPU shows neither VMX nor SVM, and there is no /dev/kvm"));
    } else if (fd < 0) {
        lodge_findings_add(
            findings, "kvm", LODGE_FINDING_NOTE,
            why == EACCES || why == EPERM
                ? _("Become a member of the group “kvm”. The software engine needs no "
                    "rights.")
                : _("The software engine needs no KVM."),
            _("KVM: /dev/kvm cannot be opened: %s"), g_strerror(why));
    } else {
        version = ioctl(fd, KVM_GET_API_VERSION, 0);
        if (version == KVM_API_VERSION) {
            lodge_findings_add(findings, "kvm", LODGE_FINDING_GOOD, NULL,
                               _("KVM: usable; this version of Lodge runs machines by its software "
                                 "engine"));
        } else {
            lodge_findings_add(findings, "kvm", LODGE_FINDING_NOTE,
                               _("The software engine needs no KVM."),
                               _("KVM: /dev/kvm is no KVM of version %d"), KVM_API_VERSION);
        }
        close(fd);
    }
}

static void check_settings(LodgeFindings *findings, const char *root)
{
    g_autofree char *overcommit = read_line(root, "/proc/sys/vm/overcommit_memory");
    g_autofree char *maps = read_line(root, "/proc/sys/vm/max_map_count");
    g_autofree char *actions = read_line(root, "/proc/sys/kernel/seccomp/actions_avail");
    g_autofree char *clock =
        read_line(root, "/sys/devices/system/clocksource/clocksource0/current_clocksource");
    gboolean good = TRUE;

    if (overcommit && g_ascii_strtoull(overcommit, NULL, 10) == STRICT_OVERCOMMIT) {
        lodge_findings_add(
            findings, "overcommit", LODGE_FINDING_NOTE, _("As root: sysctl vm.overcommit_memory=0"),
            _("Kernel: it counts all memory of machines when they are made, not when "
              "they use it (vm.overcommit_memory is 2)"));
        good = FALSE;
    }
    if (maps && g_ascii_strtoull(maps, NULL, 10) < MAPS_LEAST) {
        lodge_findings_add(findings, "max-map-count", LODGE_FINDING_NOTE,
                           _("As root: sysctl vm.max_map_count=65530"),
                           _("Kernel: vm.max_map_count is %s; many machines need more"), maps);
        good = FALSE;
    }
    if (!actions || !strstr(actions, "errno")) {
        lodge_findings_add(findings, "seccomp", LODGE_FINDING_PROBLEM,
                           _("Use a kernel with CONFIG_SECCOMP_FILTER, as all distributions' are."),
                           _("Kernel: no seccomp filters, by which the core locks itself in"));
        good = FALSE;
    }
    if (clock && strcmp(clock, "tsc") != 0) {
        lodge_findings_add(
            findings, "clocksource", LODGE_FINDING_NOTE, NULL,
            _("Kernel: its clock is “%s”, not the CPU's counter: each look at the time "
              "costs more"),
            clock);
        good = FALSE;
    }
    if (good) {
        lodge_findings_add(findings, "kernel-settings", LODGE_FINDING_GOOD, NULL,
                           _("Kernel: memory, seccomp and clock are set as machines like them"));
    }
}

gboolean lodge_host_available_memory(const char *root, guint64 *bytes_out)
{
    g_autofree char *path = g_strconcat(root, "/proc/meminfo", NULL);
    g_autofree char *text = NULL;
    const char *line;

    if (!g_file_get_contents(path, &text, NULL, NULL)) {
        return FALSE;
    }
    line = strstr(text, "MemAvailable:");
    *bytes_out = line ? g_ascii_strtoull(line + strlen("MemAvailable:"), NULL, 10) * 1024 : 0;
    return line != NULL;
}

/* Of the control group that we are in; 0: none, or it is not told. */
static guint64 group_limit(const char *root, const char *file)
{
    g_autofree char *group = read_line(root, "/proc/self/cgroup");
    g_autofree char *name = NULL;
    g_autofree char *limit = NULL;

    if (!group || !g_str_has_prefix(group, "0::/")) {
        return 0;
    }
    name = g_strconcat("/sys/fs/cgroup", group + strlen("0::"), "/", file, NULL);
    limit = read_line(root, name);
    return limit ? g_ascii_strtoull(limit, NULL, 10) : 0;
}

static void check_memory(LodgeFindings *findings, const char *root)
{
    guint64 available;
    guint64 limit = group_limit(root, "memory.max");
    g_autofree char *text = NULL;
    g_autofree char *limit_text = lodge_format_rough_bytes(limit);

    if (!lodge_host_available_memory(root, &available)) {
        lodge_findings_add(findings, "memory", LODGE_FINDING_NOTE, NULL,
                           _("Memory: /proc/meminfo does not tell what is available"));
        return;
    }
    text = lodge_format_rough_bytes(available);
    if (available < MEMORY_LEAST) {
        lodge_findings_add(findings, "memory", LODGE_FINDING_PROBLEM,
                           _("End programs, or stop machines: “lodgectl top” shows what they use."),
                           _("Memory: only %s are available"), text);
    } else {
        lodge_findings_add(findings, "memory", LODGE_FINDING_GOOD, NULL,
                           _("Memory: %s are available"), text);
    }
    if (limit > 0) {
        lodge_findings_add(findings, "memory-limit", LODGE_FINDING_NOTE, NULL,
                           _("Memory: the control group allows %s to all its processes together"),
                           limit_text);
    }
}

static gboolean check_limit(LodgeFindings *findings, const char *check, int resource, rlim_t least,
                            const char *what, const char *step)
{
    struct rlimit limit;

    if (getrlimit(resource, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY ||
        limit.rlim_cur >= least) {
        return TRUE;
    }
    lodge_findings_add(findings, check, LODGE_FINDING_PROBLEM, step,
                       _("Limits: %s: %" G_GUINT64_FORMAT " are allowed"), what,
                       (guint64)limit.rlim_cur);
    return FALSE;
}

static void check_limits(LodgeFindings *findings, const char *root)
{
    gboolean good = TRUE;
    guint64 tasks = group_limit(root, "pids.max");

    good &= check_limit(findings, "open-files", RLIMIT_NOFILE, FILES_LEAST, _("open files"),
                        _("Allow more, by “ulimit -n 1024” or in /etc/security/limits.conf."));
    good &= check_limit(findings, "processes", RLIMIT_NPROC, PROCESSES_LEAST,
                        _("processes and threads"),
                        _("Allow more, by “ulimit -u 512” or in /etc/security/limits.conf."));
    good &=
        check_limit(findings, "address-space", RLIMIT_AS, RLIM_INFINITY,
                    _("bytes of address space, which the core reserves far more of than it uses"),
                    _("Allow any, by “ulimit -v unlimited”."));
    if (tasks > 0 && tasks < PROCESSES_LEAST) {
        lodge_findings_add(
            findings, "tasks", LODGE_FINDING_PROBLEM,
            _("Raise TasksMax of the unit or session that this runs in."),
            _("Limits: threads in the control group: %" G_GUINT64_FORMAT " are allowed"), tasks);
        good = FALSE;
    }
    if (good) {
        lodge_findings_add(findings, "limits", LODGE_FINDING_GOOD, NULL,
                           _("Limits: enough files, threads and address space"));
    }
}

/* Cores have scopes of their own in the user's systemd, which ends with the last session unless its user
 * lingers: systemd's logind keeps a file for each who does. Without it nobody ends them. */
static void check_logout(LodgeFindings *findings, const char *root)
{
    const char *runtime = g_getenv("XDG_RUNTIME_DIR");
    g_autofree char *manager =
        g_build_filename(runtime ? runtime : "/", "systemd", "private", NULL);
    g_autofree char *lingers =
        g_strconcat(root, "/var/lib/systemd/linger/", g_get_user_name(), NULL);

    if (!g_file_test(manager, G_FILE_TEST_EXISTS)) {
        return;
    }
    if (g_file_test(lingers, G_FILE_TEST_EXISTS)) {
        lodge_findings_add(findings, "logout", LODGE_FINDING_GOOD, NULL,
                           _("Logout: machines go on when you have logged out"));
    } else {
        lodge_findings_add(findings, "logout", LODGE_FINDING_NOTE,
                           _("“loginctl enable-linger” lets them go on."),
                           _("Logout: machines end with your last session"));
    }
}

void lodge_host_check(LodgeFindings *findings, const char *root)
{
    check_logout(findings, root);
    check_kvm(findings, root);
    check_settings(findings, root);
    check_memory(findings, root);
    check_limits(findings, root);
}

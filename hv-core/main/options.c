/* SPDX-License-Identifier: GPL-3.0-or-later */
/* getopt_long(3), whose own messages are off, and a table of what each option means. */
#include "main/options.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/format.h"

#define LINGER_DEFAULT_S 30u
#define LINGER_MAX_S     1000000u
#define STATS_DEFAULT_MS 1000u
#define STATS_MAX_MS     3600000u

static const char help[] =
    "Usage: lodge-core [OPTION…]\n"
    "\n"
    "Holds virtual machines, and serves them to one controller over a socket. virtlodged starts "
    "it.\n"
    "\n"
    "  --pool NAME        the socket is $XDG_RUNTIME_DIR/lodge/core-NAME.sock (default: default)\n"
    "  --memory SIZE      for all machines together; K, M, G or T may follow (all that the host "
    "has)\n"
    "  --workers N        threads that run virtual CPUs (one for each of the host's CPUs)\n"
    "  --policy POLICY    credit: machines share the workers; host: a thread each (credit)\n"
    "  --stat-period MS   how often statistics go to shared pages; 0: never (1000)\n"
    "  --linger SECONDS   end after so long without machine and controller, or `forever' (30)\n"
    "  --listen-fd FD     serve this listening socket, and make none\n"
    "  --caller-fd FD     serve this connected socket alone, and end with it\n"
    "  --ready-fd FD      write “ready” into it when machines can be made, or what is wrong\n"
    "  --sandbox MODE     host calls it has no need of are refused and counted (refuse), end it\n"
    "                     (kill), or are let through (none) (refuse)\n"
    "  --debuggable       let other processes of the same user look into it\n"
    "  --help, --version\n";

static void write_text(int fd, const char *text, size_t length)
{
    ssize_t written = write(fd, text, length);

    (void)written; /* nobody reads it */
}

/* Who started us reads there, if anybody does. */
static struct {
    int fd;
} complaints = {-1};

void hv_options_complain(const char *format, ...)
{
    char line[512] = "lodge-core: ";
    size_t length = strlen(line);
    va_list args;

    va_start(args, format);
    length += hv_format_args(line + length, sizeof(line) - length - 1, format, args);
    va_end(args);
    line[length++] = '\n';
    write_text(STDERR_FILENO, line, length);
    if (complaints.fd >= 0) {
        write_text(complaints.fd, line, length);
    }
}

void hv_options_say_ready(void)
{
    static const char ready[] = "ready\n";

    if (complaints.fd >= 0) {
        write_text(complaints.fd, ready, sizeof(ready) - 1);
        close(complaints.fd);
        complaints.fd = -1;
    }
}

/* A whole number in decimal digits, up to @most. */
static bool read_number(const char *text, uint64_t most, uint64_t *number_out)
{
    char *end;

    errno = 0;
    *number_out = strtoull(text, &end, 10);
    return errno == 0 && *text >= '0' && *text <= '9' && *end == '\0' && *number_out <= most;
}

static bool read_size(const char *text, uint64_t *bytes_out)
{
    static const char letters[] = "KMGT";
    char digits[24];
    size_t length = strnlen(text, sizeof(digits));
    const char *letter =
        length > 0 && length < sizeof(digits) ? strchr(letters, text[length - 1]) : NULL;
    unsigned shift = letter ? 10 * (unsigned)(letter - letters + 1) : 0;

    if (length == sizeof(digits)) {
        return false;
    }
    memcpy(digits, text, length + 1);
    digits[letter ? length - 1 : length] = '\0';
    if (!read_number(digits, UINT64_MAX >> shift, bytes_out)) {
        return false;
    }
    *bytes_out <<= shift;
    return *bytes_out > 0 && *bytes_out % HV_EXTENT_SIZE == 0;
}

static bool is_pool_name(const char *name)
{
    size_t length = strnlen(name, HV_OPTIONS_POOL_MAX + 1);
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";

    return length > 0 && length <= HV_OPTIONS_POOL_MAX && name[0] != '.' &&
           strspn(name, good) == length;
}

/* One that was inherited: not a standard file, and open. */
static bool read_fd(const char *text, int *fd_out)
{
    uint64_t number;

    if (!read_number(text, INT32_MAX, &number) || number <= STDERR_FILENO ||
        fcntl((int)number, F_GETFD) < 0) {
        return false;
    }
    *fd_out = (int)number;
    return true;
}

/* SO_ACCEPTCONN says whether it listens. */
static bool read_socket(const char *text, int listens, int *fd_out)
{
    int type = 0, accepts = -1;
    socklen_t size = sizeof(type);

    return read_fd(text, fd_out) && getsockopt(*fd_out, SOL_SOCKET, SO_TYPE, &type, &size) == 0 &&
           type == SOCK_SEQPACKET &&
           getsockopt(*fd_out, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &size) == 0 &&
           accepts == listens;
}

static const char *read_pool(struct hv_options *options, const char *value)
{
    if (!is_pool_name(value)) {
        return "a pool's name has 1 to 32 letters, digits, '-', '_' and '.', and does not begin "
               "with '.'";
    }
    memcpy(options->pool, value, strlen(value) + 1);
    return NULL;
}

static const char *read_memory(struct hv_options *options, const char *value)
{
    return read_size(value, &options->core.memory_bytes)
               ? NULL
               : "a multiple of 2 MiB is wanted, as in 512M or 16G";
}

static const char *read_workers(struct hv_options *options, const char *value)
{
    uint64_t number;

    if (!read_number(value, HV_SCHED_MAX_WORKERS, &number) || number == 0) {
        return "from 1 to as many as the host has CPUs, at most 256";
    }
    options->core.workers = (unsigned)number;
    return NULL;
}

static const char *read_policy(struct hv_options *options, const char *value)
{
    bool host = strcmp(value, "host") == 0;

    options->core.policy = host ? HV_SCHED_POLICY_HOST : HV_SCHED_POLICY_CREDIT;
    return host || strcmp(value, "credit") == 0 ? NULL : "there are credit and host";
}

static const char *read_stat_period(struct hv_options *options, const char *value)
{
    uint64_t number;

    if (!read_number(value, STATS_MAX_MS, &number) || (number > 0 && number < 10)) {
        return "0, or 10 to 3600000 milliseconds";
    }
    options->core.stat_period_ns = number * HV_NS_PER_MS;
    return NULL;
}

static const char *read_linger(struct hv_options *options, const char *value)
{
    uint64_t number = 0;

    if (strcmp(value, "forever") == 0) {
        options->linger_ns = HV_NS_NEVER.v;
        return NULL;
    }
    if (!read_number(value, LINGER_MAX_S, &number)) {
        return "0 to 1000000 seconds, or forever";
    }
    options->linger_ns = number * HV_NS_PER_S;
    return NULL;
}

static const char *read_listen(struct hv_options *options, const char *value)
{
    return read_socket(value, 1, &options->listen_fd)
               ? NULL
               : "an inherited SOCK_SEQPACKET socket that listens is wanted";
}

static const char *read_caller(struct hv_options *options, const char *value)
{
    return read_socket(value, 0, &options->caller_fd)
               ? NULL
               : "an inherited SOCK_SEQPACKET socket that is connected is wanted";
}

static const char *read_ready(struct hv_options *options, const char *value)
{
    if (!read_fd(value, &options->ready_fd)) {
        return "an inherited file descriptor is wanted";
    }
    complaints.fd = options->ready_fd;
    return NULL;
}

static const char *read_sandbox(struct hv_options *options, const char *value)
{
    static const char *const modes[] = {
        [HV_SANDBOX_REFUSE] = "refuse",
        [HV_SANDBOX_KILL] = "kill",
        [HV_SANDBOX_NONE] = "none",
    };

    for (unsigned i = 0; i < HV_ARRAY_LEN(modes); i++) {
        if (strcmp(value, modes[i]) == 0) {
            options->sandbox = (enum hv_sandbox)i;
            return NULL;
        }
    }
    return "there are refuse, kill and none";
}

static const char *read_debuggable(struct hv_options *options, const char *value)
{
    (void)value;
    options->debuggable = true;
    return NULL;
}

static const struct {
    const char *name;
    bool valued;
    const char *(*read)(struct hv_options *options, const char *value); /* NULL: said and done */
} known[] = {
    {"pool", true, read_pool},
    {"memory", true, read_memory},
    {"workers", true, read_workers},
    {"policy", true, read_policy},
    {"stat-period", true, read_stat_period},
    {"linger", true, read_linger},
    {"listen-fd", true, read_listen},
    {"caller-fd", true, read_caller},
    {"ready-fd", true, read_ready},
    {"sandbox", true, read_sandbox},
    {"debuggable", false, read_debuggable},
    {"help", false, NULL},
    {"version", false, NULL},
};

/* All memory of the host, in whole extents. */
static uint64_t host_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t bytes = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : HV_GIB;

    return bytes & ~(HV_EXTENT_SIZE - 1);
}

static enum hv_options_result say(unsigned option)
{
    static const char version[] = "lodge-core " LODGE_VERSION "\n";
    bool wants_help = strcmp(known[option].name, "help") == 0;

    write_text(STDOUT_FILENO, wants_help ? help : version,
               wants_help ? sizeof(help) - 1 : sizeof(version) - 1);
    return HV_OPTIONS_DONE;
}

static enum hv_options_result read_all(int argc, char **argv, const struct option *longs,
                                       struct hv_options *options)
{
    const char *wrong;
    int index = 0;
    int got;

    opterr = 0;
    while ((got = getopt_long(argc, argv, ":", longs, &index)) == 0) {
        if (!known[index].read) {
            return say((unsigned)index);
        }
        wrong = known[index].read(options, optarg);
        if (wrong) {
            hv_options_complain("--%s %s: %s", known[index].name, optarg, wrong);
            return HV_OPTIONS_WRONG;
        }
    }
    if (got == -1 && optind == argc) {
        return HV_OPTIONS_RUN;
    }
    hv_options_complain("%s: %s; lodge-core --help shows what there is",
                        argv[got == -1 ? optind : optind - 1],
                        got == ':' ? "a value is missing" : "there is no such option");
    return HV_OPTIONS_WRONG;
}

enum hv_options_result hv_options_read(int argc, char **argv, struct hv_options *options_out)
{
    struct option longs[HV_ARRAY_LEN(known) + 1] = {{0}};
    enum hv_options_result result;

    for (size_t i = 0; i < HV_ARRAY_LEN(known); i++) {
        longs[i].name = known[i].name;
        longs[i].has_arg = known[i].valued ? required_argument : no_argument;
    }
    *options_out = (struct hv_options){
        .pool = "default",
        .core = {.memory_bytes = host_memory(), .stat_period_ns = STATS_DEFAULT_MS * HV_NS_PER_MS},
        .linger_ns = LINGER_DEFAULT_S * HV_NS_PER_S,
        .listen_fd = -1,
        .caller_fd = -1,
        .ready_fd = -1,
        .sandbox = HV_SANDBOX_REFUSE,
    };
    result = read_all(argc, argv, longs, options_out);
    if (result == HV_OPTIONS_RUN && options_out->listen_fd >= 0 && options_out->caller_fd >= 0) {
        hv_options_complain("--listen-fd and --caller-fd: one of them");
        result = HV_OPTIONS_WRONG;
    }
    return result;
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* `hv-bench NAME [OPTION…]`: the benches of the core's mechanisms. See hv-bench.h. */
#include "bench/hv-bench.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static const struct hv_bench *const benches[] = {
    &hv_bench_destroy, &hv_bench_foreign, &hv_bench_locks, &hv_bench_vpt, &hv_bench_yield,
};

static void print_usage(void)
{
    printf("Usage: hv-bench NAME [--json] [--quick] [OPTION...]\n\n");
    for (size_t i = 0; i < HV_ARRAY_LEN(benches); i++) {
        printf("  %-10s %s\n", benches[i]->name, benches[i]->summary);
    }
    printf("\n`hv-bench NAME --help` lists the options of one.\n");
}

static const struct hv_bench *find(const char *name)
{
    for (size_t i = 0; i < HV_ARRAY_LEN(benches); i++) {
        if (strcmp(benches[i]->name, name) == 0) {
            return benches[i];
        }
    }
    return NULL;
}

static int complain(const char *name)
{
    char names[256];
    size_t at = 0;

    for (size_t i = 0; i < HV_ARRAY_LEN(benches) && at < sizeof(names); i++) {
        at += (size_t)snprintf(names + at, sizeof(names) - at, "%s%s", i ? ", " : "",
                               benches[i]->name);
    }
    return name ? bench_complain("no bench “%s”; expected %s", name, names)
                : bench_complain("a name is missing: %s", names);
}

int main(int argc, char **argv)
{
    struct bench bench = {0};
    bool help = false;
    int status;

    /* A file that may grow no further is an error of the write, as a full disk is. */
    signal(SIGXFSZ, SIG_IGN);
    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        print_usage();
        bench_flush();
        return 0;
    }
    bench.what = argc > 1 ? find(argv[1]) : NULL;
    if (!bench.what) {
        return complain(argc > 1 ? argv[1] : NULL);
    }
    bench_begin(bench.what);
    status = bench_parse(&bench, argc - 2, argv + 2, &help);
    if (status != 0) {
        return status;
    }
    if (help) {
        bench_print_help(bench.what);
        bench_flush();
        return 0;
    }
    status = bench.what->check ? bench.what->check(&bench) : 0;
    if (status != 0) {
        return status;
    }
    bench_print_setup(&bench);
    status = bench.what->run(&bench);
    bench_flush();
    return status;
}

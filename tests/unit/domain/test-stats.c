/* SPDX-License-Identifier: GPL-3.0-or-later */
/* docs/stats.md against what a machine emits: neither has a name that the other lacks. */
#include "lib/tap.h"
#include "machine.h"

#include <stdio.h>
#include <string.h>

#define STATS_MAX 1024
#define NAMES_MAX 256

struct names {
    char name[NAMES_MAX][sizeof(((struct hv_stat *)0)->name)];
    size_t count;
};

static bool has(const struct names *names, const char *name)
{
    for (size_t i = 0; i < names->count; i++) {
        if (strcmp(names->name[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static void add(struct names *names, const char *name)
{
    if (!has(names, name) && names->count < NAMES_MAX) {
        snprintf(names->name[names->count++], sizeof(names->name[0]), "%s", name);
    }
}

/* Each element that is a number becomes "<i>", as the page writes it. */
static void generalise(const char *name, char *out, size_t size)
{
    size_t at = 0;

    for (const char *from = name; *from != '\0' && at + 4 < size;) {
        size_t length = strcspn(from, ".");
        size_t digits = strspn(from, "0123456789");

        at += (size_t)snprintf(out + at, size - at, "%.*s", digits == length ? 3 : (int)length,
                               digits == length ? "<i>" : from);
        from += length;
        if (*from == '.') {
            out[at++] = *from++;
            out[at] = '\0';
        }
    }
}

/* What stands between backquotes in the first column of the page's table. */
static bool read_page(struct names *names)
{
    FILE *page = fopen(STATS_PAGE, "r");
    char line[1024];

    while (page && fgets(line, sizeof(line), page)) {
        char *end = line[0] == '|' ? strchr(line + 1, '|') : NULL;

        if (end) {
            *end = '\0';
            for (char *at = strchr(line, '`'); at; at = strchr(at, '`')) {
                char *close = strchr(at + 1, '`');

                if (!close) {
                    break;
                }
                *close = '\0';
                add(names, at + 1);
                at = close + 1;
            }
        }
    }
    return page && fclose(page) == 0 && names->count > 0;
}

static bool read_machine(struct names *names)
{
    static struct hv_stat stats[STATS_MAX];
    struct machine machine;
    size_t count;

    if (!machine_make(&machine, 2)) {
        return false;
    }
    count = hv_domain_get_stats(machine.domain, stats, STATS_MAX);
    for (size_t i = 0; i < count && i < STATS_MAX; i++) {
        char name[sizeof(stats[0].name)] = "";

        generalise(stats[i].name, name, sizeof(name));
        add(names, name);
    }
    machine_unmake(&machine);
    return count <= STATS_MAX;
}

static void test_page(void)
{
    static struct names page, machine;

    TAP_OK(read_page(&page));
    TAP_OK(read_machine(&machine));
    for (size_t i = 0; i < machine.count; i++) {
        if (!has(&page, machine.name[i])) {
            tap_fail(__FILE__, __LINE__, "%s lacks %s", STATS_PAGE, machine.name[i]);
        }
    }
    for (size_t i = 0; i < page.count; i++) {
        if (!has(&machine, page.name[i])) {
            tap_fail(__FILE__, __LINE__, "%s has %s, which is not emitted", STATS_PAGE,
                     page.name[i]);
        }
    }
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"domain.stats.page", test_page},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

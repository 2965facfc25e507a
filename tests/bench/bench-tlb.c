/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What a TLB miss and the changes of address space and mode cost, in nanoseconds of CPU time: the
 * median of 15 runs, and their range. `--quick` makes one.
 */
#include "engine/soft/access.h"

#include <stdio.h>
#include <time.h>

#include "unit/engine/soft-tables.h"

#define RUNS  15u
#define PAGES 448u /* mapped one by one: from 256 KiB to 2 MiB */
#define FIRST 64u

static unsigned repeats = 2000;

struct bench {
    const char *name;
    void (*prepare)(struct guest *guest);
    uint64_t (*run)(struct hv_engine_vcpu *vcpu); /* operations done */
};

static uint64_t touch(struct hv_engine_vcpu *vcpu, bool write)
{
    for (uint64_t i = FIRST; i < FIRST + PAGES; i++) {
        uint64_t value;

        if (write ? soft_write_slow(vcpu, i * HV_PAGE_SIZE, 8, i)
                  : soft_read_slow(vcpu, i * HV_PAGE_SIZE, 8, &value)) {
            abort();
        }
    }
    return PAGES;
}

/* Grow the tables and let accessed and dirty bits be set. */
static void prepare_pages(struct guest *guest)
{
    for (unsigned i = 0; i < 8; i++) {
        touch(&guest->vcpu[0], false);
        touch(&guest->vcpu[0], true);
    }
}

static void prepare_global(struct guest *guest)
{
    for (uint64_t i = FIRST; i < FIRST + PAGES; i++) {
        guest_map(guest, i * HV_PAGE_SIZE, i * HV_PAGE_SIZE | PTE_TABLE | PTE_G);
    }
    prepare_pages(guest);
}

static uint64_t run_read_misses(struct hv_engine_vcpu *vcpu)
{
    soft_tlb_flush_all(vcpu);
    return touch(vcpu, false);
}

static uint64_t run_write_misses(struct hv_engine_vcpu *vcpu)
{
    soft_tlb_flush_all(vcpu);
    return touch(vcpu, true);
}

static uint64_t run_global_refills(struct hv_engine_vcpu *vcpu)
{
    soft_tlb_flush_non_global(vcpu);
    return touch(vcpu, false);
}

static uint64_t run_slow_hits(struct hv_engine_vcpu *vcpu)
{
    return touch(vcpu, false);
}

static uint64_t run_flush_all(struct hv_engine_vcpu *vcpu)
{
    soft_tlb_flush_all(vcpu);
    return 1;
}

static uint64_t run_cr3_write(struct hv_engine_vcpu *vcpu)
{
    soft_tlb_flush_non_global(vcpu);
    return 1;
}

static uint64_t run_pcid_switch(struct hv_engine_vcpu *vcpu)
{
    soft_tlb_switch_pcid(vcpu, 1, true);
    soft_tlb_switch_pcid(vcpu, 2, true);
    return 2;
}

static uint64_t run_invlpg(struct hv_engine_vcpu *vcpu)
{
    soft_tlb_flush_page(vcpu, (hv_gva){FIRST * HV_PAGE_SIZE});
    return 1;
}

static uint64_t run_mode_change(struct hv_engine_vcpu *vcpu)
{
    vcpu->cpu->cpl = 3;
    soft_tlb_set_mode(vcpu);
    vcpu->cpu->cpl = 0;
    soft_tlb_set_mode(vcpu);
    return 2;
}

static double cpu_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    double difference = *(const double *)a - *(const double *)b;

    return (difference > 0) - (difference < 0);
}

static double run_once(const struct bench *bench)
{
    struct guest *guest = guest_create();
    uint64_t operations = 0;
    double start, end;

    guest_long_mode(guest, 0);
    if (bench->prepare) {
        bench->prepare(guest);
    }
    start = cpu_ns();
    for (unsigned i = 0; i < repeats; i++) {
        operations += bench->run(&guest->vcpu[0]);
    }
    end = cpu_ns();
    guest_destroy(guest);
    return (end - start) / (double)operations;
}

int main(int argc, char **argv)
{
    static const struct bench benches[] = {
        {"read miss, 4-level walk and fill", prepare_pages, run_read_misses},
        {"write miss, 4-level walk and fill", prepare_pages, run_write_misses},
        {"miss, refilled from the global level", prepare_global, run_global_refills},
        {"slow read that hits", prepare_pages, run_slow_hits},
        {"flush all", NULL, run_flush_all},
        {"CR3 write without PCIDs", NULL, run_cr3_write},
        {"CR3 write with PCID, kept", NULL, run_pcid_switch},
        {"INVLPG", prepare_pages, run_invlpg},
        {"change of CPL", NULL, run_mode_change},
    };
    bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    unsigned runs = quick ? 1 : RUNS;

    repeats = quick ? 20 : repeats;
    for (unsigned i = 0; i < HV_ARRAY_LEN(benches); i++) {
        double ns[RUNS];

        for (unsigned j = 0; j < runs; j++) {
            ns[j] = run_once(&benches[i]);
        }
        qsort(ns, runs, sizeof(ns[0]), ascending);
        printf("%-40s %8.1f ns  [%.1f, %.1f]\n", benches[i].name, ns[runs / 2], ns[0],
               ns[runs - 1]);
    }
    return 0;
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Ends of interrupt in memory: offered when nothing else is there, settled before anything depends on
 * them. The last case holds a local APIC with them against one without.
 */
#include "platform/lapic.h"

#include "unit/platform/pv-rig.h"
#include "unit/platform/rig-irq.h"

#define AREA UINT64_C(0x4000)
#define LOW  0x41u
#define HIGH 0x81u

static struct rig *start(void)
{
    struct rig *rig = pv_rig_new(PV_ALL);

    for (unsigned i = 0; i < RIG_VCPUS; i++) {
        rig_apic_enable(rig, i);
    }
    return pv_register(rig, 0, PV_EOI, AREA | PV_ON) ? rig : NULL;
}

static void request(struct rig *rig, unsigned vcpu, uint8_t vector, bool level)
{
    const struct hv_interrupt interrupt = {.destination = vcpu, .vector = vector, .level = level};

    (void)hv_lapics_send(&rig->platform.lapics, &interrupt);
}

static bool in_service(struct rig *rig, uint8_t vector)
{
    return rig_apic_read(rig, 0, 0x100 + vector / 32u * 16) >> vector % 32 & 1;
}

static bool offered(void)
{
    return pv_peek(AREA, 1) & 1;
}

/* What Linux does in place of the write to EOI: true when that is all. */
static bool guest_eoi(void)
{
    bool offer = offered();

    pv_poke(AREA, 1, 0);
    return offer;
}

static uint64_t taken(const struct rig *rig)
{
    return hv_load_relaxed(&rig->platform.lapics.lapic[0].counters.memory_eois);
}

static void test_alone(void)
{
    struct rig *rig = start();

    request(rig, 0, LOW, false);
    TAP_EQ(rig_take(rig, 0), LOW);
    TAP_OK(offered());
    TAP_OK(guest_eoi());
    TAP_OK(!in_service(rig, LOW));
    TAP_EQ(taken(rig), 1);
    /* It looks at its APIC before it is done: a write will come, and is needed. */
    request(rig, 0, LOW, false);
    TAP_EQ(rig_take(rig, 0), LOW);
    TAP_OK(in_service(rig, LOW));
    TAP_OK(!guest_eoi());
    TAP_OK(in_service(rig, LOW));
    rig_eoi(rig, 0);
    TAP_OK(!in_service(rig, LOW));
    TAP_EQ(taken(rig), 1);
}

/* A guest that has not heard of the offer writes to EOI, for one interrupt, not two. */
static void test_written(void)
{
    struct rig *rig = start();

    request(rig, 0, LOW, false);
    TAP_EQ(rig_take(rig, 0), LOW);
    rig_eoi(rig, 0);
    TAP_OK(!offered() && !in_service(rig, LOW));
    TAP_EQ(taken(rig), 0);
}

/* An interrupt of the same class comes after the other has ended in memory: it kicks, and is taken. */
static void test_request_after(void)
{
    struct rig *rig = start();
    unsigned kicks;

    request(rig, 0, HIGH, false);
    TAP_EQ(rig_take(rig, 0), HIGH);
    TAP_OK(guest_eoi());
    TAP_OK(!hv_platform_interrupt_pending(&rig->platform, 0));
    kicks = rig->kicks[0];
    request(rig, 0, LOW, false);
    TAP_EQ(rig->kicks[0], kicks + 1);
    TAP_EQ(rig_take(rig, 0), LOW);
    TAP_OK(!in_service(rig, HIGH));
    TAP_EQ(taken(rig), 1);
}

/* And before: then it waits for the write. */
static void test_request_before(void)
{
    struct rig *rig = start();

    request(rig, 0, HIGH, false);
    TAP_EQ(rig_take(rig, 0), HIGH);
    request(rig, 0, LOW, false);
    TAP_EQ(rig_take(rig, 0), -1);
    TAP_OK(!guest_eoi());
    rig_eoi(rig, 0);
    TAP_EQ(rig_take(rig, 0), LOW);
    TAP_OK(guest_eoi());
    TAP_OK(!in_service(rig, LOW) && !in_service(rig, HIGH));
}

static void test_nested(void)
{
    struct rig *rig = start();

    request(rig, 0, LOW, false);
    TAP_EQ(rig_take(rig, 0), LOW);
    TAP_OK(offered());
    request(rig, 0, HIGH, false);
    TAP_EQ(rig_take(rig, 0), HIGH);
    TAP_OK(!offered()); /* an end could be either's */
    rig_eoi(rig, 0);
    TAP_OK(in_service(rig, LOW) && !in_service(rig, HIGH));
    rig_eoi(rig, 0);
    TAP_OK(!in_service(rig, LOW));
    /* Two requested: the first is not alone. */
    request(rig, 0, LOW, false);
    request(rig, 0, HIGH, false);
    TAP_EQ(rig_take(rig, 0), HIGH);
    TAP_OK(!offered());
    rig_eoi(rig, 0);
    TAP_EQ(rig_take(rig, 0), LOW);
    TAP_OK(offered());
}

/* The I/O APIC waits for a level-triggered interrupt's end. */
static void test_level(void)
{
    struct rig *rig = start();

    rig_ioapic_write(rig, 21, LOW | 1u << 15);
    hv_platform_set_gsi(&rig->platform, 21, true);
    TAP_EQ(rig_take(rig, 0), LOW);
    TAP_OK(!offered());
    rig_eoi(rig, 0);
    TAP_EQ(rig_take(rig, 0), LOW); /* the line is still high */
    hv_platform_set_gsi(&rig->platform, 21, false);
    rig_eoi(rig, 0);
    TAP_EQ(rig_take(rig, 0), -1);
    /* The same vector as an edge, and as a level while that is in service. */
    request(rig, 0, LOW, false);
    TAP_EQ(rig_take(rig, 0), LOW);
    TAP_OK(guest_eoi());
    hv_platform_set_gsi(&rig->platform, 21, true);
    TAP_EQ(rig_take(rig, 0), LOW);
    TAP_EQ(rig_ioapic_read(rig, 21) >> 14 & 1, 1); /* remote IRR: nobody has ended that */
    hv_platform_set_gsi(&rig->platform, 21, false);
    rig_eoi(rig, 0);
    TAP_EQ(rig_ioapic_read(rig, 21) >> 14 & 1, 0);
}

/* The area goes, by what it may; what was ended in it has ended. */
static void test_area_goes(void)
{
    struct rig *rig = start();

    for (unsigned way = 0; way < 4; way++) {
        TAP_OK(pv_register(rig, 0, PV_EOI, AREA | PV_ON));
        rig_apic_enable(rig, 0);
        request(rig, 0, LOW, false);
        TAP_EQ(rig_take(rig, 0), LOW);
        TAP_OK(guest_eoi());
        if (way == 0) {
            TAP_OK(pv_register(rig, 0, PV_EOI, 0));
        } else if (way == 1) {
            TAP_OK(pv_register(rig, 0, PV_EOI, (AREA + 64) | PV_ON));
        } else if (way == 2) {
            hv_platform_init_cpu(&rig->platform, 0);
        } else {
            TAP_EQ(pv_wrmsr(rig, 0, 0x1b, 0xfee00100), 0); /* APIC off, and on */
            TAP_EQ(pv_wrmsr(rig, 0, 0x1b, 0xfee00900), 0);
            rig_apic_enable(rig, 0);
        }
        TAP_OK(!in_service(rig, LOW));
        TAP_OK(way == 1 || way == 3 || !pv_page_pinned(AREA));
    }
}

/* Saved between offer and end, either way. */
static void test_save(void)
{
    static struct hv_platform_record record;

    for (unsigned ended = 0; ended < 2; ended++) {
        struct rig *rig = start();
        const char *field;

        request(rig, 0, LOW, false);
        TAP_EQ(rig_take(rig, 0), LOW);
        TAP_OK(!ended || guest_eoi());
        hv_platform_save(&rig->platform, &record);
        TAP_EQ(record.lapic[0].isr[LOW / 32] != 0, !ended);
        TAP_OK(!offered());
        request(rig, 0, HIGH, false);
        TAP_EQ(rig_take(rig, 0), HIGH);
        TAP_EQ(hv_platform_load(&rig->platform, &record, &field), 0);
        TAP_EQ(pv_settle(rig, 0), 0);
        TAP_EQ(in_service(rig, LOW), !ended);
        TAP_OK(!in_service(rig, HIGH));
    }
}

/*
 * Two vCPUs are sent the same, one ends interrupts in memory where it may. Whatever is asked in
 * between, they take the same vectors in the same order.
 */
static void test_same(void)
{
    struct rig *rig = start();
    unsigned open[2] = {0, 0};

    for (unsigned i = 0; i < 20000; i++) {
        uint8_t vector = (uint8_t)(0x20 + tap_rng() % 0x60);
        int got[2];

        switch (tap_rng() % 8) {
        case 0:
            for (unsigned vcpu = 0; vcpu < 2; vcpu++) {
                request(rig, vcpu, vector, vector % 8 == 0);
            }
            break;
        case 1:
        case 2:
        case 3:
            got[0] = rig_take(rig, 0);
            got[1] = rig_take(rig, 1);
            TAP_EQ(got[0], got[1]);
            open[0] += got[0] >= 0;
            open[1] += got[1] >= 0;
            break;
        case 4:
        case 5:
        case 6:
            if (open[0] > 0) {
                if (!guest_eoi()) {
                    rig_eoi(rig, 0);
                }
                rig_eoi(rig, 1);
                open[0]--;
                open[1]--;
            }
            break;
        default:
            hv_platform_cr8_write(&rig->platform, 0, vector >> 5);
            hv_platform_cr8_write(&rig->platform, 1, vector >> 5);
            break;
        }
        if (tap_rng() % 8 == 0) {
            TAP_EQ(rig_apic_read(rig, 0, 0xa0), rig_apic_read(rig, 1, 0xa0));
        }
        if (tap_failed()) {
            tap_note("step %u", i);
            return;
        }
    }
    TAP_OK(taken(rig) > 0);
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"platform.lapic-eoi.alone", test_alone},
        {"platform.lapic-eoi.written", test_written},
        {"platform.lapic-eoi.request-after", test_request_after},
        {"platform.lapic-eoi.request-before", test_request_before},
        {"platform.lapic-eoi.nested", test_nested},
        {"platform.lapic-eoi.level", test_level},
        {"platform.lapic-eoi.area-goes", test_area_goes},
        {"platform.lapic-eoi.save", test_save},
        {"platform.lapic-eoi.same", test_same},
    };

    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

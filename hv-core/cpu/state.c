/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What RESET, INIT and a start-up IPI leave in a vCPU. */
#include "cpu/state.h"

#include "cpu/policy.h"
#include "cpu/segment.h"

/* SDM 3A table 9-1: attributes after reset are those of a real-mode segment. */
#define REAL_DATA_ATTR     (HV_SEG_ATTR_P | HV_SEG_ATTR_S | HV_SEG_ATTR_WRITABLE | HV_SEG_ATTR_ACCESSED)
#define REAL_CODE_ATTR     (REAL_DATA_ATTR | HV_SEG_ATTR_CODE)
#define LDT_ATTR           (HV_SEG_ATTR_P | 0x2u)
#define TSS_BUSY_ATTR      (HV_SEG_ATTR_P | 0xbu)

/* SDM 3A 12.12.4: WB, WT, UC-, UC, twice. */
#define PAT_RESET          UINT64_C(0x0007040600070406)
/* SDM 4 table 2-2, 1A0h: fast strings; BTS and PEBS unavailable. */
#define MISC_ENABLE_RESET  (HV_BIT(0) | HV_BIT(11) | HV_BIT(12))

/* Offsets of the legacy region (SDM 1 table 10-2) and of the XSAVE header (SDM 1 13.4.2). */
#define X87_CONTROL_OFFSET 0u
#define X87_TAGS_OFFSET    4u
#define MXCSR_OFFSET       24u
#define XSTATE_BV_OFFSET   512u

static void reset_segments(struct hv_cpu *cpu, uint16_t cs_selector, uint64_t cs_base)
{
    for (unsigned s = 0; s < HV_SEG_COUNT; s++) {
        cpu->seg[s] = (struct hv_segment){.limit = 0xffff, .attr = REAL_DATA_ATTR};
    }
    cpu->seg[HV_SEG_CS] = (struct hv_segment){
        .selector = cs_selector, .base = cs_base, .limit = 0xffff, .attr = REAL_CODE_ATTR};
    cpu->seg[HV_SEG_LDTR] = (struct hv_segment){.limit = 0xffff, .attr = LDT_ATTR};
    cpu->seg[HV_SEG_TR] = (struct hv_segment){.limit = 0xffff, .attr = TSS_BUSY_ATTR};
    cpu->gdtr = (struct hv_table_register){.limit = 0xffff};
    cpu->idtr = (struct hv_table_register){.limit = 0xffff};
}

void hv_cpu_take_init(struct hv_cpu *cpu)
{
    bool bootstrap = cpu->msr.apic_base & HV_APIC_BASE_BSP;
    uint64_t cache_bits = cpu->cr0 & (HV_CR0_CD | HV_CR0_NW);

    memset(cpu->slot, 0, sizeof(cpu->slot));
    cpu->slot[HV_REG_RDX] = cpu->policy ? cpu->policy->signature : 0;
    hv_cpu_set_rflags(cpu, HV_RFLAGS_FIXED);
    cpu->rip = 0xfff0;
    cpu->cpl = 0;
    cpu->activity = bootstrap ? HV_ACTIVITY_RUNNING : HV_ACTIVITY_WAIT_SIPI;
    cpu->sti_shadow = false;
    cpu->mov_ss_shadow = false;
    cpu->nmi_blocked = false;
    cpu->nmi_pending = false;
    cpu->latched_interrupt = 0;
    cpu->delivering_vector = 0xff;
    cpu->cr0 = HV_CR0_ET | cache_bits;
    cpu->cr2 = 0;
    cpu->cr3 = 0;
    cpu->cr4 = 0;
    cpu->efer = 0;
    reset_segments(cpu, 0xf000, 0xffff0000);
    memset(cpu->dr, 0, sizeof(cpu->dr));
    cpu->dr[6] = HV_DR6_FIXED;
    cpu->dr[7] = HV_DR7_FIXED;
    memset(cpu->pdpte, 0, sizeof(cpu->pdpte));
    hv_segment_sync_slots(cpu);
}

void hv_cpu_reset(struct hv_cpu *cpu, bool bootstrap_processor)
{
    memset(&cpu->msr, 0, sizeof(cpu->msr));
    cpu->msr.apic_base = HV_APIC_BASE_DEFAULT | HV_APIC_BASE_ENABLE;
    if (bootstrap_processor) {
        cpu->msr.apic_base |= HV_APIC_BASE_BSP;
    }
    cpu->msr.pat = PAT_RESET;
    cpu->msr.misc_enable = MISC_ENABLE_RESET;
    cpu->xcr0 = 1;

    /* The power-up state of x87 is not the one XRSTOR initialises to (FCW 40h, all tags "zero"),
     * so that both components count as in use. */
    memset(&cpu->x, 0, sizeof(cpu->x));
    hv_store_le(cpu->x.bytes + X87_CONTROL_OFFSET, 0x40, 2);
    cpu->x.bytes[X87_TAGS_OFFSET] = 0xff;
    hv_store_le(cpu->x.bytes + MXCSR_OFFSET, 0x1f80, 4);
    hv_store_le(cpu->x.bytes + XSTATE_BV_OFFSET, 3, 8);

    cpu->cr0 = HV_CR0_CD | HV_CR0_NW;
    hv_cpu_take_init(cpu);
}

void hv_cpu_take_sipi(struct hv_cpu *cpu, uint8_t vector)
{
    if (cpu->activity != HV_ACTIVITY_WAIT_SIPI) {
        return;
    }
    cpu->seg[HV_SEG_CS].selector = (uint16_t)(vector << 8);
    cpu->seg[HV_SEG_CS].base = (uint64_t)vector << 12;
    cpu->rip = 0;
    cpu->activity = HV_ACTIVITY_RUNNING;
    hv_segment_sync_slots(cpu);
}

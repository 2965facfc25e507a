/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Interrupt numbers that the platform's files share. */
#pragma once

#include "platform/platform.h"

#define PLATFORM_IRQ_TIMER 0u
#define PLATFORM_IRQ_RTC   8u
/* ISA interrupt 0 is at pin 2 of the I/O APIC; the MADT says so. */
#define PLATFORM_TIMER_PIN 2u

/** The I/O APIC's pin that global system interrupt @gsi is at. */
static inline unsigned platform_pin(unsigned gsi)
{
    return gsi == PLATFORM_IRQ_TIMER ? PLATFORM_TIMER_PIN : gsi;
}

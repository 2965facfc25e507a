/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The clock registers of the RTC as a calendar: BCD or binary, 12 or 24 hours. */
#pragma once

#include "platform/rtc.h"

enum rtc_register {
    RTC_SECONDS,
    RTC_SECONDS_ALARM,
    RTC_MINUTES,
    RTC_MINUTES_ALARM,
    RTC_HOURS,
    RTC_HOURS_ALARM,
    RTC_WEEKDAY, /* 1 is Sunday */
    RTC_DAY,
    RTC_MONTH,
    RTC_YEAR,
    RTC_A,
    RTC_B,
    RTC_C,
    RTC_D,
};

enum rtc_register_a {
    RTC_A_RATE = 0x0f,
    RTC_A_DIVIDER = 0x70,
    RTC_A_DIVIDER_32K = 0x20,
    RTC_A_UIP = 0x80,
};

enum rtc_register_b {
    RTC_B_24H = 1u << 1,
    RTC_B_BINARY = 1u << 2,
    RTC_B_SQWE = 1u << 3,
    RTC_B_UIE = 1u << 4,
    RTC_B_AIE = 1u << 5,
    RTC_B_PIE = 1u << 6,
    RTC_B_SET = 1u << 7,
};

enum rtc_register_c {
    RTC_C_UF = 1u << 4,
    RTC_C_AF = 1u << 5,
    RTC_C_PF = 1u << 6,
    RTC_C_IRQF = 1u << 7,
};

#define RTC_D_VRT 0x80 /* valid RAM and time: the battery is good */

/** Set the clock registers and the century to @seconds since 1970. */
void rtc_calendar_set(uint8_t memory[HV_RTC_BYTES], uint64_t seconds);

/**
 * Move the clock registers on by @seconds, more than 0. Values that are no date count from the
 * nearest that is one. Returns whether the alarm matched any of the seconds passed.
 */
bool rtc_calendar_advance(uint8_t memory[HV_RTC_BYTES], uint64_t seconds);

/** Move them back by @seconds, below 10,000 years. No alarm is looked for. */
void rtc_calendar_go_back(uint8_t memory[HV_RTC_BYTES], uint64_t seconds);

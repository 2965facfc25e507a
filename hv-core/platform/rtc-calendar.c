/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Days and seconds of the RTC. The calendar is the Gregorian one, for the years 0 to 9999. */
#include "platform/rtc-calendar.h"

#define SECONDS_PER_DAY 86400u
#define DAYS_PER_ERA    146097u /* 400 years */
#define DAYS_TO_1970    719468u /* from 0000-03-01 */
#define ERAS            25u     /* after which the years' four digits, and weekdays, come again */
#define RTC_PM          0x80u
#define RTC_DO_NOT_CARE 0xc0u /* alarm bytes from here on match always */

struct rtc_date {
    uint32_t year, month, day; /* 0 to 9999, 1 to 12, 1 to 31 */
};

static uint8_t rtc_encode(const uint8_t memory[HV_RTC_BYTES], uint32_t value)
{
    return (uint8_t)(memory[RTC_B] & RTC_B_BINARY ? value : value / 10 << 4 | value % 10);
}

static uint32_t rtc_decode(const uint8_t memory[HV_RTC_BYTES], uint8_t value)
{
    return memory[RTC_B] & RTC_B_BINARY ? value : (value >> 4) * 10u + (value & 15u);
}

static uint32_t rtc_clamp(uint32_t value, uint32_t low, uint32_t high)
{
    return value < low ? low : value > high ? high : value;
}

/*
 * Days since 400 years before 0000-03-01. Years begin in March, so that the leap day is their last;
 * five months of 153 days then repeat.
 * Source: E. G. Richards, "Mapping Time", chapter 25.
 */
static uint64_t rtc_days(const struct rtc_date *date)
{
    uint32_t year = date->year - (date->month <= 2) + 400; /* never negative */
    uint32_t era = year / 400;
    uint32_t of_era = year % 400;
    uint32_t month = (date->month + 9) % 12;
    uint32_t of_year = (153 * month + 2) / 5 + date->day - 1;

    return (uint64_t)era * DAYS_PER_ERA + (of_era * 365 + of_era / 4 - of_era / 100) + of_year;
}

/* The inverse. Year 10000 is year 0: the registers have four digits. */
static struct rtc_date rtc_date(uint64_t days)
{
    uint64_t era = days / DAYS_PER_ERA;
    uint32_t of_era = (uint32_t)(days % DAYS_PER_ERA);
    uint32_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    uint32_t of_year = of_era - (365 * year + year / 4 - year / 100);
    uint32_t month = (5 * of_year + 2) / 153;
    struct rtc_date date = {
        .year = (uint32_t)(era * 400) + year,
        .month = month < 10 ? month + 3 : month - 9,
        .day = of_year - (153 * month + 2) / 5 + 1,
    };

    date.year += (date.month <= 2);
    date.year = (date.year + 10000 - 400) % 10000;
    return date;
}

static void rtc_write_date(uint8_t memory[HV_RTC_BYTES], const struct rtc_date *date)
{
    memory[RTC_DAY] = rtc_encode(memory, date->day);
    memory[RTC_MONTH] = rtc_encode(memory, date->month);
    memory[RTC_YEAR] = rtc_encode(memory, date->year % 100);
    memory[HV_RTC_CENTURY] = rtc_encode(memory, date->year / 100);
}

static struct rtc_date rtc_read_date(const uint8_t memory[HV_RTC_BYTES])
{
    uint32_t year = rtc_clamp(rtc_decode(memory, memory[RTC_YEAR]), 0, 99);
    uint32_t century = rtc_clamp(rtc_decode(memory, memory[HV_RTC_CENTURY]), 0, 99);

    return (struct rtc_date){
        .year = century * 100 + year,
        .month = rtc_clamp(rtc_decode(memory, memory[RTC_MONTH]), 1, 12),
        .day = rtc_clamp(rtc_decode(memory, memory[RTC_DAY]), 1, 31),
    };
}

/* Hours 12 AM, 1 AM … 11 AM, 12 PM … 11 PM in 12-hour mode (data sheet, table 3). */
static uint8_t rtc_encode_hour(const uint8_t memory[HV_RTC_BYTES], uint32_t hour)
{
    uint32_t twelve = hour % 12 ? hour % 12 : 12;

    if (memory[RTC_B] & RTC_B_24H) {
        return rtc_encode(memory, hour);
    }
    return (uint8_t)(rtc_encode(memory, twelve) | (hour >= 12 ? RTC_PM : 0));
}

static uint32_t rtc_decode_hour(const uint8_t memory[HV_RTC_BYTES], uint8_t value)
{
    if (memory[RTC_B] & RTC_B_24H) {
        return rtc_clamp(rtc_decode(memory, value), 0, 23);
    }
    return rtc_clamp(rtc_decode(memory, value & (uint8_t)~RTC_PM), 1, 12) % 12 +
           (value & RTC_PM ? 12 : 0);
}

static uint32_t rtc_second_of_day(const uint8_t memory[HV_RTC_BYTES])
{
    return rtc_decode_hour(memory, memory[RTC_HOURS]) * 3600 +
           rtc_clamp(rtc_decode(memory, memory[RTC_MINUTES]), 0, 59) * 60 +
           rtc_clamp(rtc_decode(memory, memory[RTC_SECONDS]), 0, 59);
}

static void rtc_write_second_of_day(uint8_t memory[HV_RTC_BYTES], uint32_t second)
{
    memory[RTC_HOURS] = rtc_encode_hour(memory, second / 3600);
    memory[RTC_MINUTES] = rtc_encode(memory, second / 60 % 60);
    memory[RTC_SECONDS] = rtc_encode(memory, second % 60);
}

void rtc_calendar_set(uint8_t memory[HV_RTC_BYTES], uint64_t seconds)
{
    uint64_t days = seconds / SECONDS_PER_DAY;
    struct rtc_date date = rtc_date(days + DAYS_TO_1970 + DAYS_PER_ERA);

    rtc_write_date(memory, &date);
    memory[RTC_WEEKDAY] = rtc_encode(memory, (uint32_t)((days + 4) % 7) + 1); /* a Thursday */
    rtc_write_second_of_day(memory, (uint32_t)(seconds % SECONDS_PER_DAY));
}

static bool rtc_alarm_byte(uint8_t alarm, uint8_t present)
{
    return alarm >= RTC_DO_NOT_CARE || alarm == present;
}

/*
 * Does the alarm match @second of a day? Compared as bytes, as the chip does. Returns 0, or how many
 * seconds later it is worth looking again: at the next hour, minute or second.
 */
static uint32_t rtc_alarm_in(const uint8_t memory[HV_RTC_BYTES], uint32_t second)
{
    if (!rtc_alarm_byte(memory[RTC_HOURS_ALARM], rtc_encode_hour(memory, second / 3600))) {
        return 3600 - second % 3600;
    }
    if (!rtc_alarm_byte(memory[RTC_MINUTES_ALARM], rtc_encode(memory, second / 60 % 60))) {
        return 60 - second % 60;
    }
    return !rtc_alarm_byte(memory[RTC_SECONDS_ALARM], rtc_encode(memory, second % 60));
}

/* Does it match any of the @seconds that follow @before? */
static bool rtc_alarm_passes(const uint8_t memory[HV_RTC_BYTES], uint32_t before, uint64_t seconds)
{
    /* A day shows every time of day: looking further finds nothing new. */
    uint64_t look = seconds < SECONDS_PER_DAY ? seconds : SECONDS_PER_DAY;

    for (uint64_t i = 1; i <= look;) {
        uint32_t skip = rtc_alarm_in(memory, (uint32_t)((before + i) % SECONDS_PER_DAY));

        if (skip == 0) {
            return true;
        }
        i += skip;
    }
    return false;
}

bool rtc_calendar_advance(uint8_t memory[HV_RTC_BYTES], uint64_t seconds)
{
    uint32_t before = rtc_second_of_day(memory);
    uint64_t after = before + seconds;
    uint64_t days = after / SECONDS_PER_DAY;
    bool alarm = rtc_alarm_passes(memory, before, seconds);

    rtc_write_second_of_day(memory, (uint32_t)(after % SECONDS_PER_DAY));
    if (days > 0) {
        struct rtc_date date = rtc_read_date(memory);
        uint32_t weekday = rtc_clamp(rtc_decode(memory, memory[RTC_WEEKDAY]), 1, 7);

        date = rtc_date(rtc_days(&date) + days);
        rtc_write_date(memory, &date);
        memory[RTC_WEEKDAY] = rtc_encode(memory, (uint32_t)((weekday - 1 + days) % 7) + 1);
    }
    return alarm;
}

void rtc_calendar_go_back(uint8_t memory[HV_RTC_BYTES], uint64_t seconds)
{
    const uint64_t around = (uint64_t)ERAS * DAYS_PER_ERA * SECONDS_PER_DAY;

    (void)rtc_calendar_advance(memory, around - seconds);
}

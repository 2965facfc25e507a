/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The only place of the engine where guest RAM is touched (decisions D11): each aligned access of
 * the guest is exactly one access of the host, in program order, with the host's own LOCK
 * instructions for the guest's. The guest has the host's memory model because it has the host's
 * instructions.
 *
 * Everything is assembly: other vCPUs race with it by design, and neither the compiler nor
 * ThreadSanitizer has a say in that. C's relaxed atomics would not do: two of them may be
 * exchanged, and none may be unaligned. Pointers here may be unaligned.
 */
#pragma once

#include <hv/types.h>

struct soft_ram2 {
    uint8_t byte[2];
};
struct soft_ram4 {
    uint8_t byte[4];
};
struct soft_ram8 {
    uint8_t byte[8];
};
struct soft_ram16 {
    uint8_t byte[16];
};

static inline uint8_t soft_ram_load1(const void *place)
{
    uint32_t value;

    __asm__ volatile("movzbl %1, %0" : "=r"(value) : "m"(*(const uint8_t *)place));
    return (uint8_t)value;
}

static inline uint16_t soft_ram_load2(const void *place)
{
    uint32_t value;

    __asm__ volatile("movzwl %1, %0" : "=r"(value) : "m"(*(const struct soft_ram2 *)place));
    return (uint16_t)value;
}

static inline uint32_t soft_ram_load4(const void *place)
{
    uint32_t value;

    __asm__ volatile("movl %1, %0" : "=r"(value) : "m"(*(const struct soft_ram4 *)place));
    return value;
}

static inline uint64_t soft_ram_load8(const void *place)
{
    uint64_t value;

    __asm__ volatile("movq %1, %0" : "=r"(value) : "m"(*(const struct soft_ram8 *)place));
    return value;
}

static inline void soft_ram_store1(void *place, uint8_t value)
{
    __asm__ volatile("movb %1, %0" : "=m"(*(uint8_t *)place) : "r"(value));
}

static inline void soft_ram_store2(void *place, uint16_t value)
{
    __asm__ volatile("movw %1, %0" : "=m"(*(struct soft_ram2 *)place) : "r"(value));
}

static inline void soft_ram_store4(void *place, uint32_t value)
{
    __asm__ volatile("movl %1, %0" : "=m"(*(struct soft_ram4 *)place) : "r"(value));
}

static inline void soft_ram_store8(void *place, uint64_t value)
{
    __asm__ volatile("movq %1, %0" : "=m"(*(struct soft_ram8 *)place) : "r"(value));
}

/** 16 bytes in one access, one of the two being guest RAM. */
static inline void soft_ram_move16(void *to, const void *from)
{
    __asm__ volatile("movdqu %1, %%xmm0\n\t"
                     "movdqu %%xmm0, %0"
                     : "=m"(*(struct soft_ram16 *)to)
                     : "m"(*(const struct soft_ram16 *)from)
                     : "xmm0");
}

/** Any number of bytes between guest RAM and the engine's own memory; no order among them. */
static inline void soft_ram_copy(void *to, const void *from, size_t bytes)
{
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

/** Copy code or other bytes out of RAM that may be changing. */
static inline void soft_ram_copy_out(void *to, const void *from, size_t bytes)
{
    soft_ram_copy(to, from, bytes);
}

/** Read 1, 2, 4 or 8 bytes by one access, zero-extended. */
static inline uint64_t soft_ram_load(const void *place, unsigned bytes)
{
    switch (bytes) {
    case 1:
        return soft_ram_load1(place);
    case 2:
        return soft_ram_load2(place);
    case 4:
        return soft_ram_load4(place);
    default:
        return soft_ram_load8(place);
    }
}

/** Write the low 1, 2, 4 or 8 bytes of @value by one access. */
static inline void soft_ram_store(void *place, unsigned bytes, uint64_t value)
{
    switch (bytes) {
    case 1:
        soft_ram_store1(place, (uint8_t)value);
        break;
    case 2:
        soft_ram_store2(place, (uint16_t)value);
        break;
    case 4:
        soft_ram_store4(place, (uint32_t)value);
        break;
    default:
        soft_ram_store8(place, value);
        break;
    }
}

/** True for the sizes that soft_ram_load() and soft_ram_store() know. */
static inline bool soft_ram_scalar(unsigned bytes)
{
    return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
}

/** Read @bytes into @to: 1, 2, 4, 8 and 16 by one access. */
static inline void soft_ram_read(void *to, const void *place, unsigned bytes)
{
    if (soft_ram_scalar(bytes)) {
        uint64_t value = soft_ram_load(place, bytes);

        __builtin_memcpy(to, &value, bytes);
    } else if (bytes == 16) {
        soft_ram_move16(to, place);
    } else {
        soft_ram_copy(to, place, bytes);
    }
}

/** Write @bytes of @from: 1, 2, 4, 8 and 16 by one access. */
static inline void soft_ram_write(void *place, const void *from, unsigned bytes)
{
    if (soft_ram_scalar(bytes)) {
        uint64_t value = 0;

        __builtin_memcpy(&value, from, bytes);
        soft_ram_store(place, bytes, value);
    } else if (bytes == 16) {
        soft_ram_move16(place, from);
    } else {
        soft_ram_copy(place, from, bytes);
    }
}

/** Compare-and-exchange of an entry of 4 or 8 bytes, locked. Returns true when it was exchanged. */
static inline bool soft_ram_exchange(void *place, unsigned bytes, uint64_t expected, uint64_t value)
{
    bool exchanged;

    if (bytes == 4) {
        uint32_t found = (uint32_t)expected;

        __asm__ volatile("lock cmpxchgl %3, %1"
                         : "=@ccz"(exchanged), "+m"(*(struct soft_ram4 *)place), "+a"(found)
                         : "r"((uint32_t)value)
                         : "memory");
    } else {
        __asm__ volatile("lock cmpxchgq %3, %1"
                         : "=@ccz"(exchanged), "+m"(*(struct soft_ram8 *)place), "+a"(expected)
                         : "r"(value)
                         : "memory");
    }
    return exchanged;
}

/** Set and clear bits of a byte by one locked access. */
static inline void soft_ram_change_bits(void *place, uint8_t set, uint8_t clear)
{
    uint8_t found = soft_ram_load1(place);
    bool exchanged;

    /* NOLINTNEXTLINE(bugprone-infinite-loop): the assembly sets it */
    do {
        uint8_t value = (uint8_t)((found | set) & ~clear);

        __asm__ volatile("lock cmpxchgb %3, %1"
                         : "=@ccz"(exchanged), "+m"(*(uint8_t *)place), "+a"(found)
                         : "q"(value)
                         : "memory");
    } while (!exchanged);
}

/*
 * One `rep` instruction of the host for a run of the guest's inside one page: same element size,
 * same direction, so overlap and element order come out as the guest's own would. @down is the
 * guest's direction flag; pointers are to the first element in that direction. The flag is never
 * left set: the compiler relies on it.
 */
static inline void soft_ram_movs_up(void *to, const void *from, size_t count, unsigned bytes)
{
    switch (bytes) {
    case 1:
        __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
        break;
    case 2:
        __asm__ volatile("rep movsw" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
        break;
    case 4:
        __asm__ volatile("rep movsl" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
        break;
    default:
        __asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
        break;
    }
}

static inline void soft_ram_movs_down(void *to, const void *from, size_t count, unsigned bytes)
{
    switch (bytes) {
    case 1:
        __asm__ volatile("std; rep movsb; cld" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
        break;
    case 2:
        __asm__ volatile("std; rep movsw; cld" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
        break;
    case 4:
        __asm__ volatile("std; rep movsl; cld" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
        break;
    default:
        __asm__ volatile("std; rep movsq; cld" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
        break;
    }
}

static inline void soft_ram_stos_up(void *to, uint64_t value, size_t count, unsigned bytes)
{
    switch (bytes) {
    case 1:
        __asm__ volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(value) : "memory");
        break;
    case 2:
        __asm__ volatile("rep stosw" : "+D"(to), "+c"(count) : "a"(value) : "memory");
        break;
    case 4:
        __asm__ volatile("rep stosl" : "+D"(to), "+c"(count) : "a"(value) : "memory");
        break;
    default:
        __asm__ volatile("rep stosq" : "+D"(to), "+c"(count) : "a"(value) : "memory");
        break;
    }
}

static inline void soft_ram_stos_down(void *to, uint64_t value, size_t count, unsigned bytes)
{
    switch (bytes) {
    case 1:
        __asm__ volatile("std; rep stosb; cld" : "+D"(to), "+c"(count) : "a"(value) : "memory");
        break;
    case 2:
        __asm__ volatile("std; rep stosw; cld" : "+D"(to), "+c"(count) : "a"(value) : "memory");
        break;
    case 4:
        __asm__ volatile("std; rep stosl; cld" : "+D"(to), "+c"(count) : "a"(value) : "memory");
        break;
    default:
        __asm__ volatile("std; rep stosq; cld" : "+D"(to), "+c"(count) : "a"(value) : "memory");
        break;
    }
}

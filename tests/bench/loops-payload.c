/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Guest code of soft-loops: functions without a reference to anything outside their section, which
 * run the same natively and copied into a guest.
 */
#include "bench/loops-payload.h"

#define PAYLOAD __attribute__((section("loops"), noinline, used))

PAYLOAD uint64_t loop_alu(uint64_t count, void *memory)
{
    uint64_t a = 1, b = 2, c = 3;

    (void)memory;
    for (uint64_t i = 0; i < count; i++) {
        a += b ^ i;
        b = (b << 7) | (b >> 57);
        c -= a & 0xff00ff;
        c ^= b + 5;
        a = a * 3 + c;
    }
    return a + b + c;
}

PAYLOAD uint64_t loop_sieve(uint64_t count, void *memory)
{
    uint8_t *composite = memory;
    uint64_t primes = 0;

    for (uint64_t i = 0; i < count; i++) {
        composite[i] = 0;
    }
    for (uint64_t i = 2; i < count; i++) {
        if (composite[i]) {
            continue;
        }
        primes++;
        for (uint64_t j = i * 2; j < count; j += i) {
            composite[j] = 1;
        }
    }
    return primes;
}

static inline uint32_t rotate(uint32_t x, unsigned n)
{
    return (x >> n) | (x << (32 - n));
}

/* SHA-256's message schedule and rounds, with constants made up. */
PAYLOAD uint64_t loop_sha(uint64_t count, void *memory)
{
    uint32_t *w = memory, h[8];

    for (unsigned i = 0; i < 8; i++) {
        h[i] = 0x6a09e667u * (i + 1);
    }
    while (count-- > 0) {
        uint32_t a = h[0], b = h[1], c = h[2], d = h[3], e = h[4], f = h[5], g = h[6], k = h[7];

        for (unsigned i = 16; i < 64; i++) {
            uint32_t x = w[i - 15], y = w[i - 2];

            w[i] = w[i - 16] + w[i - 7] + (rotate(x, 7) ^ rotate(x, 18) ^ (x >> 3)) +
                   (rotate(y, 17) ^ rotate(y, 19) ^ (y >> 10));
        }
        for (unsigned i = 0; i < 64; i++) {
            uint32_t s = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
            uint32_t t = k + s + ((e & f) ^ (~e & g)) + w[i] + 0x428a2f98u;
            uint32_t u =
                (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));

            k = g;
            g = f;
            f = e;
            e = d + t;
            d = c;
            c = b;
            b = a;
            a = t + u;
        }
        h[0] += a, h[1] += b, h[2] += c, h[3] += d, h[4] += e, h[5] += f, h[6] += g, h[7] += k;
    }
    return h[0] ^ (uint64_t)h[5] << 32;
}

PAYLOAD uint64_t loop_copy(uint64_t count, void *memory)
{
    uint64_t *from = memory, *to = from + 0x20000;

    for (uint64_t i = 0; i < count; i++) {
        uint64_t at = i & 0x1ffff;

        to[at] = from[at] + i;
    }
    return to[77];
}

PAYLOAD uint64_t loop_fib(uint64_t count, void *memory)
{
    return count < 2 ? count : loop_fib(count - 1, memory) + loop_fib(count - 2, memory);
}

/* Multi-precision multiply and add: most of a kernel's boot is checking signatures with it. */
PAYLOAD uint64_t loop_mpi(uint64_t count, void *memory)
{
    uint64_t *to = memory, *from = to + 64, carry = 0;

    while (count-- > 0) {
        for (unsigned i = 0; i < 32; i++) {
            unsigned __int128 product = (unsigned __int128)from[i] * (count | 1) + to[i] + carry;

            to[i] = (uint64_t)product;
            carry = (uint64_t)(product >> 64);
        }
    }
    return carry ^ to[3];
}

/* A chain through 1 MiB. */
PAYLOAD uint64_t loop_chase(uint64_t count, void *memory)
{
    uint32_t *next = memory, at = 0;

    for (uint32_t i = 0; i < 0x40000; i++) {
        next[i] = (i * 0x9e3779b1u + 1) & 0x3ffff;
    }
    for (uint64_t i = 0; i < count; i++) {
        at = next[at];
    }
    return at;
}

PAYLOAD uint64_t loop_sort(uint64_t count, void *memory)
{
    uint32_t *value = memory;

    for (uint64_t i = 0; i < count; i++) {
        value[i] = (uint32_t)(i * 0x9e3779b1u);
    }
    for (uint64_t gap = count / 2; gap > 0; gap /= 2) {
        for (uint64_t i = gap; i < count; i++) {
            uint32_t x = value[i];
            uint64_t j = i;

            while (j >= gap && value[j - gap] > x) {
                value[j] = value[j - gap];
                j -= gap;
            }
            value[j] = x;
        }
    }
    return value[count / 3];
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Static loads that run alike on the host, in a Lodge machine and in any other: what an engine is
 * good or bad at, one class each.
 *
 *     loads all | NAME…      lines `load NAME nanoseconds-per-operation checksum`
 *     loads soak SECONDS     every processor busy with all of them; ends with `soak good`
 *
 * Each load repeats until it has run for 200 ms and prints the mean; the checksum must be the same
 * everywhere.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIN_NS   UINT64_C(200000000)
#define MIB      (1024u * 1024u)
#define NOINLINE __attribute__((noinline))

struct load {
    const char *name;
    /* One round; *ops_out is how many operations it was. Returns a checksum. */
    uint64_t (*round)(uint64_t *ops_out);
};

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t mix(uint64_t x)
{
    x ^= x << 13;
    x ^= x >> 7;
    return x ^ (x << 17);
}

static uint64_t alu(uint64_t *ops_out)
{
    uint64_t a = 1, b = 2, c = 3;

    for (unsigned i = 0; i < 1000000; i++) {
        a += b ^ (c >> 3);
        b = (b << 5) - a;
        c = (c ^ a) + (b >> 7);
        __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c));
    }
    *ops_out = 1000000;
    return a + b + c;
}

static uint64_t sieve(uint64_t *ops_out)
{
    static uint8_t composite[MIB];
    uint64_t primes = 0;

    memset(composite, 0, sizeof(composite));
    for (unsigned i = 2; i < MIB; i++) {
        if (!composite[i]) {
            primes++;
            for (unsigned k = 2 * i; k < MIB; k += i) {
                composite[k] = 1;
            }
        }
    }
    *ops_out = 1;
    return primes;
}

static uint32_t rotate(uint32_t x, unsigned n)
{
    return (x >> n) | (x << (32 - n));
}

/* The compression function's shape with constants of our own: the mix of operations counts. */
static void compress(uint32_t state[8], const uint8_t *block)
{
    uint32_t w[64], v[8];

    for (unsigned i = 0; i < 16; i++) {
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    }
    for (unsigned i = 16; i < 64; i++) {
        uint32_t s0 = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ (w[i - 15] >> 3);
        uint32_t s1 = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ (w[i - 2] >> 10);

        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    memcpy(v, state, sizeof(v));
    for (unsigned i = 0; i < 64; i++) {
        uint32_t s1 = rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25);
        uint32_t t1 = v[7] + s1 + ((v[4] & v[5]) ^ (~v[4] & v[6])) + 0x9e3779b9u * (i + 1) + w[i];
        uint32_t s0 = rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22);
        uint32_t t2 = s0 + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));

        memmove(v + 1, v, 7 * sizeof(v[0]));
        v[4] += t1;
        v[0] = t1 + t2;
    }
    for (unsigned i = 0; i < 8; i++) {
        state[i] += v[i];
    }
}

static uint64_t sha256(uint64_t *ops_out)
{
    static uint8_t data[MIB / 4];
    uint32_t state[8] = {1, 2, 3, 4, 5, 6, 7, 8};

    for (unsigned i = 0; i < sizeof(data); i += 64) {
        compress(state, data + i);
    }
    *ops_out = sizeof(data) / 64;
    return state[0];
}

static uint64_t stream(uint64_t *ops_out)
{
    static uint64_t a[MIB / 8], b[MIB / 8];

    for (unsigned i = 0; i < MIB / 8; i++) {
        a[i] = b[i] + i;
        __asm__ volatile("" ::: "memory");
    }
    *ops_out = 1;
    return a[MIB / 8 - 1];
}

static uint64_t copy(uint64_t *ops_out)
{
    static uint8_t a[MIB], b[MIB];

    memcpy(a, b, MIB);
    __asm__ volatile("" ::"r"(a) : "memory");
    *ops_out = 1;
    return a[MIB - 1];
}

static uint64_t chase(uint64_t *ops_out)
{
    enum { NODES = MIB / 8 };
    static uint64_t next[NODES];
    uint64_t at = 0;

    if (!next[0]) {
        /* A single cycle: a linear congruence of full period. */
        for (uint64_t i = 0; i < NODES; i++) {
            next[i] = (i * 1103515245u + 12345u) % NODES;
        }
    }
    for (unsigned i = 0; i < 100000; i++) {
        at = next[at];
    }
    *ops_out = 100000;
    return at;
}

static uint64_t matmul(uint64_t *ops_out)
{
    enum { N = 64 };
    static double a[N][N], b[N][N], c[N][N];
    uint64_t bits;

    for (unsigned i = 0; i < N; i++) {
        for (unsigned k = 0; k < N; k++) {
            a[i][k] = i + 1.0 / (k + 1);
            b[i][k] = k - 1.0 / (i + 1);
            c[i][k] = 0;
        }
    }
    for (unsigned i = 0; i < N; i++) {
        for (unsigned j = 0; j < N; j++) {
            double sum = 0;

            for (unsigned k = 0; k < N; k++) {
                sum += a[i][k] * b[k][j];
            }
            c[i][j] = sum;
        }
    }
    memcpy(&bits, &c[N - 1][N - 1], sizeof(bits));
    *ops_out = N * N * N;
    return bits;
}

typedef float vector4 __attribute__((vector_size(16)));

static uint64_t packed(uint64_t *ops_out)
{
    enum { N = 4096 };
    static vector4 x[N], y[N];
    vector4 factor = {1.5f, 2.5f, 0.5f, 0.25f};
    uint32_t bits;

    for (unsigned i = 0; i < N; i++) {
        x[i] = (vector4){(float)i, 1, 2, 3};
        y[i] = y[i] * 0.5f + factor * x[i];
    }
    y[0] = y[N - 1];
    memcpy(&bits, &y[1], sizeof(bits));
    memset(y, 0, sizeof(y));
    *ops_out = (uint64_t)N * 4;
    return bits;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static uint64_t sort(uint64_t *ops_out)
{
    enum { N = 10000 };
    static uint64_t values[N];
    uint64_t x = 88172645463325252u;

    for (unsigned i = 0; i < N; i++) {
        values[i] = x = mix(x);
    }
    qsort(values, N, sizeof(values[0]), compare);
    *ops_out = N;
    return values[N / 2];
}

static NOINLINE uint64_t fib(unsigned n)
{
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

static uint64_t calls(uint64_t *ops_out)
{
    *ops_out = 57313; /* calls of fib(22) */
    return fib(22);
}

static uint64_t getppid_(uint64_t *ops_out)
{
    for (unsigned i = 0; i < 10000; i++) {
        syscall(SYS_getppid);
    }
    *ops_out = 10000;
    return 0;
}

static uint64_t fork_(uint64_t *ops_out)
{
    pid_t child = fork();

    if (child == 0) {
        _exit(0);
    }
    *ops_out = 1;
    return child < 0 || waitpid(child, NULL, 0) != child;
}

static uint64_t exec_(uint64_t *ops_out)
{
    pid_t child = vfork();

    if (child == 0) {
        execl("/proc/self/exe", "loads", "nothing", (char *)NULL);
        _exit(1);
    }
    *ops_out = 1;
    return child < 0 || waitpid(child, NULL, 0) != child;
}

static void echo_child(int from, int to)
{
    char byte;

    while (read(from, &byte, 1) == 1 && write(to, &byte, 1) == 1) {
    }
    _exit(0);
}

static uint64_t pipe_(uint64_t *ops_out)
{
    int there[2], back[2];
    uint64_t bad = 0;
    pid_t child;
    char byte = 1;

    if (pipe(there) < 0 || pipe(back) < 0 || (child = fork()) < 0) {
        return 1;
    }
    if (child == 0) {
        close(there[1]);
        close(back[0]);
        echo_child(there[0], back[1]);
    }
    close(there[0]);
    close(back[1]);
    for (unsigned i = 0; i < 1000; i++) {
        bad += write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1;
    }
    close(there[1]);
    close(back[0]);
    waitpid(child, NULL, 0);
    *ops_out = 1000;
    return bad;
}

static uint64_t fault(uint64_t *ops_out)
{
    enum { PAGES = 1024 };
    uint8_t *memory =
        mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED) {
        return 1;
    }
    for (unsigned i = 0; i < PAGES; i++) {
        memory[i * 4096] = 1;
    }
    munmap(memory, PAGES * 4096);
    *ops_out = PAGES;
    return 0;
}

static atomic_uint_fast64_t shared_counter;

static void *add_many(void *count)
{
    for (uintptr_t i = 0; i < (uintptr_t)count; i++) {
        atomic_fetch_add(&shared_counter, 1);
    }
    return NULL;
}

static uint64_t atomics(uint64_t *ops_out)
{
    enum { EACH = 100000 };
    pthread_t other;

    shared_counter = 0;
    if (pthread_create(&other, NULL, add_many, (void *)(uintptr_t)EACH) != 0) {
        return 1;
    }
    add_many((void *)(uintptr_t)EACH);
    pthread_join(other, NULL);
    *ops_out = 2 * EACH;
    return shared_counter;
}

static const struct load loads[] = {
    {"alu", alu},     {"sieve", sieve}, {"sha256", sha256},    {"stream", stream},
    {"memcpy", copy}, {"chase", chase}, {"matmul", matmul},    {"packed", packed},
    {"qsort", sort},  {"calls", calls}, {"getppid", getppid_}, {"fork", fork_},
    {"exec", exec_},  {"pipe", pipe_},  {"fault", fault},      {"atomics", atomics},
};
#define LOADS (sizeof(loads) / sizeof(loads[0]))

static void measure(const struct load *load)
{
    uint64_t ops = 0, all_ops = 0, sum = load->round(&ops);
    uint64_t start = now_ns(), spent;

    do {
        sum = load->round(&ops);
        all_ops += ops;
        spent = now_ns() - start;
    } while (spent < MIN_NS);
    printf("load %s %.3f %" PRIx64 "\n", load->name, (double)spent / (double)all_ops, sum);
    fflush(stdout);
}

static int soak(uint64_t seconds)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t end = now_ns() + seconds * 1000000000u;
    int bad = 0;

    for (long i = 0; i < processors; i++) {
        if (fork() == 0) {
            uint64_t ops, expected[LOADS];

            for (unsigned k = 0; k < LOADS; k++) {
                expected[k] = loads[k].round(&ops);
            }
            while (now_ns() < end) {
                for (unsigned k = 0; k < LOADS; k++) {
                    if (loads[k].round(&ops) != expected[k]) {
                        printf("soak: %s gave another result\n", loads[k].name);
                        _exit(1);
                    }
                }
            }
            _exit(0);
        }
    }
    for (long i = 0; i < processors; i++) {
        int status = 0;

        bad |= wait(&status) < 0 || status != 0;
    }
    puts(bad ? "soak bad" : "soak good");
    return bad;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "nothing") == 0) {
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "soak") == 0) {
        return soak(strtoull(argv[2], NULL, 10));
    }
    for (unsigned k = 0; k < LOADS; k++) {
        for (int i = 1; i < argc; i++) {
            if (strcmp(argv[i], "all") == 0 || strcmp(argv[i], loads[k].name) == 0) {
                measure(&loads[k]);
            }
        }
    }
    return 0;
}

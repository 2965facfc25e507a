/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What may run on the host and what never does; the encodings of 16- and 32-bit modes, which the
 * random test cannot compare; the cache, its limits and its mappings. */
#include "thunk-case.h"

#include "base/alloc.h"
#include "cpu/policy.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void begin(void)
{
    rig_finish(&rig);
    rig_init(&rig);
}

/* An instruction by its bytes, run as code of @mode. */
static int run(enum soft_mode mode, const char *bytes, size_t count)
{
    int rc = rig_decode(&rig, mode, (const uint8_t *)bytes, count);

    if (rc == 0) {
        soft_fpu_enter(&rig.vcpu);
        rc = soft_thunk_run(&rig.vcpu, rig.thunk, rig_address(&rig));
        soft_fpu_leave(&rig.vcpu);
    }
    return rc;
}
#define RUN(mode, bytes) run(mode, bytes "\0\0\0\0\0\0\0\0", sizeof(bytes) - 1 + 8)

/* Nothing of these may reach the host, whatever the decoder's table says of them. */
static void test_refused(void)
{
    static const struct {
        const char *name;
        char bytes[8];
    } cases[] = {
        {"syscall", "\x0f\x05"},
        {"sysenter", "\x0f\x34"},
        {"cpuid", "\x0f\xa2"},
        {"rdtsc", "\x0f\x31"},
        {"rdtscp", "\x0f\x01\xf9"},
        {"rdmsr", "\x0f\x32"},
        {"wrmsr", "\x0f\x30"},
        {"rdpmc", "\x0f\x33"},
        {"rdrand", "\x0f\xc7\xf0"},
        {"rdseed", "\x0f\xc7\xf8"},
        {"wrfsbase", "\xf3\x0f\xae\xd0"},
        {"rdgsbase", "\xf3\x0f\xae\xc8"},
        {"xgetbv", "\x0f\x01\xd0"},
        {"xsetbv", "\x0f\x01\xd1"},
        {"mov cr3", "\x0f\x22\xd8"},
        {"mov ds", "\x8e\xd8"},
        {"int3", "\xcc"},
        {"int", "\xcd\x80"},
        {"hlt", "\xf4"},
        {"in", "\xec"},
        {"cli", "\xfa"},
        {"std", "\xfd"},
        {"popf", "\x9d"},
        {"iret", "\xcf"},
        {"call", "\xff\xd0"},
        {"jmp", "\xff\xe0"},
        {"push", "\xff\xf0"},
        {"ret", "\xc3"},
        {"div", "\xf7\xf0"},
        {"idiv", "\xf6\xf8"},
        {"movs", "\xa4"},
        {"leave", "\xc9"},
        {"fxsave", "\x0f\xae\x00"},
        {"xrstor", "\x0f\xae\x28"},
        {"ldmxcsr", "\x0f\xae\x10"},
        {"fldenv", "\xd9\x20"},
        {"fnsave", "\xdd\x30"},
        {"fninit", "\xdb\xe3"},
        {"emms", "\x0f\x77"},
        {"bts with memory", "\x48\x0f\xab\x08"},
        {"ud2", "\x0f\x0b"},
        {"swapgs", "\x0f\x01\xf8"},
        {"vmcall", "\x0f\x01\xc1"},
        {"monitor", "\x0f\x01\xc8"},
        {"clflush", "\x0f\xae\x38"},
        {"lgdt", "\x0f\x01\x10"},
    };

    begin();
    for (size_t i = 0; i < HV_ARRAY_LEN(cases); i++) {
        uint8_t bytes[16] = {0};

        memcpy(bytes, cases[i].bytes, 4);
        if (rig_decode(&rig, SOFT_MODE_64, bytes, sizeof(bytes)) != -ENOTSUP) {
            tap_fail(__FILE__, __LINE__, "%s may run on the host", cases[i].name);
        }
    }
}

/* A feature that the host does not have: #UD for the guest, not SIGILL for us. */
static void test_host_lacks(void)
{
    begin();
    if (rig.cpu.policy->features & HV_BIT(HV_FEATURE_MOVDIRI)) {
        tap_skip("MOVDIRI is shown here.");
        return;
    }
    TAP_EQ(RUN(SOFT_MODE_64, "\x0f\x38\xf9\x08"), -ENOTSUP);
}

static void test_protected32(void)
{
    uint64_t *gpr = rig.cpu.slot;

    begin();
    rig.cpu.seg[HV_SEG_CS].attr &= ~(uint32_t)HV_SEG_ATTR_L;
    gpr[HV_REG_RAX] = 0x11223344;
    gpr[HV_REG_RBX] = 0x55667788;
    TAP_EQ(RUN(SOFT_MODE_32, "\x0f\xc0\xfc"), 0); /* xadd ah, bh */
    TAP_EQ(gpr[HV_REG_RAX], 0x1122aa44);
    TAP_EQ(gpr[HV_REG_RBX], 0x55663388);
    gpr[HV_REG_RCX] = 0x80000001;
    TAP_EQ(RUN(SOFT_MODE_32, "\xd3\xc1"), 0); /* rol ecx, cl */
    TAP_EQ(gpr[HV_REG_RCX], 0x00000003);
    TAP_EQ(RUN(SOFT_MODE_32, "\x66\x0f\xc8"), 0); /* bswap with 66: the host's answer */
    gpr[HV_REG_RSP] = 0x00010203;
    TAP_EQ(RUN(SOFT_MODE_32, "\x0f\xcc"), 0); /* bswap esp */
    TAP_EQ(gpr[HV_REG_RSP], 0x03020100);
    TAP_EQ(RUN(SOFT_MODE_32, "\x0f\xb6\xe4"), 0); /* movzx esp, ah */
    TAP_EQ(gpr[HV_REG_RSP], (gpr[HV_REG_RAX] >> 8) & 0xff);
    /* vmovd ecx, xmm1 with W set: there is no 64-bit register. */
    hv_store_le(&rig.cpu.x.bytes[XMM(1)], 0x1122334455667788, 8);
    TAP_EQ(RUN(SOFT_MODE_32, "\xc4\xe1\xf9\x7e\xc9"), 0);
    TAP_EQ(gpr[HV_REG_RCX], 0x55667788);
    /* andn with W set: operands of 32 bits. */
    gpr[HV_REG_RCX] = 0xff;
    gpr[HV_REG_RDX] = 0xffffffff0000ffff;
    TAP_EQ(RUN(SOFT_MODE_32, "\xc4\xe2\xf0\xf2\xc2"), 0);
    TAP_EQ(gpr[HV_REG_RAX], 0xff00);
}

static void test_protected16(void)
{
    uint64_t *gpr = rig.cpu.slot;

    begin();
    rig.cpu.seg[HV_SEG_CS].attr &= ~(uint32_t)HV_SEG_ATTR_L;
    gpr[HV_REG_RAX] = 0xffff1234;
    gpr[HV_REG_RDX] = 0xeeee0010;
    TAP_EQ(RUN(SOFT_MODE_16, "\xf7\xe2"), 0); /* mul dx */
    TAP_EQ(gpr[HV_REG_RAX], 0xffff2340);
    TAP_EQ(gpr[HV_REG_RDX], 0xeeee0001);
    TAP_EQ(RUN(SOFT_MODE_16, "\x66\xf7\xe2"), 0); /* mul edx */
    TAP_EQ(gpr[HV_REG_RAX], (uint32_t)(0xffff2340ull * 0xeeee0001ull));
    TAP_EQ(gpr[HV_REG_RDX], (0xffff2340ull * 0xeeee0001ull) >> 32);
    /* imul cx, bx, 0x0102: an immediate of two bytes. */
    gpr[HV_REG_RBX] = 3;
    gpr[HV_REG_RCX] = 0xffffffff;
    TAP_EQ(RUN(SOFT_MODE_16, "\x69\xcb\x02\x01"), 0);
    TAP_EQ(gpr[HV_REG_RCX], 0xffff0306);
    /* paddd xmm1, [bx+di+4]: a 16-bit address, no operand-size prefix involved. */
    TAP_EQ(rig_decode(&rig, SOFT_MODE_16, (const uint8_t *)"\x66\x0f\xfe\x49\x04", 5), 0);
    TAP_EQ(rig.thunk->memory_bytes, 16);
    TAP_OK(rig.thunk->aligned);
}

/* Registers 8 to 15 do not exist there: bit 7 of an immediate names none, nor are they zeroed. */
static void test_vex32(void)
{
    begin();
    rig.cpu.seg[HV_SEG_CS].attr &= ~(uint32_t)HV_SEG_ATTR_L;
    memset(&rig.cpu.x.bytes[XMM(0)], 0x11, 256);
    memset(&rig.cpu.x.bytes[YMM(0)], 0x22, 256);
    memset(&rig.cpu.x.bytes[XMM(3)], 0x80, 16);
    memset(&rig.cpu.x.bytes[XMM(2)], 0x99, 16);
    /* vblendvps xmm0, xmm1, xmm2, xmm3 with bit 7 of the immediate set */
    TAP_EQ(RUN(SOFT_MODE_32, "\xc4\xe3\x71\x4a\xc2\xb0"), 0);
    TAP_EQ(rig.cpu.x.bytes[XMM(0)], 0x99);
    TAP_EQ(rig.cpu.x.bytes[YMM(0)], 0);
    TAP_EQ(RUN(SOFT_MODE_32, "\xc5\xf8\x77"), 0); /* vzeroupper */
    TAP_EQ(rig.cpu.x.bytes[YMM(7) + 15], 0);
    TAP_EQ(rig.cpu.x.bytes[YMM(8)], 0x22);
    TAP_EQ(rig.cpu.x.bytes[XMM(1)], 0x11);
    TAP_EQ(RUN(SOFT_MODE_32, "\xc5\xfc\x77"), 0); /* vzeroall */
    TAP_EQ(rig.cpu.x.bytes[XMM(7)], 0);
    TAP_EQ(rig.cpu.x.bytes[XMM(8)], 0x11);
    rig.cpu.seg[HV_SEG_CS].attr |= HV_SEG_ATTR_L;
    TAP_EQ(RUN(SOFT_MODE_64, "\xc5\xfc\x77"), 0);
    TAP_EQ(rig.cpu.x.bytes[XMM(15)] | rig.cpu.x.bytes[YMM(8)], 0);
}

static const struct soft_thunk *thunk_of(const char *bytes, size_t count)
{
    return rig_decode(&rig, SOFT_MODE_64, (const uint8_t *)bytes, count) ? NULL : rig.thunk;
}

/* Where the operand is does not matter, what it is does. */
static void test_shared(void)
{
    const struct soft_thunk *one;

    begin();
    one = thunk_of("\x0f\x58\x08", 3); /* addps xmm1, [rax] */
    TAP_OK(one != NULL);
    TAP_OK(one == thunk_of("\x0f\x58\x8c\x8b\0\0\1\0", 8)); /* [rbx + rcx*4 + 10000h] */
    TAP_OK(one == thunk_of("\x41\x0f\x58\x4d\x05", 5));     /* [r13 + 5] */
    TAP_OK(one == thunk_of("\x64\x0f\x58\x0d\0\0\0\0", 8)); /* fs:[rip + 0] */
    TAP_OK(one != thunk_of("\x0f\x58\x10", 3));             /* xmm2 */
    TAP_OK(one != thunk_of("\x44\x0f\x58\x08", 4));         /* xmm9 */
    TAP_OK(one != thunk_of("\x0f\x58\xc8", 3));             /* a register */
    TAP_OK(thunk_of("\xf3\x48\x0f\xb8\xca", 5) != thunk_of("\xf3\x48\x0f\xb8\xd3", 5));
    TAP_OK(thunk_of("\x0f\xc6\xc8\x01", 4) != thunk_of("\x0f\xc6\xc8\x02", 4));
}

/* shufps and pshufd with all registers and immediates: more than the buffer holds. */
static int get_shuffle(unsigned i, const struct soft_thunk **thunk_out)
{
    const uint8_t code[] = {0x66,
                            0x40 | (i >> 16 & 1) << 2 | (i >> 17 & 1),
                            0x0f,
                            i >> 18 & 1 ? 0xc6 : 0x70,
                            0xc0 | (i >> 8 & 0x3f),
                            i & 0xff,
                            0,
                            0};
    int rc = rig_decode(&rig, SOFT_MODE_64, code, sizeof(code));

    *thunk_out = rig.thunk;
    return rc;
}

static void test_full(void)
{
    static const struct soft_thunk *kept[8192];
    const struct soft_thunk *thunk;
    unsigned made = 0;
    int64_t live;
    int rc = 0;

    begin();
    for (; made < 1u << 19 && rc == 0; made++) {
        /* Numbered so that the high register bits come before the table's end. */
        unsigned i = (made & 0x3fff) | (made >> 14) << 16;

        rc = get_shuffle(i, &thunk);
        if (made < HV_ARRAY_LEN(kept)) {
            kept[made] = thunk;
        }
    }
    TAP_EQ(rc, -ENOSPC);
    TAP_EQ(made - 1, 65536);
    /* Those that there are stay, and are found. */
    for (unsigned i = 0; i < HV_ARRAY_LEN(kept); i++) {
        TAP_EQ(get_shuffle(i, &thunk), 0);
        TAP_OK(thunk == kept[i]);
    }
    hv_store_le(&rig.cpu.x.bytes[XMM(0)], 0x0000000200000001, 8);
    hv_store_le(&rig.cpu.x.bytes[XMM(0) + 8], 0x0000000400000003, 8);
    TAP_EQ(get_shuffle(0x1b, &thunk), 0);
    TAP_EQ(soft_thunk_run(&rig.vcpu, thunk, 0), 0);
    TAP_EQ(hv_load_le(&rig.cpu.x.bytes[XMM(0)], 8), 0x0000000300000004);
    /* Starting over gives all of it back. */
    live = hv_alloc_live();
    TAP_EQ(soft_thunks_reset(rig.thunks), 0);
    TAP_OK(hv_alloc_live() <= live - 65536);
    TAP_EQ(get_shuffle(made, &thunk), 0);
    TAP_EQ(get_shuffle(0x1b, &thunk), 0);
    TAP_EQ(soft_thunk_run(&rig.vcpu, thunk, 0), 0);
    TAP_EQ(hv_load_le(&rig.cpu.x.bytes[XMM(0)], 8), 0x0000000200000001);
}

static void test_no_memory(void)
{
    struct soft_thunks *thunks;
    int64_t live;
    uint64_t n;
    int rc;

    begin();
    live = hv_alloc_live();
    for (n = 1;; n++) {
        hv_alloc_fail_at(n);
        rc = soft_thunks_create(&thunks);
        hv_alloc_fail_at(0);
        if (rc == 0) {
            break;
        }
        TAP_EQ(rc, -ENOMEM);
        TAP_OK(thunks == NULL);
        TAP_EQ(hv_alloc_live(), live);
    }
    TAP_EQ(n, 3);
    soft_thunks_destroy(thunks);
    TAP_EQ(hv_alloc_live(), live);
    hv_alloc_fail_at(1);
    rc = RUN(SOFT_MODE_64, "\x0f\x58\xc8");
    hv_alloc_fail_at(0);
    TAP_EQ(rc, -ENOMEM);
    TAP_EQ(RUN(SOFT_MODE_64, "\x0f\x58\xc8"), 0);
}

/* The buffer is mapped to write and to execute, and nowhere for both. */
static void test_mappings(void)
{
    static char maps[1 << 20];
    unsigned seen_write = 0, seen_execute = 0;
    size_t used = 0;
    ssize_t got;
    int fd;

    begin();
    fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    TAP_OK(fd >= 0);
    while ((got = read(fd, maps + used, sizeof(maps) - 1 - used)) > 0) {
        used += (size_t)got;
    }
    close(fd);
    for (char *line = strtok(maps, "\n"); line; line = strtok(NULL, "\n")) {
        const char *rights = strchr(line, ' ');

        if (rights && strstr(line, "lodge-thunks")) {
            seen_write += rights[2] == 'w';
            seen_execute += rights[3] == 'x';
            TAP_OK(!(rights[2] == 'w' && rights[3] == 'x'));
        }
    }
    TAP_EQ(seen_write, 1);
    TAP_EQ(seen_execute, 1);
}

/* Several vCPUs want the same thunks at the same time, while the table grows under them. */
#define RACERS 3
#define RACES  2000u

static const struct soft_thunk *raced[RACERS][RACES];

static void *race(void *argument)
{
    const struct soft_thunk **got = argument;

    for (unsigned i = 0; i < RACES; i++) {
        const uint8_t code[] = {0x66, 0x0f, 0x70, (uint8_t)(0xc0 | i >> 8), (uint8_t)i, 0, 0, 0};
        struct soft_insn insn;

        if (soft_decode(SOFT_MODE_64, code, sizeof(code), &insn) != SOFT_DECODE_OK ||
            soft_thunk_get(rig.thunks, &insn, code, &got[i]) != 0) {
            return argument;
        }
    }
    return NULL;
}

static void test_threads(void)
{
    pthread_t thread[RACERS];
    void *failed = NULL;

    begin();
    for (unsigned i = 0; i < RACERS; i++) {
        TAP_EQ(pthread_create(&thread[i], NULL, race, raced[i]), 0);
    }
    for (unsigned i = 0; i < RACERS; i++) {
        void *result;

        TAP_EQ(pthread_join(thread[i], &result), 0);
        failed = result ? result : failed;
    }
    TAP_OK(!failed);
    for (unsigned i = 0; i < RACES; i++) {
        TAP_OK(raced[0][i] && raced[0][i] == raced[1][i] && raced[0][i] == raced[2][i]);
        TAP_OK(i == 0 || raced[0][i] != raced[0][i - 1]);
    }
}

int main(int argc, char **argv)
{
    static const struct tap_case cases[] = {
        {"engine.thunk-forms.refused", test_refused},
        {"engine.thunk-forms.host-lacks", test_host_lacks},
        {"engine.thunk-forms.protected32", test_protected32},
        {"engine.thunk-forms.protected16", test_protected16},
        {"engine.thunk-forms.vex32", test_vex32},
        {"engine.thunk-forms.shared", test_shared},
        {"engine.thunk-forms.full", test_full},
        {"engine.thunk-forms.no-memory", test_no_memory},
        {"engine.thunk-forms.mappings", test_mappings},
        {"engine.thunk-forms.threads", test_threads},
    };

    if (!rig_host_has_avx()) {
        return rig_skip("The host has no AVX2.");
    }
    return tap_run(argc, argv, cases, HV_ARRAY_LEN(cases));
}

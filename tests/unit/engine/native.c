/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The host as an oracle: code page, signals, the trip through native-enter.S. */
#include "native.h"

#include "lib/tap.h"

#include <cpuid.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

void native_enter(struct native *native, void *code);
void native_return(void);

#define XSTATE_HEADER 512
#define MXCSR         24
#define RFLAGS_ARITH  0x8d5u

static struct {
    uint8_t *code;
    struct native *running;
    sigjmp_buf back;
} oracle;

static void caught(int number, siginfo_t *info, void *context)
{
    const ucontext_t *user = context;
    struct native *native = oracle.running;

    if (!native) {
        /* Not the oracle's: the test itself dies of it, in the same place. */
        signal(number, SIG_DFL);
        return;
    }
    native->signal = number;
    native->address = number == SIGSEGV ? (uint64_t)(uintptr_t)info->si_addr : 0;
    native->mxcsr = user->uc_mcontext.fpregs->mxcsr;
    siglongjmp(oracle.back, 1);
}

bool native_available(void)
{
    uint32_t a, b, c, d, low, high;

    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) {
        return false;
    }
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & 6) == 6;
}

static void prepare(void)
{
    static uint8_t stack[1 << 16];
    const stack_t alternate = {.ss_sp = stack, .ss_size = sizeof(stack)};
    struct sigaction action = {.sa_sigaction = caught,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    void *page;

    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        __builtin_trap();
    }
    oracle.code = page;
    sigaltstack(&alternate, NULL);
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    sigaction(SIGILL, &action, NULL);
    sigaction(SIGFPE, &action, NULL);
}

void native_run(struct native *native, const uint8_t *code, size_t bytes)
{
    void (*back)(void) = native_return;
    uint32_t mxcsr;

    if (!oracle.code) {
        prepare();
    }
    memcpy(oracle.code, code, bytes);
    memcpy(oracle.code + bytes, "\xff\x25\0\0\0\0", 6); /* jmp [rip] */
    memcpy(oracle.code + bytes + 6, &back, sizeof(back));
    memset(&native->x[XSTATE_HEADER], 0, 64);
    native->x[XSTATE_HEADER] = 7;
    native->rflags &= RFLAGS_ARITH;
    native->signal = 0;
    native->address = 0;
    __asm__ volatile("stmxcsr %0" : "=m"(mxcsr));
    oracle.running = native;
    if (sigsetjmp(oracle.back, 0) == 0) {
        native_enter(native, oracle.code);
        native->rflags &= RFLAGS_ARITH;
    } else {
        __asm__ volatile("fninit; vzeroupper; cld");
    }
    oracle.running = NULL;
    __asm__ volatile("ldmxcsr %0" : : "m"(mxcsr));
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Signal frames as the way into an instruction and out of it. */
#include "engine/isa-host.h"

#include "cpu/state.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define SIGNAL_STACK   (256u << 10)
/* Wishes, so that a seed gives the same addresses each time. */
#define CODE_HINT      ((void *)0x50000000)
#define SANDBOX_HINT   ((void *)0x50100000)
/* XSAVE area in the frame, standard form (SDM 1 13.4): header, then the upper halves of YMM. */
#define XSTATE_HEADER  512u
#define XSTATE_AVX     576u
#define XSTATE_MASK    7u /* x87, SSE, AVX */
/* What Linux says at byte 464 of a frame that holds more than FXSAVE's 512 bytes. */
#define FRAME_MAGIC    0x46505853u

/* arch_prctl(2). */
#define ARCH_SET_GS    0x1001

#define FLAGS_OF_STATE (HV_RFLAGS_ARITH | HV_RFLAGS_DF)

enum host_phase {
    HOST_PHASE_IDLE,
    HOST_PHASE_ENTER,
    HOST_PHASE_RUN,
};

struct isa_host {
    uint8_t *code_write; /* ISA_CODE_BYTES: to write, to run, and to run above */
    uint8_t *code, *code_alias;
    uint8_t *area, *area_alias; /* four pages, the middle two are the sandbox */
    uint8_t *stack;
    volatile enum host_phase phase;
    struct isa_state *state;
    struct isa_outcome outcome;
    size_t frame_bytes;
    /* The caller's, while the instruction runs. */
    gregset_t registers;
    uint8_t frame[16384];
};

/* A signal handler has no argument of ours. */
static struct isa_host *host_of_signals;

static const int host_signals[] = {SIGTRAP, SIGILL, SIGSEGV, SIGFPE, SIGBUS};

/* Linux' numbering of registers in a frame against the encoding's. */
static const int frame_register[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                       REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                       REG_R12, REG_R13, REG_R14, REG_R15};

static size_t frame_size(const uint8_t *frame)
{
    uint32_t magic, bytes;

    memcpy(&magic, frame + 464, sizeof(magic));
    memcpy(&bytes, frame + 468, sizeof(bytes));
    return magic == FRAME_MAGIC ? bytes : 512;
}

static void put_vectors(const struct isa_state *state, uint8_t *frame)
{
    uint64_t components;

    memcpy(frame, &state->fcw, 2);
    memcpy(frame + 2, &state->fsw, 2);
    frame[4] = state->ftw;
    memcpy(frame + 24, &state->mxcsr, 4);
    memcpy(frame + 32, state->st, sizeof(state->st));
    for (unsigned i = 0; i < 16; i++) {
        memcpy(frame + 160 + (size_t)16 * i, state->ymm[i], 16);
        memcpy(frame + XSTATE_AVX + (size_t)16 * i, state->ymm[i] + 16, 16);
    }
    memcpy(&components, frame + XSTATE_HEADER, sizeof(components));
    components |= XSTATE_MASK;
    memcpy(frame + XSTATE_HEADER, &components, sizeof(components));
}

static void get_vectors(struct isa_state *state, const uint8_t *frame)
{
    uint64_t components;

    memcpy(&state->fcw, frame, 2);
    memcpy(&state->fsw, frame + 2, 2);
    state->ftw = frame[4];
    memcpy(&state->mxcsr, frame + 24, 4);
    memcpy(state->st, frame + 32, sizeof(state->st));
    memcpy(&components, frame + XSTATE_HEADER, sizeof(components));
    for (unsigned i = 0; i < 16; i++) {
        memcpy(state->ymm[i], frame + 160 + (size_t)16 * i, 16);
        if (components & 4)
            memcpy(state->ymm[i] + 16, frame + XSTATE_AVX + (size_t)16 * i, 16);
        else
            memset(state->ymm[i] + 16, 0, 16);
    }
}

/* The frame becomes the instruction's; the caller's registers wait in @host. */
static void enter(struct isa_host *host, ucontext_t *context)
{
    const struct isa_state *state = host->state;
    greg_t *registers = context->uc_mcontext.gregs;
    uint8_t *frame = (uint8_t *)context->uc_mcontext.fpregs;

    memcpy(host->registers, registers, sizeof(host->registers));
    host->frame_bytes = frame_size(frame);
    if (host->frame_bytes > sizeof(host->frame))
        abort();
    memcpy(host->frame, frame, host->frame_bytes);
    for (unsigned i = 0; i < 16; i++)
        registers[frame_register[i]] = (greg_t)state->gpr[i];
    registers[REG_RIP] = (greg_t)state->rip;
    registers[REG_EFL] = (greg_t)(((uint64_t)registers[REG_EFL] & ~(uint64_t)FLAGS_OF_STATE) |
                                  (state->rflags & FLAGS_OF_STATE));
    put_vectors(state, frame);
    host->phase = HOST_PHASE_RUN;
}

static void leave(struct isa_host *host, ucontext_t *context)
{
    struct isa_state *state = host->state;
    greg_t *registers = context->uc_mcontext.gregs;
    uint8_t *frame = (uint8_t *)context->uc_mcontext.fpregs;

    for (unsigned i = 0; i < 16; i++)
        state->gpr[i] = (uint64_t)registers[frame_register[i]];
    state->rip = (uint64_t)registers[REG_RIP];
    state->rflags = (uint64_t)registers[REG_EFL] & FLAGS_OF_STATE;
    get_vectors(state, frame);
    host->outcome.vector = (uint8_t)registers[REG_TRAPNO];
    host->outcome.error = 0;
    host->outcome.address = 0;
    if (host->outcome.vector == 14) {
        host->outcome.address = (uint64_t)registers[REG_CR2];
    }
    if (host->outcome.vector >= 10 && host->outcome.vector <= 14) {
        host->outcome.error = (uint32_t)registers[REG_ERR];
    }
    /* The breakpoint behind the instruction is no fault of its own. */
    if (host->outcome.vector == 3 &&
        isa_unalias(state->rip) - 1 - isa_host_code(host) < ISA_CODE_BYTES) {
        host->outcome.vector = ISA_VECTOR_NONE;
        state->rip--;
    }
    memcpy(registers, host->registers, sizeof(host->registers));
    memcpy(frame, host->frame, host->frame_bytes);
    host->phase = HOST_PHASE_IDLE;
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    struct isa_host *host = host_of_signals;

    (void)info;
    if (host && host->phase == HOST_PHASE_ENTER) {
        enter(host, context);
    } else if (host && host->phase == HOST_PHASE_RUN) {
        leave(host, context);
    } else {
        /* A crash of the test itself: let it be one. */
        signal(number, SIG_DFL);
    }
}

/* NULL when it cannot be done. */
static uint8_t *map(void *hint, size_t bytes, int protection, int flags, int memory)
{
    void *place = mmap(hint, bytes, protection, flags, memory, 0);

    return place == MAP_FAILED ? NULL : place;
}

static void *alias_of(const uint8_t *place)
{
    return (void *)((uintptr_t)place + ISA_ALIAS);
}

static bool map_code(struct isa_host *host)
{
    int memory = memfd_create("isa-code", MFD_CLOEXEC);

    if (memory < 0 || ftruncate(memory, (off_t)ISA_CODE_BYTES) != 0)
        return false;
    host->code_write = map(NULL, ISA_CODE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memory);
    host->code =
        map(CODE_HINT, ISA_CODE_BYTES, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_32BIT, memory);
    if (host->code)
        host->code_alias = map(alias_of(host->code), ISA_CODE_BYTES, PROT_READ | PROT_EXEC,
                               MAP_SHARED | MAP_FIXED_NOREPLACE, memory);
    close(memory);
    if (!host->code_write || !host->code_alias)
        return false;
    isa_host_clear(host);
    return true;
}

/* The sandbox over the middle of four pages. */
static bool map_middle(uint8_t *area, int memory)
{
    return area && map(area + HV_PAGE_SIZE, ISA_SANDBOX_BYTES, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_FIXED, memory);
}

static bool map_sandbox(struct isa_host *host)
{
    int memory = memfd_create("isa-sandbox", MFD_CLOEXEC);
    bool mapped;

    if (memory < 0 || ftruncate(memory, (off_t)ISA_SANDBOX_BYTES) != 0)
        return false;
    host->area =
        map(SANDBOX_HINT, 4 * HV_PAGE_SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1);
    if (host->area)
        host->area_alias = map(alias_of(host->area), 4 * HV_PAGE_SIZE, PROT_NONE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1);
    mapped = map_middle(host->area, memory) && map_middle(host->area_alias, memory);
    close(memory);
    return mapped;
}

/* No library of Linux uses GS. */
static bool set_gs_base(uint64_t base)
{
    return syscall(SYS_arch_prctl, ARCH_SET_GS, base) == 0;
}

static bool take_signals(struct isa_host *host)
{
    struct sigaction action = {.sa_sigaction = on_signal,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    stack_t stack = {.ss_size = SIGNAL_STACK};

    host->stack = malloc(SIGNAL_STACK);
    if (!host->stack)
        return false;
    stack.ss_sp = host->stack;
    if (sigaltstack(&stack, NULL) != 0)
        return false;
    for (size_t i = 0; i < HV_ARRAY_LEN(host_signals); i++)
        sigaction(host_signals[i], &action, NULL);
    host_of_signals = host;
    return true;
}

struct isa_host *isa_host_create(void)
{
    struct isa_host *host = calloc(1, sizeof(*host));

    if (!host)
        return NULL;
    if (!__builtin_cpu_supports("avx") || !map_code(host) || !map_sandbox(host) ||
        !set_gs_base(ISA_GS_BASE) || !take_signals(host)) {
        isa_host_destroy(host);
        return NULL;
    }
    return host;
}

static void unmap(uint8_t *place, size_t bytes)
{
    if (place)
        munmap(place, bytes);
}

void isa_host_destroy(struct isa_host *host)
{
    static const stack_t none = {.ss_flags = SS_DISABLE};

    if (!host)
        return;
    if (host_of_signals == host) {
        for (size_t i = 0; i < HV_ARRAY_LEN(host_signals); i++)
            signal(host_signals[i], SIG_DFL);
        sigaltstack(&none, NULL);
        host_of_signals = NULL;
    }
    (void)set_gs_base(0);
    unmap(host->code, ISA_CODE_BYTES);
    unmap(host->code_alias, ISA_CODE_BYTES);
    unmap(host->code_write, ISA_CODE_BYTES);
    unmap(host->area, 4 * HV_PAGE_SIZE);
    unmap(host->area_alias, 4 * HV_PAGE_SIZE);
    free(host->stack);
    free(host);
}

uint64_t isa_host_code(const struct isa_host *host)
{
    return (uintptr_t)host->code;
}

void isa_host_clear(struct isa_host *host)
{
    memset(host->code_write, ISA_TRAP, ISA_CODE_BYTES);
}

uint8_t *isa_host_sandbox(struct isa_host *host)
{
    return host->area + HV_PAGE_SIZE;
}

struct isa_outcome isa_host_run(struct isa_host *host, const uint8_t *bytes, size_t length,
                                struct isa_state *state)
{
    memcpy(host->code_write + (isa_unalias(state->rip) - isa_host_code(host)), bytes, length);
    host->state = state;
    host->phase = HOST_PHASE_ENTER;
    __asm__ volatile("int3" ::: "memory");
    return host->outcome;
}

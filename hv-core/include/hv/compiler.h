/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Words that say something to the compiler: results that must be looked at, formats, branches that
 * are rare, and the lock annotations of clang's thread-safety analysis.
 *
 * The annotations of struct members take the guard by address (`HV_GUARDED_BY(&lock)`): given by
 * value they raise false alarms on correct code, and clang before 19 refuses them on members of C
 * structs, so they expand to nothing there.
 */
#pragma once

#define HV_MUST_CHECK                     __attribute__((warn_unused_result))
#define HV_PRINTF(fmt, first)             __attribute__((format(printf, fmt, first)))
#define HV_NORETURN                       __attribute__((noreturn))
#define HV_COLD                           __attribute__((cold, noinline))
#define HV_ALIGNED(bytes)                 __attribute__((aligned(bytes)))
#define HV_PACKED                         __attribute__((packed))
#define HV_UNUSED                         __attribute__((unused))
#define HV_LIKELY(condition)              __builtin_expect(!!(condition), 1)
#define HV_UNLIKELY(condition)            __builtin_expect(!!(condition), 0)

/* What one writer writes and others read stands on a line of its own. */
#define HV_CACHE_LINE                     64

#define HV_STATIC_ASSERT(condition, text) _Static_assert(condition, text)
#define HV_ARRAY_LEN(array)               (sizeof(array) / sizeof((array)[0]))
#define HV_CONTAINER_OF(pointer, type, member) \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

#if defined(__clang__) && __clang_major__ >= 19
#define HV_TSA(attribute)    __attribute__((attribute))
#define HV_GUARDED_BY(guard) HV_TSA(guarded_by(guard))
#elif defined(__clang__)
#define HV_TSA(attribute) __attribute__((attribute))
#define HV_GUARDED_BY(guard)
#else
#define HV_TSA(attribute)
#define HV_GUARDED_BY(guard)
#endif

#define HV_CAPABILITY(name)     HV_TSA(capability(name))
#define HV_ACQUIRES(...)        HV_TSA(acquire_capability(__VA_ARGS__))
#define HV_ACQUIRES_SHARED(...) HV_TSA(acquire_shared_capability(__VA_ARGS__))
#define HV_TRY_ACQUIRES(...)    HV_TSA(try_acquire_capability(__VA_ARGS__))
#define HV_RELEASES(...)        HV_TSA(release_capability(__VA_ARGS__))
#define HV_RELEASES_SHARED(...) HV_TSA(release_shared_capability(__VA_ARGS__))
#define HV_REQUIRES(...)        HV_TSA(requires_capability(__VA_ARGS__))
#define HV_REQUIRES_SHARED(...) HV_TSA(requires_shared_capability(__VA_ARGS__))
#define HV_EXCLUDES(...)        HV_TSA(locks_excluded(__VA_ARGS__))
#define HV_ASSERTS_HELD(...)    HV_TSA(assert_capability(__VA_ARGS__))
#define HV_ASSERTS_SHARED(...)  HV_TSA(assert_shared_capability(__VA_ARGS__))
#define HV_NO_TSA               HV_TSA(no_thread_safety_analysis)

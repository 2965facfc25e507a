/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The tests. Each is called by CPU 0 and ends with report(). */
#pragma once

struct litmus {
    const char *name; /* NULL: the end */
    void (*run)(void);
};

/** shapes.c: orders in which loads and stores of several CPUs may be seen (SDM 3A 8.2). Comes back
 * when there is no shape of that name. */
void run_shape(const char *name);
/* atomics.c: locked instructions lose nothing, and locks made of them exclude. */
extern const struct litmus atomics_tests[];
/* systems.c: interrupts between CPUs, translations, code, and processors started again. */
extern const struct litmus systems_tests[];
/* paravirt.c: what KVM's interface promises, with HLT and kicks, interrupts and areas. */
extern const struct litmus paravirt_tests[];

# SPDX-License-Identifier: GPL-3.0-or-later
"""The payloads and what may become of each; and kernels of nothing but random bytes."""
import struct

OK, CRASH, TIMEOUT, HALTED = 0, 3, 4, 5
FOREVER = {TIMEOUT}
# What garbage does is its own affair, as long as it is an end that the machine knows.
ANY = {OK, CRASH, TIMEOUT, HALTED}

# name: (vCPUs, statuses with which it may end under --timeout and --on-reboot exit)
PAYLOADS = {
    'power-off': (1, {OK}),
    'reset': (1, {OK}),
    'triple-fault': (1, {CRASH}),
    'deaf': (1, {HALTED}),
    'debug-exit': (1, {32 + (42 & 31)}),
    'spin': (1, FOREVER),
    'spin-wide': (1, FOREVER),
    'spin-pause': (1, FOREVER),
    'spin-all': (4, FOREVER),
    'uart-flood': (1, FOREVER),
    'uart-count': (1, FOREVER),
    'uart-string': (1, FOREVER),
    'uart-all': (4, FOREVER),
    'uart-random': (1, FOREVER),
    'echo': (1, FOREVER),
    'idle': (1, FOREVER),
    'nmi-wait': (4, FOREVER),
    'int-storm': (1, FOREVER),
    'int-nest': (1, ANY),
    'fault-storm': (1, FOREVER),
    'debug-storm': (1, FOREVER),
    'timer-storm': (1, FOREVER),
    'timer-churn': (1, FOREVER),
    'timer-all': (4, ANY),
    'device-storm': (1, ANY),
    'device-all': (4, ANY),
    'init-storm': (4, ANY),
    'ipi-storm': (4, FOREVER),
    'write-all': (1, FOREVER),
    'write-tables': (1, {CRASH}),
    'scribble-all': (4, FOREVER),
    'code-full': (1, FOREVER),
    'self-modify': (1, FOREVER),
    'creep': (1, ANY),
    'modify-all': (4, FOREVER),
    'lock-all': (4, FOREVER),
    'page-loops': (1, ANY),
    'page-devices': (1, ANY),
    'string-huge': (1, FOREVER),
    'string-hole': (1, FOREVER),
    'string-input': (1, FOREVER),
    'string-random': (1, FOREVER),
    'flush-storm': (1, FOREVER),
    'garbage': (1, ANY),
    'garbage-all': (4, ANY),
    'garbage-paged': (1, ANY),
    'garbage-long': (1, ANY),
    'garbage-real': (1, ANY),
    'msrs': (1, ANY),
    'controls': (1, ANY),
    'descriptors': (1, ANY),
    'states': (1, FOREVER),
    'pv-areas': (1, ANY),
    'pv-areas-all': (4, ANY),
    'pv-share': (4, FOREVER),
    'pv-calls': (4, FOREVER),
    'pv-kicks': (4, FOREVER),
}

# Those that run until they are stopped.
ENDLESS = sorted(name for name, (_, statuses) in PAYLOADS.items() if TIMEOUT in statuses)


def command(lodgectl, kernel, name, seed, *options):
    """The command line that runs payload @name."""
    if PAYLOADS[name][1] is not ANY:
        options = ['--testdev', *options]
    return [lodgectl, 'run', '--kernel', str(kernel), '--append', f'payload={name} seed={seed}',
            '--memory', '64', '--vcpus', str(PAYLOADS[name][0]), '--on-reboot', 'exit',
            *options]


def blob_kernel(random, size=4096):
    """A Multiboot ELF32 whose code is random bytes, entered anywhere in them."""
    base = 0x100000
    multiboot = struct.pack('<III', 0x1badb002, 0, -0x1badb002 & 0xffffffff)
    code = multiboot + random.randbytes(size - len(multiboot))
    entry = base + len(multiboot) + random.randrange(size - len(multiboot))
    header = struct.pack('<16sHHIIIIIHHHHHH', b'\x7fELF\x01\x01\x01', 2, 3, 1, entry, 52, 0, 0,
                         52, 32, 1, 0, 0, 0)
    segment = struct.pack('<IIIIIIII', 1, 84, base, base, len(code), len(code), 7, 4)
    return header + segment + code

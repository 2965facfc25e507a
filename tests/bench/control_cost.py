# SPDX-License-Identifier: GPL-3.0-or-later
"""The row `stats-cost`: host instructions that go into statistics, beside those that run a guest.

Both are counted by callgrind, in a lodge-core whose machine runs a fixed payload: the thread that writes
the shared pages has a count of its own, and so a round of it. How many guest instructions a second the
payload makes is measured without callgrind; there is a round a second. What of statistics is in the
guest's own way, counters that are added to, is in the other count."""
import os
import pathlib
import re
import shutil
import signal
import sys
import tempfile
import time

import libvirt

from figures import spread
from harness import Daemon, check, machine_xml, wait_for

PAYLOAD = 'spin-wide'
# Long enough for rounds with the table of locks, one in ten, and for what starting costs to be little.
COUNTED_S, NATIVE_S = 21, 5
SCRIPT = """#!/bin/sh
exec valgrind --tool=callgrind --separate-threads=yes --smc-check=all \\
    --callgrind-out-file={folder}/count.%p --log-file={folder}/log.%p \\
    {core} "$@" --sandbox none --debuggable
"""


def run_payload(args, seconds, core=None):
    """Guest instructions, and seconds that its virtual CPU ran, of a machine that is stopped then."""
    daemon = Daemon(args.tree / 'src/daemon/virtlodged')
    if core:
        daemon.environment['LODGE_CORE'] = str(core)
    payload = args.tree / 'tests/guest/hostile/hostile-payload'
    with daemon:
        domain = libvirt.open(daemon.uri).defineXML(
            machine_xml('counted', payload, f'payload={PAYLOAD}'))
        domain.create()
        time.sleep(seconds)
        domain.suspend()
        # Until a round has written what it had done in the end.
        seen = []
        while len(seen) < 2 or seen[-1] != seen[-2]:
            time.sleep(2)
            stats = domain.connect().domainListGetStats([domain])[0][1]
            seen.append((stats['engine.instructions'], stats['cpu.time'] / 1e9))
        cores = daemon.cores()
        domain.destroy()
        for pid in cores:
            os.kill(pid, signal.SIGTERM)
        wait_for(lambda: not any(pathlib.Path(f'/proc/{pid}').exists() for pid in cores),
                 'the end of the core')
    return seen[-1]


def read_counts(path):
    """Instructions of one thread, and how often it ended a round of statistics. Format: callgrind's
    manual, "Callgrind Format Specification"."""
    total, rounds, names, called, calls = 0, 0, {}, None, 0
    for line in path.read_text(encoding='utf-8', errors='replace').splitlines():
        name = re.match(r'c?fn=\((\d+)\)(?: (.*))?$', line)
        if name and name.group(2):
            names[name.group(1)] = name.group(2)
        if line.startswith('totals:'):
            total = int(line.split()[1])
        elif line.startswith('cfn='):
            called = name.group(1)
        elif line.startswith('calls='):
            calls = int(line.split('=')[1].split()[0])
            if names.get(called) == 'hv_stat_pages_end_round':
                rounds += calls
    return total, rounds


def once(args):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        script = folder / 'lodge-core'
        script.write_text(SCRIPT.format(folder=folder, core=args.tree / 'hv-core/main/lodge-core'))
        script.chmod(0o755)
        instructions, _ = run_payload(args, COUNTED_S, script)
        threads = [read_counts(path) for path in folder.glob('count.*-*')]
    writers = [thread for thread in threads if thread[1] > 0]
    check(len(writers) == 1, f'{len(writers)} threads of {len(threads)} write statistics')
    a_round = writers[0][0] / writers[0][1]
    per_guest = (sum(total for total, _ in threads) - writers[0][0]) / instructions
    guest, seconds = run_payload(args, NATIVE_S)
    rate = guest / seconds
    return {'rounds_counted': writers[0][1], 'instructions_a_round': a_round,
            'instructions_a_guest_instruction': per_guest, 'guest_instructions_a_second': rate,
            'cost_pct': 100 * a_round / (rate * per_guest)}


def stats_cost(args):
    if not shutil.which('valgrind'):
        print('control: stats-cost: valgrind is not installed', file=sys.stderr)
        if not args.quick:
            sys.exit(1)
        return
    runs = [once(args) for _ in range(min(args.runs, 3))]
    yield {'bench': 'control', 'row': 'stats-cost', 'payload': PAYLOAD, 'machines': 1,
           'period_s': 1, 'goal_pct': 1,
           **{name: spread([run[name] for run in runs]) for name in runs[0]}}

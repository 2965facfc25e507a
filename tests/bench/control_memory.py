# SPDX-License-Identifier: GPL-3.0-or-later
"""What processes of the control plane hold of the host's memory, by lodgectl host --memory, and the row
`memory`: with many small machines, and with a Linux guest that idles."""
import concurrent.futures
import json
import os
import subprocess
import time

import libvirt

from figures import spread
from harness import LIMIT_S, Daemon, check, machine_xml

MIB = 1 << 20
# A core writes its statistics once a second; what is in memory after a start settles within that.
SETTLE_S = 3
IDLE_S = 60
GUEST_MIB = 128
BOOT_LIMIT_S = 600


def process_memory(args, daemon):
    """MiB of virtlodged, and of its cores together beside their guests' memory, and of that. A core's
    parts are told to root alone: else the second is all of it, and the third None."""
    said = subprocess.run([args.tree / 'src/cli/lodgectl', 'host', '--memory', '--json'], check=True,
                          env=daemon.environment, stdout=subprocess.PIPE, timeout=LIMIT_S).stdout
    rows = {row['pid']: row for row in json.loads(said)}
    cores = [rows[pid] for pid in daemon.cores()]
    guests = [row.get('guest_bytes', 0) for row in cores]
    return (rows[daemon.process.pid]['resident_bytes'] / MIB,
            (sum(row['resident_bytes'] for row in cores) - sum(guests)) / MIB,
            sum(guests) / MIB if os.geteuid() == 0 else None)


def await_line(daemon, name, line):
    """Until the console of a machine has said it; the moment."""
    connection = libvirt.open(daemon.uri)
    stream = connection.newStream()
    connection.lookupByName(name).openConsole(None, stream)
    seen = b''
    while line not in seen:
        got = stream.recv(4096)
        check(got, f'{name}: end of its console')
        seen = (seen + got)[-8192:]
    moment = time.monotonic()
    stream.abort()
    return moment


def linux_xml(args, name, command, memory_mib=GUEST_MIB):
    xml = machine_xml(name, args.assets / 'vmlinuz', command, memory_mib)
    return xml.replace('</kernel>', f'</kernel><initrd>{args.assets}/initramfs.cpio</initrd>')


def block_mib(connection):
    """MiB of the block caches of all machines: a cache with a bound of its own, told apart."""
    return sum(stats.get('engine.block_bytes', 0)
               for _, stats in connection.getAllDomainStats(libvirt.VIR_DOMAIN_STATS_VM)) / MIB


def look(args, daemon, connection):
    """virtlodged's MiB, its cores' beside guests and block caches, and those of block caches."""
    time.sleep(SETTLE_S)
    blocks = block_mib(connection)
    daemon_mib, core_mib, _ = process_memory(args, daemon)
    return daemon_mib, core_mib - blocks, blocks


def of_payloads(args):
    payload = args.tree / 'tests/guest/hostile/hostile-payload'
    with Daemon(args.tree / 'src/daemon/virtlodged') as daemon, \
            concurrent.futures.ThreadPoolExecutor(args.threads) as threads:
        connection = libvirt.open(daemon.uri)

        def create(name):
            connection.defineXML(machine_xml(name, payload, 'payload=idle')).create()

        create('first')
        _, core, blocks = look(args, daemon, connection)
        list(threads.map(create, [f'small-{number}' for number in range(args.machines)]))
        daemon_mib, core_full, blocks_full = look(args, daemon, connection)
        for domain in connection.listAllDomains():
            domain.destroy()
    return {'daemon_mib': daemon_mib, 'core_mib_per_machine': (core_full - core) / args.machines,
            'block_cache_mib_per_machine': (blocks_full - blocks) / args.machines}


def of_linux(args):
    payload = args.tree / 'tests/guest/hostile/hostile-payload'
    with Daemon(args.tree / 'src/daemon/virtlodged') as daemon:
        connection = libvirt.open(daemon.uri)
        first = connection.defineXML(machine_xml('first', payload, 'payload=idle'))
        first.create()
        _, core, blocks = look(args, daemon, connection)
        command = 'console=ttyS0 quiet panic=-1 mitigations=off lodge.run=sleep,3600'
        linux = connection.defineXML(linux_xml(args, 'linux', command))
        linux.create()
        await_line(daemon, 'linux', b'lodge: init')
        time.sleep(1 if args.quick else IDLE_S)
        _, core_full, blocks_full = look(args, daemon, connection)
        linux.destroy()
        first.destroy()
    return {'linux_core_mib': core_full - core, 'linux_block_cache_mib': blocks_full - blocks}


def memory(args):
    if os.geteuid() != 0:
        yield {'bench': 'control', 'row': 'memory',
               'skipped': 'the parts of a core\'s memory are told to root alone'}
        return
    runs = [of_payloads(args) for _ in range(args.runs)]
    yield {'bench': 'control', 'row': 'memory', 'machines': args.machines,
           'goals_mib': 'virtlodged 40, a machine 1',
           **{name: spread([run[name] for run in runs]) for name in runs[0]}}
    if not (args.assets / 'vmlinuz').exists():
        yield {'bench': 'control', 'row': 'memory',
               'skipped': f'no guest kernel in {args.assets}: tests/guest/get-assets'}
        return
    runs = [of_linux(args) for _ in range(min(args.runs, 3))]
    yield {'bench': 'control', 'row': 'memory', 'guest_mib': GUEST_MIB,
           'idle_s': 1 if args.quick else IDLE_S, 'goals_mib': 'core 4, block cache 16',
           **{name: spread([run[name] for run in runs]) for name in runs[0]}}

# SPDX-License-Identifier: GPL-3.0-or-later
"""Row `kill` of tests/bench/control: virtlodged, a lodge-core or a client is killed at a random moment
while clients (tests/daemon/restless.py) make, start, end and forget machines. Afterwards nothing that was
answered is lost, nothing is half made, nothing is left over, and all can be deleted."""
import concurrent.futures
import json
import os
import pathlib
import random
import re
import select
import signal
import socket
import statistics
import struct
import subprocess
import sys
import time
import traceback

import libvirt

from figures import p99
from harness import LIMIT_S, Daemon, Failed, check, equal, peer_pid, wait_for
from ledger import ANY, Account, read_steps
from restless import Machine, machines_of, talk

RESTLESS = pathlib.Path(__file__).resolve().parent.parent / 'daemon/restless.py'
CLIENTS = 3
# Kills come within so long of the beginning of the loops: some steps of each client.
KILL_WITHIN_S, GO_ON_S = 0.3, 0.1
AGAIN, AGAIN_WITHIN_S = 0.25, 0.05  # how often the next daemon is killed too, while it begins
NEVER_CAME_S = 2                    # after that, what a killed client asked for never left it
WIPE = 0.5                          # how often nothing is kept for the next round
LEFTOVERS = 0.2                     # how often one waits then for what goes a while later
# Of hv/op.h: HELLO that only asks, and its answer.
OP_HEADER = pathlib.Path(__file__).resolve().parent.parent.parent / 'hv-core/include/hv/op.h'
OP_VERSION = int(re.search(r'define HV_OP_VERSION +(\d+)u', OP_HEADER.read_text(encoding='utf-8'))[1])
HELLO = struct.pack('<IIQiIQII', 40, 1, 1, 0, 0, 0x726f436567646f4c, OP_VERSION, 0)
WELCOME_DOMAINS = struct.Struct('<24x40xI')


class Client:
    """A restless client, and its log of this round."""

    def __init__(self, rig, name):
        self.name, self.log = name, rig.daemon.folder / f'{name}.log'
        self.machines = machines_of(name)
        self.process = subprocess.Popen(
            ['/usr/bin/python3', RESTLESS, rig.daemon.uri, rig.payload, name, self.log],
            env=rig.daemon.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=rig.clients_said)

    def tell(self, order):
        self.process.stdin.write(f'{order}\n'.encode())
        self.process.stdin.flush()

    def wait(self, line):
        check(select.select([self.process.stdout], [], [], LIMIT_S)[0],
              f'client {self.name} hangs; its last steps: {list(read_steps(self.log))[-2:]}')
        equal(self.process.stdout.readline(), line, f'what client {self.name} says')

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Rig:
    """A daemon, its clients, and what there must be."""

    def __init__(self, args):
        self.payload = args.tree / 'tests/guest/hostile/hostile-payload'
        self.daemon = Daemon(args.tree / 'src/daemon/virtlodged')
        # By this name all of them can be found, also one that nobody reaches.
        self.core_program = self.daemon.folder / 'lodge-core'
        self.core_program.symlink_to(self.daemon.environment['LODGE_CORE'])
        self.daemon.environment['LODGE_CORE'] = str(self.core_program)
        self.clients_said = open(self.daemon.folder / 'clients.log', 'ab')
        self.clients, self.accounts, self.patterns = [], {}, {}
        self.constant = [Machine('constant'), Machine('constant-own')]
        self.descriptors = None

    def __enter__(self):
        self.daemon.start()
        try:
            self.begin()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, *_):
        for client in self.clients:
            client.kill()
        self.clients_said.close()
        for _, pid in self.core_processes():
            os.kill(pid, signal.SIGKILL)
        self.daemon.remove()

    def open(self):
        return libvirt.open(self.daemon.uri)

    def begin(self):
        connection = self.open()
        for machine in self.constant:
            connection.defineXML(machine.xml(self.payload, 0)).create()
        # How definitions read when nothing ever happened to them.
        for machine in self.constant:
            text = connection.lookupByName(machine.name).XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
            self.patterns[machine.own] = text.replace(machine.name, '@name@').replace(
                machine.uuid, '@uuid@').replace('version 0', 'version @version@')
        for number in range(CLIENTS):
            self.clients.append(Client(self, f'c{number}'))
        for machine in [*self.constant, *(m for client in self.clients for m in client.machines)]:
            self.accounts[machine.name] = Account(machine)
        for machine in self.constant:
            self.accounts[machine.name].settle(0, connection.lookupByName(machine.name).ID())
        self.descriptors = descriptors(self)

    # ---- what there is ----

    def core_processes(self):
        """(pool, process id) of all cores of this daemon's."""
        found = []
        for path in pathlib.Path('/proc').glob('[0-9]*/cmdline'):
            try:
                words = path.read_bytes().decode(errors='replace').split('\0')
            except OSError:
                continue
            if words[0] == str(self.core_program):
                found.append((words[words.index('--pool') + 1], int(path.parent.name)))
        return found

    def ask_core(self, pool):
        """(process id, machines) of the one that answers; a question makes it linger anew."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
            peer.settimeout(LIMIT_S)
            try:
                peer.connect(str(self.daemon.folder / f'run/lodge/core-{pool}.sock'))
                peer.send(HELLO)
                answer = peer.recv(4096)
            except (ConnectionError, FileNotFoundError):
                return None, 0
            status = struct.unpack_from('<i', answer, 16)[0] if answer else 0
            check(status == 0, f'core {pool} answers HELLO with status {status}: {answer[24:]}')
            return peer_pid(peer), WELCOME_DOMAINS.unpack_from(answer)[0] if answer else 0

    def connections(self):
        """How many the daemon has with clients."""
        lines = pathlib.Path('/proc/net/unix').read_text(encoding='ascii').splitlines()
        return sum(line.endswith(f' {self.daemon.socket}') and line.split()[5] == '03'
                   for line in lines)

    def expected_xml(self, machine, version):
        return self.patterns[machine.own].replace('@name@', machine.name).replace(
            '@uuid@', machine.uuid).replace('@version@', str(version))


def pool_of(machine):
    return machine.uuid.replace('-', '') if machine.own else 'default'


# ---- what must be ----


def read_version(rig, machine, domain):
    """Of its stored definition, which is whole."""
    if not domain or not domain.isPersistent():
        return None
    text = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    version = re.search(r'<title>version (\d+)</title>', text)
    check(version, f'{machine.name}: no title in its definition: {text}')
    equal(text, rig.expected_xml(machine, version[1]), f'{machine.name}: definition')
    return int(version[1])


def check_machine(rig, account, domain):
    machine = account.machine
    version, number = read_version(rig, machine, domain), None
    check(version in account.versions,
          f'{machine.name}: version {version} is stored, of {account.versions}')
    if domain:
        state, reason = domain.state()
        number = domain.ID() if domain.isActive() else None
        equal(state, libvirt.VIR_DOMAIN_RUNNING if number else libvirt.VIR_DOMAIN_SHUTOFF,
              f'{machine.name}: state, of reason {reason}')
        equal(domain.info()[1], 4096, f'{machine.name}: KiB')
        check(domain.XMLDesc() and domain.UUIDString() == machine.uuid, f'{machine.name}: XML')
        check(version is not None or number, f'{machine.name}: neither stored nor running')
    check(number in account.ids or (number and ANY in account.ids),
          f'{machine.name}: id {number}, of {account.ids}')
    return version, number


def check_folders(rig, found):
    folder = rig.daemon.machines
    stored = {name for name, (version, _) in found.items() if version is not None}
    names = {path.name for path in folder.iterdir()}
    check({f'{name}.xml' for name in stored} <= names, f'{stored} are stored, with files {names}')
    stray = names - {f'{name}{end}' for name in stored for end in ('.xml', '.old')} - {'journal'}
    check(not stray, f'stray files in {folder}: {stray}')
    check(not any((folder / 'journal').read_bytes()), 'the journal still says what is to be done')
    equal({path.name for path in (rig.daemon.folder / 'run/lodge/live').iterdir()},
          {f'{number}.xml' for _, number in found.values() if number}, 'files of what runs')
    equal({path.name for path in rig.daemon.sockets.iterdir()},
          {'virtlodged-sock', 'virtlodged-sock-ro', 'virtlodged.pid'}, 'files of the daemon')


def check_cores(rig):
    """Each core has the machines that are listed, and there is one of each pool."""
    wanted = {'default': 0}
    for account in rig.accounts.values():
        if account.ids != {None}:
            pool = pool_of(account.machine)
            wanted[pool] = wanted.get(pool, 0) + 1

    def problem():
        processes = rig.core_processes()
        asked = {pool: rig.ask_core(pool) for pool in wanted}
        if (found := {pool: count for pool, (_, count) in asked.items()}) != wanted:
            return f'machines in cores: {found}, expected {wanted}'
        serving = sorted((pool, pid) for pool, (pid, _) in asked.items() if pid)
        # Others have no machine any more, and end.
        others = sorted(process for process in processes if process[0] in wanted)
        return f'cores: {others}, of which {serving} serve' if serving != others else None

    settle(problem)


def check_leftovers(rig):
    """A while later, what has ended has left nothing."""
    def problem():
        running = {pool_of(account.machine) for account in rig.accounts.values()
                   if account.ids != {None}}
        # The shared one lingers; when it is killed, the next takes its files over.
        spare = {pool for pool, _ in rig.core_processes()} - running - {'default'}
        files = {path.name for path in (rig.daemon.folder / 'run/lodge').iterdir()} - {'live'}
        stray = files - {f'core-{pool}{end}' for pool in {*running, 'default'}
                         for end in ('.sock', '.lock')}
        return f'cores without machines: {spare}' if spare else \
            f'files of cores that are gone: {stray}' if stray else None

    settle(problem)


def settle(problem):
    """Until there is none."""
    end = time.monotonic() + LIMIT_S / 4
    while found := problem():
        check(time.monotonic() < end, found)
        time.sleep(0.02)


def check_answers(rig, connection):
    """The constant ones hear and speak, whoever was killed."""
    for machine in rig.constant:
        domain = connection.lookupByName(machine.name)
        words = f'<{time.monotonic()}>'.encode()
        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            stream = thread.submit(talk, connection, domain, words)
            try:
                stream.result(LIMIT_S).abort()
            except concurrent.futures.TimeoutError:
                # Ends the wait of the thread.
                rig.daemon.process.kill()
                raise Failed(f'{machine.name} does not answer on its console') from None


def look(rig, connection):
    """{name: (version, id)} of all."""
    listed = {domain.name(): domain for domain in connection.listAllDomains()}
    check(set(listed) <= set(rig.accounts), f'machines nobody made: {set(listed)}')
    found = {name: check_machine(rig, account, listed.get(name))
             for name, account in rig.accounts.items()}
    check_folders(rig, found)
    return found


def audit(rig):
    """Everything is as it must be; what was not certain is from here on."""
    connection, found = rig.open(), {}

    def problem():
        try:
            found.update(look(rig, connection))
        except (Failed, libvirt.libvirtError) as error:
            return str(error)  # a call of one who was killed may still be at work
        return None

    settle(problem)
    for name, (version, number) in found.items():
        rig.accounts[name].settle(version, number)
    check_cores(rig)
    for machine in rig.constant:
        if rig.accounts[machine.name].ids == {None}:
            domain = connection.lookupByName(machine.name)
            domain.create()
            rig.accounts[machine.name].settle(0, domain.ID())
    check_answers(rig, connection)


def refuse(number, function):
    try:
        function()
    except libvirt.libvirtError as error:
        equal(error.get_error_code(), number, f'error “{error}”')
    else:
        raise Failed(f'{function.__name__} of what is gone')


def wipe(rig, leftovers):
    """All can be ended and deleted, once; the names are free again."""
    connection = rig.open()
    domains = [domain for domain in connection.listAllDomains()
               if not domain.name().startswith('constant')]
    for domain in domains:
        persistent = domain.isPersistent()
        if domain.isActive():
            domain.destroy()
            refuse(libvirt.VIR_ERR_OPERATION_INVALID if persistent else libvirt.VIR_ERR_NO_DOMAIN,
                   domain.destroy)
        if persistent:
            domain.undefine()
        refuse(libvirt.VIR_ERR_NO_DOMAIN, domain.undefine)
    for client in rig.clients:
        for machine in client.machines:
            domain = connection.defineXML(machine.xml(rig.payload, 1))
            domain.create()
            domain.destroy()
            domain.undefine()
            rig.accounts[machine.name].settle(None, None)
    audit(rig)
    check_descriptors(rig)
    if leftovers:
        check_leftovers(rig)


def descriptors(rig):
    """Of the daemon, without those of its clients, and of the shared core, which shows root alone."""
    daemon, core = rig.daemon.process.pid, rig.ask_core('default')[0]
    return (len(os.listdir(f'/proc/{daemon}/fd')) - rig.connections(),
            len(os.listdir(f'/proc/{core}/fd')) if os.geteuid() == 0 else None)


def check_descriptors(rig):
    """As many as when nothing had happened yet."""
    try:
        wait_for(lambda: descriptors(rig) == rig.descriptors, 'descriptors', LIMIT_S / 4)
    except Failed:
        held = [os.readlink(path) for path in
                pathlib.Path(f'/proc/{rig.daemon.process.pid}/fd').iterdir()]
        raise Failed(f'descriptors of daemon and core: {descriptors(rig)}, '
                     f'at first {rig.descriptors}; the daemon has {held}') from None


# ---- killing ----


def book(rig, moment, victim, pool):
    """What the clients have written, and who was killed, say what may be true."""
    for client in rig.clients:
        for begin, end in read_steps(client.log):
            rig.accounts[begin['machine']].book(begin, end)
            refused = end and not end['ok'] and not end['lost']
            may_be = victim == 'core' and begin['op'] not in ('define', 'undefine') or \
                victim == 'virtlodged' and begin['op'] == 'talk'
            check(not refused or may_be, f'{begin} was refused: {end}')
        os.truncate(client.log, 0)
    for account in rig.accounts.values():
        if pool == pool_of(account.machine):
            account.lose(moment)


def restart_daemon(rig, chance):
    rig.daemon.process.wait()
    if chance.random() < AGAIN:
        with open(rig.daemon.log, 'ab') as log:
            starting = subprocess.Popen(
                [rig.daemon.program, '--runtime-dir', str(rig.daemon.sockets)],
                env=rig.daemon.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        time.sleep(chance.uniform(0, AGAIN_WITHIN_S))
        starting.kill()
        starting.wait()
    rig.daemon.start()
    rig.open().listAllDomains()


def ids_in(rig, connection, pool):
    """Of what runs on a core."""
    pools = {name: pool_of(account.machine) for name, account in rig.accounts.items()}
    return {domain.ID() for domain in
            connection.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE)
            if pools[domain.name()] == pool}


def kill_daemon(rig, chance):
    rig.daemon.process.kill()
    moment = time.monotonic()
    restart_daemon(rig, chance)
    return moment, None


def kill_core(rig, chance):
    """When the daemon knows that its machines are off."""
    connection = rig.open()
    pool, pid = chance.choice(sorted(rig.core_processes()))
    before = ids_in(rig, connection, pool)
    os.kill(pid, signal.SIGKILL)
    moment = time.monotonic()
    wait_for(lambda: not before & ids_in(rig, connection, pool), 'the end of its machines')
    return moment, pool


def kill_client(rig, chance):
    """When its connection is gone."""
    before, rig.dead = rig.connections(), chance.choice(rig.clients)
    rig.dead.kill()
    moment = time.monotonic()
    wait_for(lambda: rig.connections() < before, 'the end of its connection')
    return moment, None


VICTIMS = {'virtlodged': kill_daemon, 'core': kill_core, 'client': kill_client}


def await_last_step(rig):
    """What a killed client has asked for last is done, though nobody is told; or it never came so far."""
    begin, end = ([(None, None)] + list(read_steps(rig.dead.log)))[-1]
    if not begin or end:
        return
    connection, account = rig.open(), rig.accounts[begin['machine']]

    def is_done():
        domain = {one.UUIDString(): one for one in connection.listAllDomains()}.get(
            account.machine.uuid)
        try:
            return {
                'define': lambda: domain and f'version {begin["version"]}<' in domain.XMLDesc(
                    libvirt.VIR_DOMAIN_XML_INACTIVE),
                'undefine': lambda: not domain or not domain.isPersistent(),
                'destroy': lambda: not domain or not domain.isActive(),
                'start': lambda: domain and domain.isActive(),
                'create': lambda: domain and domain.isActive()}.get(begin['op'], lambda: True)()
        except libvirt.libvirtError:
            return False

    end = time.monotonic() + NEVER_CAME_S
    while not is_done() and time.monotonic() < end:
        time.sleep(0.01)


def run_round(rig, chance, victim, report):
    for client in rig.clients:
        client.tell(f'go {chance.getrandbits(32)}')
    for client in rig.clients:
        client.wait(b'busy\n')
    report['instant_s'] = chance.uniform(0, KILL_WITHIN_S)
    time.sleep(report['instant_s'])
    rig.dead = None
    moment, report['pool'] = VICTIMS[victim](rig, chance)
    took = time.monotonic() - moment
    time.sleep(chance.uniform(0, GO_ON_S))
    alive = [client for client in rig.clients if client is not rig.dead]
    for client in alive:
        client.tell('stop')
    for client in alive:
        client.wait(b'idle\n')
    if rig.dead:
        await_last_step(rig)
    book(rig, moment, victim, report['pool'])
    audit(rig)
    if chance.random() < WIPE:
        wipe(rig, chance.random() < LEFTOVERS)
    if rig.dead:
        rig.clients[rig.clients.index(rig.dead)] = Client(rig, rig.dead.name)
    return took


def run_rounds(args, seed, numbers, took):
    """Rounds of one rig, until they are all done or one has found something."""
    with Rig(args) as rig:
        for number in numbers:
            chance = random.Random(f'{seed}/{number}')
            victim = list(VICTIMS)[number % len(VICTIMS)]
            report = {'seed': seed, 'round': number, 'victim': victim}
            try:
                took[victim].append(run_round(rig, chance, victim, report))
            except Exception as error:
                told = str(error) if isinstance(error, Failed) else traceback.format_exc()
                print(f'control: kill: {json.dumps(report)}: {told}', file=sys.stderr)
                print(f'status of virtlodged: {rig.daemon.process.poll()}; it said:\n'
                      f'{rig.daemon.said()[-2000:]}', file=sys.stderr, flush=True)
                return number
        wipe(rig, True)
    return None


def kill(args):
    seed = args.seed if args.seed is not None else random.SystemRandom().getrandbits(32)
    runs, number, findings = 6 if args.quick else args.runs, 0, 0
    took = {victim: [] for victim in VICTIMS}
    while number < runs:
        found = run_rounds(args, seed, range(number, runs), took)
        findings += found is not None
        number = runs if found is None else found + 1
    yield {'bench': 'control', 'row': 'kill', 'seed': seed, 'runs': runs, 'findings': findings,
           **{f'{victim}_kills': len(times) for victim, times in took.items()},
           **{f'{victim}_recovery_ms': {'min': 1000 * min(times),
                                        'median': 1000 * statistics.median(times),
                                        'p99': 1000 * p99(times), 'max': 1000 * max(times)}
              for victim, times in took.items() if times}}
    if findings:
        sys.exit(1)

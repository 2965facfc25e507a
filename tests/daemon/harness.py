# SPDX-License-Identifier: GPL-3.0-or-later
"""A virtlodged of one's own, on private folders, and TAP for the cases that use it."""
import contextlib
import os
import pathlib
import pty
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback

LIMIT_S = 240


class Failed(Exception):
    """What a case found wrong."""


def check(condition, what):
    if not condition:
        raise Failed(what)


def equal(got, wanted, what):
    check(got == wanted, f'{what}: {got!r}, expected {wanted!r}')


def wait_for(condition, what, limit_s=LIMIT_S):
    """Until it is true; the limit only ends what hangs."""
    end = time.monotonic() + limit_s
    while not condition():
        check(time.monotonic() < end, f'{what}: not within {limit_s} s')
        time.sleep(0.01)


def peer_pid(connected):
    """The process that listens at the other end."""
    return struct.unpack('3i', connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, line, environment):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                os.execvpe(line[0], line, environment)
            finally:
                os._exit(127)
        self.seen = b''

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.fd)
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    def type(self, keys):
        os.write(self.fd, keys)

    def has(self, wanted):
        """Whether it has said that, without waiting for it long."""
        while select.select([self.fd], [], [], 0.1)[0]:
            self.seen += os.read(self.fd, 65536)
        return wanted in self.seen

    def read_until(self, wanted):
        """Everything up to and with @wanted, which is then forgotten."""
        while wanted not in self.seen:
            check(select.select([self.fd], [], [], LIMIT_S)[0],
                  f'no {wanted!r}, only {self.seen[-500:]!r}')
            try:
                got = os.read(self.fd, 65536)
            except OSError:
                got = b''
            check(got, f'end of output before {wanted!r}: {self.seen[-500:]!r}')
            self.seen += got
        end = self.seen.index(wanted) + len(wanted)
        text, self.seen = self.seen[:end], self.seen[end:]
        return text

    def wait(self):
        """Its exit status."""
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            if select.select([self.fd], [], [], 0.01)[0]:
                try:
                    self.seen += os.read(self.fd, 65536)
                except OSError:
                    pass
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = 0
                return os.waitstatus_to_exitcode(status)
        raise Failed(f'still there; it said {self.seen[-500:]!r}')


def cores_of(runtime):
    """Process ids of the cores that serve in a runtime folder."""
    found = []
    for path in (runtime / 'lodge').glob('core-*.sock'):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
            try:
                peer.connect(str(path))
            except ConnectionRefusedError:
                continue
            found.append(peer_pid(peer))
    return found


class Daemon:
    """virtlodged with folders of its own. What it says is kept, and shown when a case fails."""

    def __init__(self, program, options=()):
        self.program, self.options = program, list(options)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='lodge-'))
        (self.folder / 'run').mkdir(mode=0o700)
        self.sockets = self.folder / 'run/libvirt'
        self.socket = self.sockets / 'virtlodged-sock'
        self.machines = self.folder / 'config/lodge/machines'
        self.environment = {
            'PATH': os.environ['PATH'], 'LC_ALL': 'C.UTF-8', 'HOME': str(self.folder),
            'XDG_RUNTIME_DIR': str(self.folder / 'run'),
            'XDG_CONFIG_HOME': str(self.folder / 'config'),
            'XDG_CACHE_HOME': str(self.folder / 'cache'), 'LIBVIRT_AUTOSTART': '0',
            'LODGE_CORE': str(pathlib.Path(program).parent.parent.parent /
                              'hv-core/main/lodge-core'),
            **{name: value for name, value in os.environ.items() if name.endswith('SAN_OPTIONS')}}
        self.uri = f'lodge:///session?socket={self.socket}'
        self.log = self.folder / 'log'
        self.process = None

    def start(self):
        with open(self.log, 'ab') as log:
            self.process = subprocess.Popen(
                [self.program, '--runtime-dir', str(self.sockets), *self.options],
                env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_for(lambda: self.serves() or self.process.poll() is not None, 'its socket')
        check(self.process.poll() is None, f'virtlodged ended: {self.said()}')
        return self

    def serves(self):
        """Whether it listens: a killed daemon's socket is still there, and while that is about to start a
        core, so is who listens, in the child."""
        with socket.socket(socket.AF_UNIX) as peer:
            return peer.connect_ex(str(self.socket)) == 0 and peer_pid(peer) == self.process.pid

    def stop(self, number=signal.SIGTERM, status=0):
        self.process.send_signal(number)
        try:
            ended = self.process.wait(LIMIT_S)
            check(ended == status,
                  f'exit status {ended}, expected {status}; it said: {self.said()[-8000:]}')
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Failed('virtlodged did not end') from None

    def said(self):
        return self.log.read_text(errors='replace') if self.log.exists() else ''

    def cores(self):
        """Process ids of the cores that serve in this folder."""
        return cores_of(self.folder / 'run')

    def processes(self):
        """All that have this folder's environment, whoever has started them; cores show theirs to root."""
        own, found = f'XDG_RUNTIME_DIR={self.folder}/run\0'.encode(), []
        for path in pathlib.Path('/proc').glob('[0-9]*/environ'):
            with contextlib.suppress(OSError):
                if own in path.read_bytes():
                    found.append(int(path.parent.name))
        return found

    def remove(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        # Machines, and cores with them, outlive the daemon: those too that it was just starting.
        for process in {*self.cores(), *self.processes()}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        shutil.rmtree(self.folder)

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, *_):
        try:
            if kind is None and self.process.poll() is None:
                self.stop()
        finally:
            self.remove()

    def terminal(self, *arguments):
        """virsh on a terminal."""
        return Terminal(['virsh', '-c', self.uri, *arguments], {**self.environment, 'TERM': 'dumb'})

    def virsh(self, *arguments, status=0, read_only=False):
        """What it says, on success or on failure, as `status` expects."""
        line = ['virsh', *(['-r'] if read_only else []), '-c', self.uri, *arguments]
        done = subprocess.run(line, env=self.environment, cwd=self.folder, check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=LIMIT_S)
        out, err = done.stdout.decode(), done.stderr.decode()
        check(done.returncode == status,
              f'virsh {" ".join(arguments)}: status {done.returncode}, said {out}{err}')
        check(self.process.poll() is None, f'virtlodged ended: {self.said()}')
        return out if status == 0 else err

    def give(self, verb, xml, status=0):
        """A definition to virsh's define or create."""
        path = self.folder / 'given.xml'
        path.write_text(xml, encoding='utf-8')
        return self.virsh(verb, str(path), status=status)


def machine_xml(name, kernel, command_line='payload=echo', memory_mib=16, more='', devices='',
                vcpus=1):
    return f"""<domain type='lodge' xmlns:lodge='urn:lodge:domain:1'>
  <name>{name}</name>
  <memory unit='MiB'>{memory_mib}</memory>
  <vcpu>{vcpus}</vcpu>
  <os><type arch='x86_64'>hvm</type><kernel>{kernel}</kernel>
    <cmdline>{command_line}</cmdline></os>
  {more}
  <devices><serial type='pty'><target port='0'/></serial><console type='pty'/>{devices}</devices>
</domain>"""


LOOPS = []


def run_event_loop():
    """libvirt's own, on a thread, from now on: before the first connection that hears events."""
    import libvirt

    def turn():
        while True:
            libvirt.virEventRunDefaultImpl()

    if not LOOPS:
        libvirt.virEventRegisterDefaultImpl()
        LOOPS.append(threading.Thread(target=turn, daemon=True))
        LOOPS[0].start()


def have(program):
    return shutil.which(program) is not None


def run(cases, make, only=None):
    """Run functions, each with what `make` gives; print TAP. One that returns a text is skipped."""
    chosen = [case for case in cases if not only or case.__name__.replace('_', '-') == only]
    if not chosen:
        sys.exit(f'no case is named {only}')
    prefix = pathlib.Path(sys.argv[0]).name
    print(f'1..{len(chosen)}', flush=True)
    failed = 0
    for number, case in enumerate(chosen, 1):
        problem, skipped = None, None
        try:
            with make() as daemon:
                try:
                    skipped = case(daemon)
                except Exception:
                    print(daemon.said(), file=sys.stderr)
                    raise
        except (Failed, subprocess.TimeoutExpired) as error:
            problem = str(error)
        except Exception:  # a case's own mistake is a failure with its place
            problem = traceback.format_exc()
        failed += problem is not None
        name = f'daemon.{prefix}.{case.__name__.replace("_", "-")}'
        note = f' # SKIP {skipped}' if skipped else ''
        print(f'{"not ok" if problem else "ok"} {number} - {name}{note}', flush=True)
        for line in (problem or '').splitlines():
            print(f'# {line}', flush=True)
    return 1 if failed else 0

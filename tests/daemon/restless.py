#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""A client that makes, starts, ends and forgets machines of its own without rest, and writes down what
it is about to do and what came of it, so that somebody can say what must be there after it, the daemon
or a core was killed.

  tests/daemon/restless.py URI PAYLOAD NAME LOG

On stdin: "go SEED" begins, when it says "busy"; "stop" ends, when it says "idle". A daemon that is gone
ends it too.
"""
import json
import os
import pathlib
import random
import select
import sys
import time
import uuid

import libvirt

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness import Failed, check, machine_xml  # noqa: E402

MACHINES = 3
TALK_BYTES_MAX = 65536


class Machine:
    """One of a name, with the UUID and the pool that go with it."""

    def __init__(self, name):
        self.name = name
        self.uuid = str(uuid.uuid5(uuid.NAMESPACE_URL, f'urn:lodge:test:{name}'))
        self.own = name.endswith('own')

    def xml(self, payload, version):
        pool = 'own' if self.own else 'shared'
        return machine_xml(self.name, payload, memory_mib=4,
                           more=f"<uuid>{self.uuid}</uuid><title>version {version}</title>"
                                f"<lodge:pool mode='{pool}'/>")


def machines_of(client):
    """One of them has a core of its own."""
    return [Machine(f'{client}-{number}{"own" if number == MACHINES - 1 else ""}')
            for number in range(MACHINES)]


def talk(connection, domain, words):
    """Say something to a guest that says what it hears, until it does."""
    stream = connection.newStream()
    domain.openConsole(None, stream, libvirt.VIR_DOMAIN_CONSOLE_FORCE)
    stream.send(words)
    seen = b''
    while words not in seen:
        got = stream.recv(4096)
        check(got, f'{domain.name()}: end of its console after {seen[-200:]!r}')
        seen = (seen + got)[-TALK_BYTES_MAX:]
    return stream


class Restless:
    def __init__(self, uri, payload, name, log):
        self.uri, self.payload, self.name = uri, payload, name
        self.machines = machines_of(name)
        self.log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.connection, self.streams, self.version = None, [], 0

    def write(self, **what):
        """One system call: whoever kills us finds whole lines."""
        os.write(self.log, (json.dumps({'at': time.monotonic(), **what}) + '\n').encode())

    def find(self, machine):
        try:
            return self.connection.lookupByUUIDString(machine.uuid)
        except libvirt.libvirtError as error:
            if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                return None
            raise

    def define(self, machine, _):
        self.connection.defineXML(machine.xml(self.payload, self.version))

    def create(self, machine, _):
        return self.connection.createXML(machine.xml(self.payload, self.version)).ID()

    def start(self, _, domain):
        domain.createWithFlags()
        return domain.ID()

    def destroy(self, _, domain):
        domain.destroy()

    def undefine(self, _, domain):
        domain.undefine()

    def look(self, _, domain):
        self.connection.listAllDomains()
        self.connection.getAllDomainStats()
        domain.XMLDesc()

    def talk(self, _, domain):
        """Its console stays ours now and then, until we go."""
        stream = talk(self.connection, domain, f'<{self.version}>'.encode())
        if len(self.streams) < 2:
            self.streams.append(stream)
        else:
            stream.abort()

    def choose(self, chance, machine):
        """What there is to do with it, as it is now."""
        domain = self.find(machine)
        if not domain:
            return domain, chance.choice(['define', 'define', 'create'])
        choices = ['look', 'define']
        choices += ['destroy', 'destroy', 'talk'] if domain.isActive() else ['start', 'start']
        choices += ['undefine'] if domain.isPersistent() else []
        return domain, chance.choice(choices)

    def step(self, chance):
        machine = chance.choice(self.machines)
        domain, what = self.choose(chance, machine)
        self.version += 1
        self.write(op=what, machine=machine.name, version=self.version)
        try:
            self.write(ok=True, id=getattr(self, what)(machine, domain))
        except (Failed, libvirt.libvirtError) as error:
            # Else the daemon has said no; so nobody knows what became of it.
            lost = not self.connection.isAlive()
            self.write(ok=False, lost=lost, said=str(error))
            if lost:
                raise

    def run(self, seed):
        chance = random.Random(seed)
        self.version = chance.randrange(1000) * 1000
        try:
            if not self.connection:
                self.connection = libvirt.open(self.uri)
            print('busy', flush=True)
            while not select.select([sys.stdin], [], [], 0)[0]:
                self.step(chance)
        except (Failed, libvirt.libvirtError):
            # Each of its objects holds it: all have to go.
            self.streams, self.connection = [], None


def main():
    client = Restless(*sys.argv[1:5])
    libvirt.registerErrorHandler(lambda *_: None, None)
    # Unbuffered: what select() sees is what readline() gets.
    with os.fdopen(os.dup(0), 'rb', buffering=0) as orders:
        sys.stdin = orders
        while line := orders.readline():
            if line.startswith(b'go '):
                client.run(line.split()[1].decode())
            else:
                print('idle', flush=True)


if __name__ == '__main__':
    main()

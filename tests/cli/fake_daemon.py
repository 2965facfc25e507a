# SPDX-License-Identifier: GPL-3.0-or-later
"""A daemon that stock libvirt clients talk to, with machines that are only data.

    with FakeDaemon(folder / 'socket', {'web': 'running'}) as daemon: … daemon.uri …

Speaks what lodgectl's verbs need of libvirt's remote protocol, each call on a thread of its own:

    u32 length, itself included; program, version, procedure, type, serial, status; then XDR.
"""
import socket
import struct
import threading
import uuid

from cases import LIMIT_S

REMOTE, KEEPALIVE = 0x20008086, 0x6b656570
CALL, REPLY, MESSAGE, STREAM = range(4)
OK, ERROR, CONTINUE = range(3)
RUNNING, PAUSED, OFF = 1, 3, 5
STATES = {'running': RUNNING, 'paused': PAUSED, 'shut off': OFF}
STARTED, STOPPED, DEFINED, UNDEFINED = 2, 5, 0, 1
NO_SUPPORT, OPERATION_FAILED, EXISTS, XML, NO_DOMAIN, INVALID = 3, 9, 9, 27, 42, 55


class Refused(Exception):
    """An error of libvirt's numbers, for the client."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def pack_text(text):
    data = text.encode()
    return struct.pack('>I', len(data)) + data + bytes(-len(data) % 4)


class Unpacker:
    """XDR, taken from the front."""

    def __init__(self, data):
        self.data = data

    def take(self, count):
        taken, self.data = self.data[:count], self.data[count:]
        return taken

    def u32(self):
        return struct.unpack('>I', self.take(4))[0]

    def text(self):
        count = self.u32()
        data = self.take(count)
        self.take(-count % 4)
        return data.decode()

    def optional_text(self):
        return self.text() if self.u32() else None

    def domain(self):
        name, number = self.text(), self.take(16)
        self.u32()
        return name, number


def pack_parameters(values):
    """Typed parameters: texts are strings, numbers unsigned and of 64 bits."""
    out = struct.pack('>I', len(values))
    for name, value in values.items():
        out += pack_text(name)
        out += (struct.pack('>I', 7) + pack_text(value)) if isinstance(value, str) else \
            struct.pack('>IQ', 4, value)
    return out


class Machine:
    """One, with its statistics beside it."""

    def __init__(self, name, state, xml=None):
        self.name, self.state, self.uuid = name, STATES[state], uuid.uuid4().bytes
        self.id = 0
        self.xml = xml or f"<domain type='lodge'><name>{name}</name></domain>"
        self.transient = False
        self.stats = {}
        self.heard = b''  # at its console

    def pack(self):
        number = self.id if self.state != OFF else 0xffffffff
        return pack_text(self.name) + self.uuid + struct.pack('>I', number)


class Client(threading.Thread):
    """One connection."""

    def __init__(self, daemon, link):
        super().__init__(daemon=True)
        self.server, self.link = daemon, link
        self.sending = threading.Lock()
        self.events = set()
        self.consoles = {}  # by serial
        self.greeted = {}  # the same: Event

    def send(self, procedure, kind, serial, status, payload=b'', program=REMOTE):
        data = struct.pack('>7I', 28 + len(payload), program, 1, procedure, kind, serial,
                           status) + payload
        try:
            with self.sending:
                self.link.sendall(data)
        except OSError:
            pass  # it has gone

    def read(self, count):
        data = b''
        while len(data) < count:
            got = self.link.recv(count - len(data))
            if not got:
                raise EOFError
            data += got
        return data

    def run(self):
        try:
            while True:
                length, = struct.unpack('>I', self.read(4))
                program, _, procedure, kind, serial, status = struct.unpack('>6I', self.read(24))
                payload = self.read(length - 28)
                if program == KEEPALIVE:
                    self.send(2, MESSAGE, 0, OK, program=KEEPALIVE)
                elif kind == STREAM:
                    self.hear(procedure, serial, status, payload)
                else:
                    threading.Thread(target=self.answer, args=(procedure, serial, payload),
                                     daemon=True).start()
        except (EOFError, OSError):
            self.server.clients.discard(self)

    def answer(self, procedure, serial, payload):
        name, call = self.server.calls.get(procedure, ('?', None))
        try:
            if not call:
                raise Refused(NO_SUPPORT, f'this function is not supported: {procedure}')
            self.send(procedure, REPLY, serial, OK, call(self, Unpacker(payload), serial) or b'')
        except Refused as error:
            self.send(procedure, REPLY, serial, ERROR, pack_error(error))
        self.server.served(name)

    def hear(self, procedure, serial, status, payload):
        machine = self.consoles.get(serial)
        if status == CONTINUE and machine and payload:
            self.greeted[serial].wait(LIMIT_S)
            machine.heard += payload
            self.send(procedure, STREAM, serial, CONTINUE, self.server.echo(machine, payload))
        elif status != CONTINUE:
            self.consoles.pop(serial, None)
            self.send(procedure, STREAM, serial, OK)


def pack_error(error):
    return struct.pack('>iiI', error.code, 62, 1) + pack_text(str(error)) + \
        struct.pack('>iIIIIiiI', 2, 0, 0, 0, 0, 0, 0, 0)


class FakeDaemon:
    """Listens while the block lasts. Cases change its fields to have things go wrong."""

    def __init__(self, path, machines):
        self.path = str(path)
        self.machines = {name: Machine(name, state) for name, state in machines.items()}
        self.next_id = 0
        self.lock = threading.RLock()
        self.clients = set()
        self.refuse = {}  # {(call, machine): message}
        self.gates = {}   # {(call, machine): Event to wait for}
        self.deaf = set()  # machines whose guests do not hear a shutdown
        self.log = []  # (call, machine)
        self.echo = lambda machine, data: data
        self.greeting = b''
        self.changed = threading.Condition()
        self.done = []
        self.calls = self.table()
        for machine in self.machines.values():
            if machine.state != OFF:
                self.enter(machine, machine.state)

    uri = property(lambda self: f'lodge:///session?socket={self.path}')

    def __enter__(self):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(16)
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        for gate in self.gates.values():
            gate.set()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.hang_up()

    def accept(self):
        try:
            while True:
                client = Client(self, self.listener.accept()[0])
                self.clients.add(client)
                client.start()
        except OSError:
            pass

    def hang_up(self):
        for client in list(self.clients):
            client.link.shutdown(socket.SHUT_RDWR)

    def served(self, name):
        with self.changed:
            self.done.append(name)
            self.changed.notify_all()

    def wait_for(self, call, count=1):
        """Until so many calls of a name have come in."""
        with self.changed:
            return self.changed.wait_for(
                lambda: [name for name, _ in self.log].count(call) >= count, LIMIT_S)

    def enter(self, machine, state):
        machine.state = state
        if state != OFF and machine.id == 0:
            self.next_id += 1
            machine.id = self.next_id
        if state == OFF:
            machine.id = 0

    def tell(self, machine, event):
        for client in list(self.clients):
            for callback in list(client.events):
                client.send(318, MESSAGE, 0, OK, struct.pack('>I', callback) + machine.pack() +
                            struct.pack('>II', event, 0))

    def find(self, name):
        with self.lock:
            if name not in self.machines:
                raise Refused(NO_DOMAIN, f"Domain not found: no domain with matching name '{name}'")
            return self.machines[name]

    def of_machine(self, name, act):
        """A call on a machine: recorded, refused or held as the case wants it."""
        def call(client, data, serial):
            machine = self.find(data.domain()[0])
            with self.changed:
                self.log.append((name, machine.name))
                self.changed.notify_all()
            gate = self.gates.get((name, machine.name))
            if gate:
                gate.wait(LIMIT_S)
            why = self.refuse.get((name, machine.name))
            if why:
                raise Refused(OPERATION_FAILED, why)
            return act(client, machine, data, serial)
        return name, call

    def change(self, wanted, state, event):
        def act(_client, machine, _data, _serial):
            with self.lock:
                if machine.state not in wanted:
                    raise Refused(INVALID, 'Requested operation is not valid: domain is '
                                  f'{"not running" if machine.state == OFF else "running"}')
                self.enter(machine, state)
                if state == OFF and machine.transient:
                    del self.machines[machine.name]
            self.tell(machine, event)
        return act

    def shut_down(self, client, machine, data, serial):
        if machine.state == OFF:
            raise Refused(INVALID, 'Requested operation is not valid: domain is not running')
        if machine.name not in self.deaf:
            self.change((RUNNING,), OFF, STOPPED)(client, machine, data, serial)

    def undefine(self, _client, machine, _data, _serial):
        with self.lock:
            if machine.state == OFF:
                self.machines.pop(machine.name, None)
            machine.transient = True
        self.tell(machine, UNDEFINED)

    def define(self, _client, data, _serial):
        xml = data.text()
        name = xml.split('<name>')[1].split('</name>')[0] if '<name>' in xml else ''
        with self.changed:
            self.log.append(('define', name))
            self.changed.notify_all()
        gate = self.gates.get(('define', name))
        if gate:
            gate.wait(LIMIT_S)
        if self.refuse.get(('define', name)):
            raise Refused(OPERATION_FAILED, self.refuse['define', name])
        with self.lock:
            if name in self.machines:
                raise Refused(EXISTS, f"operation failed: domain '{name}' already exists")
            machine = self.machines[name] = Machine(name, 'shut off', xml)
        self.tell(machine, DEFINED)
        return machine.pack()

    def list_all(self, _client, _data, _serial):
        with self.lock:
            machines = [machine.pack() for machine in self.machines.values()]
        return struct.pack('>I', len(machines)) + b''.join(machines) + \
            struct.pack('>I', len(machines))

    def stats(self, _client, _data, _serial):
        with self.lock:
            machines = list(self.machines.values())
        return struct.pack('>I', len(machines)) + b''.join(
            machine.pack() + pack_parameters({'state.state': machine.state, **machine.stats})
            for machine in machines)

    def register(self, client, data, _serial):
        client.events.add(7)
        return struct.pack('>I', 7)

    def open_console(self, client, machine, _data, serial):
        if machine.state == OFF:
            raise Refused(INVALID, 'Requested operation is not valid: domain is not running')
        client.greeted[serial] = threading.Event()
        client.consoles[serial] = machine
        threading.Thread(target=self.greet, args=(client, serial), daemon=True).start()

    def greet(self, client, serial):
        """First the answer, then the greeting, then echoes of what the machine hears."""
        with self.changed:
            self.changed.wait_for(lambda: 'console' in self.done, LIMIT_S)
        if self.greeting:
            client.send(201, STREAM, serial, CONTINUE, self.greeting)
        client.greeted[serial].set()

    def end_consoles(self):
        """The machines have gone: their consoles end."""
        for client in list(self.clients):
            for serial in list(client.consoles):
                client.send(201, STREAM, serial, CONTINUE)

    def table(self):
        def word(*numbers):
            return lambda *_: struct.pack('>I', len(numbers)) + struct.pack(
                f'>{len(numbers)}I', *numbers)

        def value(form, *values):
            return lambda *_: struct.pack(form, *values)

        of = self.of_machine
        return {
            66: ('auth', word(0)), 60: ('feature', value('>I', 1)), 1: ('open', value('')),
            2: ('close', value('')), 360: ('close-callback', value('')),
            361: ('no-close-callback', value('')),
            3: ('type', lambda *_: pack_text('Lodge')), 4: ('version', value('>Q', 1000)),
            157: ('library', value('>Q', 9000000)), 59: ('host', lambda *_: pack_text('fake')),
            110: ('uri', lambda *_: pack_text('lodge:///session')),
            102: ('free', value('>Q', 3 << 30)),
            6: ('node', value('>32IQ6I', *[ord(letter) for letter in 'x86_64'.ljust(32, '\0')],
                              4 << 20, 2, 2100, 1, 1, 2, 1)),
            273: ('list', self.list_all), 344: ('stats', self.stats),
            316: ('register', self.register), 317: ('deregister', value('')),
            11: ('define', self.define), 350: ('define', self.define),
            16: of('info', lambda _c, machine, _d, _s: struct.pack(
                '>IQQIQ', machine.state, 65536, 65536, 1, 0)),
            212: of('state', lambda _c, machine, _d, _s: struct.pack('>II', machine.state, 0)),
            150: of('active', lambda _c, machine, _d, _s: struct.pack('>I', machine.state != OFF)),
            151: of('persistent', lambda _c, machine, _d, _s: struct.pack(
                '>I', not machine.transient)),
            183: of('saved', value('>I', 0)),
            23: ('lookup', lambda _c, data, _s: self.find(data.text()).pack()),
            24: ('lookup', self.look_up),
            14: of('xml', lambda _c, machine, _d, _s: pack_text(machine.xml)),
            9: of('create', self.change((OFF,), RUNNING, STARTED)),
            12: of('destroy', self.change((RUNNING, PAUSED), OFF, STOPPED)),
            33: of('shutdown', self.shut_down),
            34: of('suspend', self.change((RUNNING,), PAUSED, 3)),
            28: of('resume', self.change((PAUSED,), RUNNING, 4)),
            231: of('undefine', self.undefine),
            201: of('console', self.open_console),
        }

    def look_up(self, _client, data, _serial):
        number = data.take(16)
        for machine in list(self.machines.values()):
            if machine.uuid == number:
                return machine.pack()
        raise Refused(NO_DOMAIN, 'Domain not found: no domain with matching uuid')

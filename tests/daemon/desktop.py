# SPDX-License-Identifier: GPL-3.0-or-later
"""A desktop of one's own, with a display, a session bus and no window manager, and programs on it as
assistive technology sees them (AT-SPI)."""
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import warnings

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness import LIMIT_S, Failed, check, wait_for  # noqa: E402

INSIDE = 'LODGE_TEST_DESKTOP'
# What programs of the desktop need of it, beside their own folders.
SHARED = ('DISPLAY', 'DBUS_SESSION_BUS_ADDRESS', 'GSETTINGS_BACKEND', 'GDK_BACKEND', 'GTK_MODULES',
          'LIBGL_ALWAYS_SOFTWARE')
SCREEN = '1280x1024x24'


def lacks():
    """What is not installed of it, in words; None: nothing."""
    for program, package in (('Xvfb', 'xvfb'), ('dbus-run-session', 'dbus-daemon')):
        if not shutil.which(program):
            return f'no {program}: package {package}'
    if not pathlib.Path('/usr/share/dbus-1/services/org.a11y.Bus.service').exists():
        return 'no accessibility bus: package at-spi2-core'
    try:
        import gi
        gi.require_version('Atspi', '2.0')
    except (ImportError, ValueError):
        return 'no AT-SPI: packages python3-gi and gir1.2-atspi-2.0'
    return None


@contextlib.contextmanager
def display():
    """The number of a new one."""
    receive, send = os.pipe()
    with subprocess.Popen(['Xvfb', '-displayfd', str(send), '-screen', '0', SCREEN, '-nolisten',
                           'tcp', '-noreset'], pass_fds=[send], stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        os.close(send)
        try:
            with os.fdopen(receive, encoding='ascii') as said:
                number = said.readline().strip()
            check(number, 'Xvfb did not start')
            yield number
        finally:
            server.terminate()


def enter():
    """Be inside one: in a program that is not, this one is run again there. Its exit status, or None
    when it is."""
    if INSIDE in os.environ:
        # What this program says is not mixed with what the desktop's services do.
        for own, number in enumerate(map(int, os.environ[INSIDE].split()), 1):
            os.dup2(number, own)
        return None
    with display() as number, tempfile.TemporaryDirectory(prefix='lodge-desktop-') as folder:
        outputs = [os.dup(1), os.dup(2)]
        environment = {**os.environ, INSIDE: ' '.join(map(str, outputs)),
                       'DISPLAY': f':{number}', 'XDG_RUNTIME_DIR': folder,
                       'GSETTINGS_BACKEND': 'memory', 'GDK_BACKEND': 'x11',
                       'GTK_MODULES': 'gail:atk-bridge', 'LIBGL_ALWAYS_SOFTWARE': '1'}
        return subprocess.call(['dbus-run-session', '--', sys.executable, *sys.argv],
                               env=environment, pass_fds=outputs, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)


def children(node):
    found = (node.get_child_at_index(i) for i in range(node.get_child_count()))
    return [child for child in found if child]


def walk(node):
    yield node
    for child in children(node):
        yield from walk(child)


class Application:
    """A program on the desktop."""

    def __init__(self, line, environment, log):
        import gi
        gi.require_version('Atspi', '2.0')
        from gi.repository import Atspi, GLib
        warnings.simplefilter('ignore', DeprecationWarning)
        self.atspi, self.error, self.log, self.root = Atspi, GLib.Error, log, None
        with open(log, 'wb') as out:
            self.process = subprocess.Popen(  # ended by __exit__
                line, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                env={**environment, **{name: os.environ[name] for name in SHARED}})
        wait_for(self.appears, f'{line[0]} on the desktop')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def appears(self):
        if self.process.poll() is not None:
            raise Failed(f'it ended: {pathlib.Path(self.log).read_text(errors="replace")[-2000:]}')
        for node in children(self.atspi.get_desktop(0)):
            if node.get_process_id() == self.process.pid and node.get_child_count() > 0:
                self.root = node
        return self.root is not None

    def look(self, role, matches):
        """The first that is shown, has that role, and whose name matches; None."""
        try:
            for node in walk(self.root):
                if node.get_role_name() == role and matches(node.get_name()) and \
                        node.get_state_set().contains(self.atspi.StateType.SHOWING):
                    return node
        except self.error:  # it went while we looked
            pass
        return None

    def find(self, role, name):
        """The same, awaited; of that name."""
        found = []

        def there():
            node = self.look(role, lambda said: said == name)
            if node:
                found.append(node)
            return bool(found)
        wait_for(there, f'{role} “{name}”')
        return found[0]

    def act(self, node, action):
        names = [self.atspi.Action.get_action_name(node, i) for i in range(node.get_n_actions())]
        check(action in names, f'{node.get_name()} has {names}')
        check(node.do_action(names.index(action)), f'{action} of {node.get_name()}')

    def focus(self, node):
        check(node.get_component_iface().grab_focus(), f'focus to {node.get_name()}')

    def text(self, role):
        """What the first of that role shows."""
        node = self.look(role, lambda _: True)
        return self.atspi.Text.get_text(
            node, 0, self.atspi.Text.get_character_count(node)) if node else ''

# SPDX-License-Identifier: GPL-3.0-or-later
"""The application as a screen reader sees it, driven by its accessible actions, the pointer and keys.

Needs a display without a window manager and a session bus: tests/app/on-display.
"""
import os
import pathlib
import subprocess
import sys
import time
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'daemon'))
from harness import Failed, check, wait_for  # noqa: E402

import gi  # noqa: E402
gi.require_version('Atspi', '2.0')
from gi.repository import Atspi, GLib  # noqa: E402

warnings.simplefilter('ignore', DeprecationWarning)
PACE_S = 0.3
VISIBLE, SENSITIVE = Atspi.StateType.VISIBLE, Atspi.StateType.SENSITIVE


def children(node):
    for index in range(node.get_child_count()):
        child = node.get_child_at_index(index)
        if child:
            yield child


def walk(node):
    yield node
    for child in children(node):
        yield from walk(child)


def is_shown(node):
    """GTK 4.8 does not tell SHOWING: what was never shown has no size."""
    return node.get_state_set().contains(VISIBLE) and \
        Atspi.Component.get_extents(node, Atspi.CoordType.WINDOW).height > 0


def text_of(node):
    return Atspi.Text.get_text(node, 0, Atspi.Text.get_character_count(node))


class Screen:
    """A running application."""

    def __init__(self, line, environment, log):
        self.log, self.root = log, None
        with open(log, 'ab') as out:
            self.process = subprocess.Popen(line, env=environment, stdin=subprocess.DEVNULL,
                                            stdout=out, stderr=out)
        self.root = self.until(self._application, 'the application on the accessibility bus')
        # What the library has kept changes only by events, which nobody here waits for. Roles stay.
        self.root.set_cache_mask(Atspi.Cache.ROLE)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if kind is None:
            check(not self.complaints(), f'it complained: {self.complaints()}')

    def complaints(self):
        """Its warnings, but for GTK 4.8's own about widgets that the bus is told of as they go, and
        for a desktop that is not there to show notifications."""
        known = ('g_variant_is_object_path', 'unable to send notifications')
        said = pathlib.Path(self.log).read_text(errors='replace').splitlines()
        return [line for line in said
                if ('CRITICAL' in line or 'WARNING' in line) and
                not any(words in line for words in known)]

    def _application(self):
        self.check_alive()
        for node in children(Atspi.get_desktop(0)):
            if node.get_process_id() == self.process.pid:
                return node
        return None

    def check_alive(self):
        status = self.process.poll()
        check(status is None, f'the application ended with {status}; it said: {self.said()}')

    def said(self):
        return pathlib.Path(self.log).read_text(errors='replace')[-4000:]

    def until(self, look, what):
        """What `look` returns once it is true. Nodes may go while they are looked at."""
        found = []

        def once():
            # Asked without a pause while widgets come and go, GTK 4.8 was seen to end with SIGSEGV
            # as it answered the bus with an object path of NULL. Perhaps new widgets are asked for
            # before it has registered them; that is not proven. At this pace it was not seen again.
            time.sleep(PACE_S)
            self.check_alive()
            try:
                got = look()
            except GLib.Error:
                return False
            if got:
                found.append(got)
            return bool(got)
        try:
            wait_for(once, what, 30)
        except Failed as error:
            raise Failed(f'{error}; wanted: {what}; shown: {self.words()}') from None
        return found[0]

    def nodes(self, role, name=None):
        """Those that are shown, of that role and, if given, name (or a test of it)."""
        # GTK 4.8 says some buttons' words twice, and the key's underscore with them.
        meant = name if callable(name) else lambda got: name is None or got in (
            name, f'{name} {name}', f'_{name} {name}')
        return [node for node in (walk(self.root) if self.root else ())
                if node.get_role_name() == role and meant(node.get_name()) and is_shown(node)]

    def lists(self, name):
        """Is it a row of the list at the left?"""
        return any(node.get_name() == name for top in self.nodes('list', 'Machines')
                   for node in walk(top) if node.get_role_name() == 'label')

    def find(self, role, name=None):
        return self.until(lambda: next(iter(self.nodes(role, name)), None), f'a {role} {name!r}')

    def words(self):
        """All labels that are shown, for a message."""
        try:
            return [node.get_name() for node in self.nodes('label')][:60]
        except GLib.Error:
            return '(nothing can be read)'

    def sees(self, text):
        self.until(lambda: self.nodes('label', lambda got: text in got), f'the words {text!r}')

    def press(self, name, role='push button'):
        """A button that can be pressed."""
        def ready():
            return next((node for node in self.nodes(role, name)
                         if node.get_state_set().contains(SENSITIVE)), None)
        node = self.until(ready, f'a {role} {name!r} that can be pressed')
        names = [Atspi.Action.get_action_name(node, i) for i in range(node.get_n_actions())]
        wanted = 'click' if 'click' in names else 'toggle'
        check(wanted in names, f'{name!r} has no action to press it, only {names}')
        check(node.do_action(names.index(wanted)), f'{name!r} was not pressed')

    def fill(self, name, text):
        node = self.find('text', name)
        check(Atspi.EditableText.set_text_contents(node, text), f'{name!r} takes no text')
        wait_for(lambda: text_of(node) == text, f'{text!r} in {name!r}')

    def count_up(self, name, number):
        node = self.find('spin button', name)
        check(Atspi.Value.set_current_value(node, number), f'{name!r} takes no number')

    def click(self, node, modifier=None):
        """By the pointer: rows have no action of their own."""
        box = Atspi.Component.get_extents(node, Atspi.CoordType.WINDOW)
        keys = ['keydown', modifier] if modifier else []
        subprocess.run(['xdotool', *keys, 'mousemove', str(box.x + min(40, box.width // 2)),
                        str(box.y + box.height // 2), 'click', '1',
                        *(['keyup', modifier] if modifier else [])], check=True)

    def keys(self, *keys):
        subprocess.run(['xdotool', 'key', *keys], check=True)

    def type(self, text):
        subprocess.run(['xdotool', 'type', '--delay', '5', text], check=True)

    def shoot(self, folder, name):
        """A picture of the whole screen, kept for people."""
        os.makedirs(folder, exist_ok=True)
        path = f'{folder}/{name}.png'
        subprocess.run(['import', '-window', 'root', path], check=True)
        check(os.path.getsize(path) > 0, f'no picture {path}')

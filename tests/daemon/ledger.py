# SPDX-License-Identifier: GPL-3.0-or-later
"""What restless clients have written down, and so what there must be after somebody was killed."""
import json

ANY = 'any id'


class Account:
    """What may be true of one machine; one of each is."""

    def __init__(self, machine):
        self.machine = machine
        self.versions = {None}  # of its stored definition; None: there is none
        self.ids = {None}       # of what runs; None: nothing does
        self.begun = self.ended = 0.0  # when that was asked for, and answered

    def settle(self, version, number):
        """So it was found: from here on it is certain."""
        self.versions, self.ids = {version}, {number}

    def book(self, begin, end):
        """One step; @end is None when it was never written."""
        what, done = begin['op'], end is not None and end['ok']
        unknown = end is None or end.get('lost', False)
        if what in ('define', 'undefine') and (done or unknown):
            found = begin['version'] if what == 'define' else None
            self.versions = {found} if done else self.versions | {found}
        elif what in ('start', 'create', 'destroy') and (done or unknown):
            found = None if what == 'destroy' else end['id'] if done else ANY
            self.ids = {found} if done else self.ids | {found}
            self.begun, self.ended = begin['at'], end['at'] if end else float('inf')

    def lose(self, moment):
        """Its core was killed then. What was asked for later runs on another."""
        if self.ended < moment:
            self.ids = {None}
        elif self.begun < moment:
            self.ids |= {None}


def read_steps(path):
    """(begin, end) of each step of a log."""
    begin = None
    for line in path.read_text(encoding='utf-8').splitlines():
        entry = json.loads(line)
        if 'op' in entry:
            begin = entry
        else:
            yield begin, entry
            begin = None
    if begin:
        yield begin, None

# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs on a terminal of their own, and what they print read from its other end."""
import os
import pty
import select
import subprocess
import termios

from cases import LIMIT_S, Failed, check, environment


def finish(program, wanted):
    try:
        status = program.wait(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        program.kill()
        raise Failed(f'still there after {LIMIT_S} s') from None
    check(status == wanted, f'exit status {status}, expected {wanted}')


def read_until(fd, wanted):
    """Everything up to and with @wanted."""
    seen = b''
    while wanted not in seen:
        check(select.select([fd], [], [], LIMIT_S)[0], f'no {wanted!r}, only {seen[-200:]!r}')
        got = os.read(fd, 4096)
        check(got, f'end of output before {wanted!r}')
        seen += got
    return seen


class Terminal:
    """A program that the terminal controls; it does not outlive the block."""

    def __init__(self, command, shell=None):
        """@shell: a script that gets the command as its arguments."""
        self.keyboard, self.slave = pty.openpty()
        self.before = termios.tcgetattr(self.slave)
        self.machine = subprocess.Popen(
            ['setsid', '--ctty', *(['sh', '-c', shell, 'sh'] if shell else []), *command],
            stdin=self.slave, stdout=self.slave, stderr=self.slave, env=environment())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.machine.poll() is None:
            self.machine.kill()
            self.machine.wait()
        os.close(self.keyboard)
        os.close(self.slave)

    def is_raw(self):
        return not termios.tcgetattr(self.slave)[3] & (termios.ICANON | termios.ECHO)

    def type(self, keys):
        os.write(self.keyboard, keys)

    def end(self, status):
        finish(self.machine, status)
        check(termios.tcgetattr(self.slave) == self.before, 'the terminal is not as it was')

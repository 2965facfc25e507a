#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run tools/demo or tools/check in a new root on a terminal, as a person would: drive.py ROOT CMD."""
import os
import pty
import re
import select
import signal
import sys
import time

LIMIT_S = 3600
PROMPT = re.compile(rb'lodge:/# ')


def child(root, command):
    os.chroot(root)
    os.chdir('/lodge')
    os.environ.clear()
    os.environ.update(PATH='/usr/sbin:/usr/bin:/sbin:/bin', HOME='/root', TERM='xterm')
    os.execv(f'/lodge/tools/{command}', [f'tools/{command}'])


class Terminal:
    """The other end of the child's terminal; what it prints goes to our output too."""

    def __init__(self, fd):
        self.fd, self.text = fd, b''

    def read(self, seconds):
        """False at the end of output."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            data = b''
        self.text += data
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
        return bool(data)

    def wait_for(self, pattern, deadline):
        while not pattern.search(self.text):
            if time.monotonic() > deadline or not self.read(1):
                return False
        return True


def main():
    root, command = sys.argv[1:]
    pid, fd = pty.fork()
    if pid == 0:
        child(root, command)
    terminal, deadline, good = Terminal(fd), time.monotonic() + LIMIT_S, True
    if command == 'demo':
        good = terminal.wait_for(PROMPT, deadline)
        if good:
            os.write(fd, b'echo answer $((6 * 7))\n')
            good = terminal.wait_for(re.compile(rb'answer 42'), time.monotonic() + 30)
        os.write(fd, b'exit\n')
    while time.monotonic() < deadline and terminal.read(5):
        pass
    done, status = os.waitpid(pid, os.WNOHANG)
    if not done:
        os.kill(pid, signal.SIGTERM)
        _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    good = good and code == 0
    print(f'\nfresh {command}: {"good" if good else "FAILED"} (exit status {code})')
    return 0 if good else 1


if __name__ == '__main__':
    sys.exit(main())

# SPDX-License-Identifier: GPL-3.0-or-later
"""Cases of a test program of lodgectl: functions named case_…, run in order, reported as TAP."""
import os
import signal
import subprocess
import sys

LIMIT_S = 120


class Failed(Exception):
    """What a case found wrong."""


def check(condition, what):
    if not condition:
        raise Failed(what)


def check_equal(got, wanted, what):
    check(got == wanted, f'{what}: {got!r}, expected {wanted!r}')


class Done:
    """How a program ended, and what it said."""

    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err
        self.lines = out.split('\n')[:-1]

    def expect(self, status=0, out=(), err=()):
        """@out and @err: words that must be there; no word of err means it is empty."""
        said = f'\nstdout: {self.out}\nstderr: {self.err}'
        check(self.status == status, f'exit status {self.status}, expected {status}{said}')
        for word in out:
            check(word in self.out, f'no {word!r} on stdout{said}')
        for word in err:
            check(word in self.err, f'no {word!r} on stderr{said}')
        check(err or not self.err, f'something on stderr{said}')
        return self

    def expect_refused(self, *words):
        """Bad input: one line that holds the words, and nothing else."""
        self.expect(status=2, err=words or ('lodgectl: ',))
        check(self.err.count('\n') == 1 and self.err.startswith('lodgectl: '),
              f'not one line of lodgectl: {self.err!r}')
        check_equal(self.out, '', 'stdout')
        return self


def environment(**changes):
    return {**os.environ, 'LC_ALL': 'C.UTF-8', **changes}


def run(*command, text='', **changes):
    """Run to the end, with @text as input."""
    done = subprocess.run(command, input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=LIMIT_S, check=False, text=True, env=environment(**changes))
    return Done(done.returncode, done.stdout, done.stderr)


def main(program, cases, wanted):
    """@cases: globals() of the program; @wanted: names of cases, none for all."""
    cases = {name[len('case_'):].replace('_', '-'): case for name, case in cases.items()
             if name.startswith('case_')}
    unknown = set(wanted) - set(cases)
    if unknown:
        sys.exit(f'no case is named {", ".join(sorted(unknown))}')
    cases = {name: case for name, case in cases.items() if name in (wanted or cases)}
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    print(f'1..{len(cases)}')
    failed = False
    for number, (name, case) in enumerate(cases.items(), 1):
        good = 'ok'
        try:
            case()
        except (Failed, OSError, subprocess.TimeoutExpired, ValueError) as wrong:
            print('# ' + f'{type(wrong).__name__}: {wrong}'.replace('\n', '\n# '))
            good, failed = 'not ok', True
        print(f'{good} {number} - cli.{program}.{name}', flush=True)
    sys.exit(1 if failed else 0)

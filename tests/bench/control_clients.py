# SPDX-License-Identifier: GPL-3.0-or-later
"""The row `clients` of tests/bench/control: what each stock client of libvirt was answered."""
import pathlib
import re
import subprocess
import sys

TESTS = pathlib.Path(__file__).resolve().parent.parent / 'daemon'
LINE = re.compile(r'(ok|not ok) \d+ - daemon\.(\S+)( # SKIP .*)?')
LIMIT_S = 900
# Client: the cases that are its rows.
CLIENTS = {
    'virsh': r'verbs\.virsh\.',
    'python3-libvirt': r'verbs\.python\.',
    'libvirt-gobject': r'gobject\.',
    'virt-install': r'virtinst\.(installs|prints-)',
    'virt-xml': r'virtinst\.(edits|adds)',
    'virt-manager': r'virt-manager\.',
}


def run(args, program):
    """What its cases came to: by name, True, False, or None when it was skipped."""
    done = subprocess.run([TESTS / program, args.tree / 'src/daemon/virtlodged',
                           args.tree / 'tests/guest/hostile/hostile-payload'], check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, timeout=LIMIT_S)
    print('\n'.join(line for line in done.stdout.splitlines() if line.startswith(('#', '1..0'))),
          end='', file=sys.stderr)
    return {name: None if skip else verdict == 'ok' for verdict, name, skip in
            LINE.findall(done.stdout)}


def clients(args):
    """One row a client; exit status 1 when somebody was not answered, or is not installed."""
    cases, unanswered = {}, False
    for program in sorted({pattern.split('\\.')[0] for pattern in CLIENTS.values()}):
        cases.update(run(args, program))
    for client, pattern in CLIENTS.items():
        found = {re.sub(r'^(verbs\.)?[^.]*\.', '', name): verdict for name, verdict in cases.items()
                 if re.match(pattern, name)}
        answered = [name for name, verdict in found.items() if verdict]
        missing = [name for name, verdict in found.items() if not verdict]
        unanswered |= not answered or bool(missing)
        yield {'bench': 'control', 'row': 'clients', 'client': client, 'rows': len(found),
               'answered': len(answered), 'names': answered, 'unanswered': missing}
    if unanswered:
        sys.exit(1)

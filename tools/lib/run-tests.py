#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a meson tree's tests as another user, without meson writing into the tree.

Takes the list from `meson introspect --tests` and writes a log that tools/count-tests reads.
"""
import argparse
import concurrent.futures
import json
import os
import pwd
import re
import subprocess
import sys

SLOW = 4  # as tools/check has meson multiply its limits
TAP_BAD = re.compile(r'^not ok\b(?!.*#\s*(skip|todo))', re.IGNORECASE | re.MULTILINE)


def judge(protocol, status, out):
    """meson's verdict by protocol: tap, or exit status with 77 for a skip."""
    if protocol == 'tap':
        if out.lstrip().startswith('1..0'):
            return 'SKIP'
        return 'FAIL' if status or TAP_BAD.search(out) else 'OK'
    return {0: 'OK', 77: 'SKIP'}.get(status, 'FAIL')


def run(test, who, home, tree):
    env = {'PATH': os.environ['PATH'], 'HOME': home, 'XDG_RUNTIME_DIR': home + '/run',
           'TMPDIR': home, 'LANG': 'C.UTF-8', **test['env']}
    try:
        done = subprocess.run(test['cmd'], cwd=test['workdir'] or tree, env=env, check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, user=who.pw_uid, group=who.pw_gid,
                              extra_groups=[], timeout=test['timeout'] * SLOW or None)
        out, err = (part.decode(errors='replace') for part in (done.stdout, done.stderr))
        result = judge(test['protocol'], done.returncode, out)
    except subprocess.TimeoutExpired:
        out, err, result = '', 'timed out', 'TIMEOUT'
    return {'name': test['name'], 'result': result, 'stdout': out, 'stderr': err}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ('--tree', '--log', '--home', '--user'):
        parser.add_argument(name, required=True)
    parser.add_argument('--no-suite', action='append', default=[])
    args = parser.parse_args()
    who = pwd.getpwnam(args.user)
    listed = json.loads(subprocess.check_output(['meson', 'introspect', '--tests', args.tree]))
    tests = [t for t in listed
             if not any(s.split(':')[-1] in args.no_suite for s in t['suite'])]
    failed = 0
    with open(args.log, 'w', encoding='utf-8') as log, \
            concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for record in pool.map(lambda t: run(t, who, args.home, args.tree), tests):
            log.write(json.dumps(record) + '\n')
            if record['result'] not in ('OK', 'SKIP'):
                failed += 1
                print(f"{record['name']}: {record['result']}\n{record['stdout']}{record['stderr']}",
                      file=sys.stderr)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())

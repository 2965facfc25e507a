#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""cpu/gen-isa.py refuses a wrong table with one line that names file and line."""

import os
import subprocess
import sys
import tempfile

GENERATOR, POLICY = sys.argv[1:3]

# A table whose last line is wrong, and what must be said of it.
MISTAKES = [
    ("00 | ADD Eb,Gb | xr | | |", "six are wanted", True),
    ("00 | ADD Eb,Gb | xr | w=oszapc | lock |", None, False),
    ("0G | ADD Eb,Gb | xr | | | ", "is no opcode", False),
    (" | ADD Eb,Gb | xr | | | ", "no opcode", False),
    ("00 | ADD Kb,Gb | xr | | | ", "unknown operand 'Kb'", False),
    ("00 | ADD Ek,Gb | xr | | | ", "unknown width 'k'", False),
    ("00 | ADD Eb/Mw,Gb | xr | | | ", "is not a register or memory", False),
    ("00 | ADD Eb,Gb | x | | | ", "2 operands, access 'x'", False),
    ("00 | ADD Eb,Gb | xq | | | ", "unknown access 'q'", False),
    ("00 | ADD Eb,Gb | xr | w=oq | | ", "says nothing about flags", False),
    ("00 | ADD Eb,Gb | xr | r=cc | | ", "says nothing about flags", False),
    ("00 | ADD Eb,Gb | xr | w=oc u=c | | ", "both written and undefined", False),
    ("00 | ADD Eb,Gb | xr | | locked | ", "unknown attribute 'locked'", False),
    ("00 | ADD Eb,Gb | xr | | i64 o64 | ", "both i64 and o64", False),
    ("00 | ADD Eb,Gb | xr | | | WINGS", "no HV_FEATURE_WINGS", False),
    ("00 | add Eb,Gb | xr | | | ", "is no mnemonic", False),
    ("00 /8 | ADD Eb,Gb | xr | | | ", "unknown word '/8'", False),
    ("00 reg | ADD Mb,Gb | xr | | | ", "contradict", False),
    ("D9 11 | FNOP | | | | ", "must name a register form", False),
    ("VEX.128.66.0F.W2 58 | ADD Eb,Gb | xr | | | ", "is not VEX.L.pp.map.W", False),
    ("00 | ADD Eb,Gb | xr | | | \n00 /0 | ADD Eb,Gb | xr | | | ", None, False),
    ("00 | ADD Eb,Gb | xr | | | \n00 | OR Eb,Gb | xr | | | ", "fits the same bytes as line", False),
    ("00 /0 | ADD Eb,Gb | xr | | | \n66 00 | OR Eb,Gb | xr | | | ", "fits the same bytes", False),
    ("00 | ADD Eb,Gb | xr | | | \n00 | NOP | | | i64 | ", "ModRM or none", False),
]


def generate(table, directory):
    path = os.path.join(directory, "isa.def")
    with open(path, "w", encoding="ascii") as out:
        out.write("# head\n\n" + table + "\n")
    outputs = [os.path.join(directory, name) for name in ("isa-ops.h", "isa-tables.c")]
    run = subprocess.run([sys.executable, GENERATOR, path, POLICY, *outputs], text=True,
                         capture_output=True, check=False)
    return run.returncode, run.stderr, f"{path}:{2 + len(table.splitlines())}: "


def check(table, message, short, directory):
    # A row that lacks a column is written as it stands; the others are six.
    text = table.replace(" |", "", 1) if short else table
    status, said, place = generate(text, directory)
    if message is None:
        return status == 0 and said == ""
    return status == 1 and said.startswith(place) and message in said and said.count("\n") == 1


def main():
    print(f"1..{len(MISTAKES)}")
    failed = False
    with tempfile.TemporaryDirectory() as directory:
        for number, (table, message, short) in enumerate(MISTAKES, 1):
            good = check(table, message, short, directory)
            failed |= not good
            print(f"{'ok' if good else 'not ok'} {number} - gen-isa: {message or 'a good table'}")
    return failed


if __name__ == "__main__":
    sys.exit(main())

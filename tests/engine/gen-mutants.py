#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The interpreter with wrong handlers besides the right ones, for test-soft-mutants.

    gen-mutants.py GEN_INTERP TEMPLATE COUNT SEED INTERP_C MUTANTS_H

INTERP_C is what GEN_INTERP makes of TEMPLATE, with COUNT more labels at the end of the table: copies
of handlers with one mistake each. MUTANTS_H says whose place each would take, and the mistake. Which
handlers and which mistakes follows from SEED: every family of handlers that 64-bit ring 3 can reach
is as likely as every other.
"""

import importlib.util
import random
import re
import sys

# Not reached, without effect, or mutated otherwise (functions and thunks).
SKIPPED = {"nop", "stale", "address_checked", "function", "thunk", "thunk_x87"}

# In arith: bits of AX after LAHF and SETO AL.
FLAGS = {"CF": 0x100, "ZF": 0x4000, "SF": 0x8000, "OF": 0x01, "PF": 0x400}

PARTNERS = {"add": "sub", "sub": "add", "and": "or", "or": "xor", "xor": "or", "adc": "sbb",
            "sbb": "adc", "inc": "dec", "dec": "inc", "neg": "not", "rol": "ror", "ror": "rol",
            "shl": "shr", "shr": "sar", "sar": "shr", "bt": "btc", "bts": "btr", "btr": "bts",
            "btc": "bts", "imul": "add", "cmp": "test", "test": "cmp", "mul": "imul"}
OPERATORS = {"+": "-", "-": "+", "|": "^", "&": "|", "^": "|"}


def narrower(width):
    return {"8": "4", "4": "2", "2": "1"}[width]


# Each: what is wrong, where it can be, and what stands there instead.
def mistakes(chance):
    flag = chance.choice(sorted(FLAGS))
    bit = FLAGS[flag]
    return [
        (f"wrong {flag}", r"cpu->arith = \(uint16_t\)f;",
         lambda m: f"cpu->arith = (uint16_t)(f ^ {bit:#x});"),
        (f"wrong {flag}", r"MODIFIED\(f\)", lambda m: f"MODIFIED(f ^ {bit:#x})"),
        ("flags lost", r"cpu->arith = \(uint16_t\)f;", lambda m: ""),
        ("wrong width of result", r"soft_set([248])\(", lambda m: f"soft_set{narrower(m[1])}("),
        ("wrong width of operand", r"soft_get([248])\(cpu, uop->(dst|src)\b",
         lambda m: f"(uint{8 * int(m[1])}_t)soft_get{narrower(m[1])}(cpu, uop->{m[2]}"),
        ("wrong width of load", r"(?<!_)LOAD\(([248]),", lambda m: f"LOAD({narrower(m[1])},"),
        ("wrong width of store", r"\b(STORE|STORE_STACK|STORE_FIRST)\(([248]),",
         lambda m: f"{m[1]}({narrower(m[2])},"),
        ("wrong width of store", r"soft_ram_store([248])\(",
         lambda m: f"soft_ram_store{narrower(m[1])}("),
        ("wrong bit of result", r"(?m)^( *soft_set[1248]\(cpu, [^,;]+, )([^;]*)\);$",
         lambda m: f"{m[1]}({m[2]}) ^ 1);"),
        ("wrong operand", r"uop->src\b", lambda m: "uop->dst"),
        ("wrong destination", r"(soft_set[1248]\(cpu, )uop->dst", lambda m: f"{m[1]}uop->src"),
        ("wrong immediate", r"uop->imm\b", lambda m: "(uop->imm + 1)"),
        ("wrong sign", r"\(int(8|16|32)_t\)", lambda m: f"(uint{m[1]}_t)"),
        ("wrong operation", r'"(%s)([bwlq])( |")' % "|".join(PARTNERS),
         lambda m: f'"{PARTNERS[m[1]]}{m[2]}{m[3]}'),
        ("wrong operation", r"\(a ([-+|&^]) b\)", lambda m: f"(a {OPERATORS[m[1]]} b)"),
        ("wrong operation", r"\(a ([-+]) 1\)", lambda m: f"(a {OPERATORS[m[1]]} 1)"),
        ("wrong condition", r"soft_condition\((\d+),", lambda m: f"soft_condition({int(m[1]) ^ 1},"),
        ("wrong way", r"BRANCH\((.*)\);", lambda m: f"BRANCH(!({m[1]}));"),
        ("wrong way", r"SOFT_LINK_TAKEN", lambda m: "SOFT_LINK_NEXT"),
        ("wrong stack pointer", r"soft_get8\(cpu, RSP\) - 8", lambda m: "soft_get8(cpu, RSP) - 16"),
        ("wrong stack pointer", r"top \+ 8\b", lambda m: "top + 4"),
    ]


def load(path):
    spec = importlib.util.spec_from_file_location("gen_interp", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def reachable(family):
    """Its combinations in 64-bit mode, each with its place among the family's labels."""
    return [(position, values) for position, values in enumerate(family.combinations())
            if values.get("stack") != "4"
            # NOT has no flags, dead or not.
            and not (values.get("unary") == "not" and values.get("flags") == "1")]


def mutate(text, chance):
    """One mistake in @text: (what, text), or None where none fits."""
    possible = []
    for what, pattern, replacement in mistakes(chance):
        possible += [(what, match, replacement) for match in re.finditer(pattern, text)]
    kinds = sorted({what for what, _, _ in possible})
    if not kinds:
        return None
    kind = chance.choice(kinds)
    _, match, replacement = chance.choice([each for each in possible if each[0] == kind])
    return kind, text[:match.start()] + replacement(match) + text[match.end():]


def make_mutants(gen, families, count, chance):
    """COUNT of (number of the victim's label, description, body)."""
    first, numbered = 0, []
    for family in families:
        if family.name not in SKIPPED:
            numbered.append((first, family))
        first += len(list(family.combinations()))
    mutants, seen = [], set()
    while len(mutants) < count:
        start, family = chance.choice(numbered)
        position, values = chance.choice(reachable(family))
        right = "".join(gen.expand(family.body, gen.derived(values)))
        wrong = mutate(right, chance)
        if wrong and wrong[1] != right and (start + position, wrong[1]) not in seen:
            seen.add((start + position, wrong[1]))
            name = " ".join([family.name] + list(values.values()))
            mutants.append((start + position, f"{name}: {wrong[0]}", wrong[1]))
    return mutants


def write_header(mutants, seed, path):
    with open(path, "w", encoding="ascii") as out:
        out.write("/* SPDX-License-Identifier: GPL-3.0-or-later */\n"
                  f"/* Generated by gen-mutants.py from interp.tmpl, seed {seed}. Do not edit. */\n"
                  "#pragma once\n\n"
                  "/* Label SOFT_UOPS + i is the wrong copy of label victim[i]. */\n"
                  "struct soft_mutant {\n    unsigned victim;\n    const char *what;\n};\n\n"
                  "static const struct soft_mutant soft_mutants[] = {\n")
        out.writelines(f'    {{{victim}, "{what}"}},\n' for victim, what, _ in mutants)
        out.write("};\n")


def write_interp(gen, pieces, families, mutants, path):
    gen.write_interp(pieces, families, path)
    with open(path, encoding="ascii") as written:
        text = written.read()
    last = families[-1]
    names = [f"        &&M_{i},\n" for i in range(len(mutants))]
    bodies = [f"M_{i}: {{\n{body}}}\n" for i, (_, _, body) in enumerate(mutants)]
    final_label = [last.label(values) for values in last.combinations()][-1]
    text = text.replace(f"        &&{final_label},\n", f"        &&{final_label},\n" + "".join(names))
    # Before the last handler: none falls through to the next.
    text = text.replace(f"\n{final_label}: {{\n", "\n" + "".join(bodies) + f"{final_label}: {{\n")
    with open(path, "w", encoding="ascii") as out:
        out.write(text)


def main(arguments):
    gen_interp, template, count, seed, interp, header = arguments
    gen = load(gen_interp)
    pieces, _ = gen.parse(template)
    families = [content for kind, content in pieces if kind == "family"]
    mutants = make_mutants(gen, families, int(count), random.Random(int(seed)))
    write_header(mutants, seed, header)
    write_interp(gen, pieces, families, mutants, interp)


if __name__ == "__main__":
    main(sys.argv[1:])

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Expand interp.tmpl: the interpreter's computed-goto function and the names of its handlers.

    gen-interp.py TEMPLATE INTERP_C UOPS_H

The template is C with lines of its own that start with //@ :

    //@ axis NAME = V V …      a dimension of handlers: names (an enum is made) or numbers
    //@ family NAME AXIS …     one handler for each combination; AXIS=V,V takes a part of the axis
    //@ family NAME of BASE …  as the family BASE, of which it has the axes (a part of each); the
                               lines given here come before BASE's
    //@ if EXPRESSION          a Python expression over the axes' values (all are strings)
    //@ else
    //@ end
    //@ done                   ends a family
    //@ labels                 the table of all labels

In a family's body $axis is the present value, and $T, $S, $sfx, $bits, $acc follow from $size ($stack,
$vector): the types, AT&T suffix, width in bits and accumulator of an operand; $cc is the assembler's
name of $cond, $c_operator and $c_unary what $alu and $unary are in C.

INTERP_C is the template so expanded. UOPS_H numbers the handlers and has, for each family,
soft_uop_FAMILY(axis, …): the number, or -1 where the family has no such handler; and
soft_uop_moved(number, bytes): the handler that joins a register move with another.
"""

import itertools
import re
import sys

SIZES = {
    "1": {"T": "uint8_t", "S": "int8_t", "sfx": "b", "bits": "8", "acc": "al"},
    "2": {"T": "uint16_t", "S": "int16_t", "sfx": "w", "bits": "16", "acc": "ax"},
    "4": {"T": "uint32_t", "S": "int32_t", "sfx": "l", "bits": "32", "acc": "eax"},
    "8": {"T": "uint64_t", "S": "int64_t", "sfx": "q", "bits": "64", "acc": "rax"},
}
# SDM 1 appendix B, in the spelling of the assembler.
CONDITIONS = "o no c nc z nz be a s ns p np l ge le g".split()

C_OPERATORS = {"add": "+", "or": "|", "and": "&", "sub": "-", "xor": "^"}
C_UNARY = {"inc": "a + 1", "dec": "a - 1", "neg": "0 - a"}


class TemplateError(Exception):
    """A mistake in the template, with its line."""


class Family:
    def __init__(self, name, axes, line, base=None):
        self.name, self.axes, self.line, self.base = name, axes, line, base
        self.body = []

    def combinations(self):
        names = [name for name, _ in self.axes]
        for values in itertools.product(*(values for _, values in self.axes)):
            yield dict(zip(names, values))

    def label(self, values):
        return "_".join(["L", self.name] + list(values.values()))


def derived(values):
    result = dict(values)
    result.update(SIZES.get(values.get("size", values.get("stack", values.get("vector"))), {}))
    result["c_operator"] = C_OPERATORS.get(values.get("alu"))
    result["c_unary"] = C_UNARY.get(values.get("unary"))
    if "cond" in values:
        result["cc"] = CONDITIONS[int(values["cond"])]
    return result


def substitute(line, values, number):
    def replace(match):
        name = match[1] or match[2]
        if name not in values:
            raise TemplateError(f"line {number}: ${name} is no axis here")
        return values[name]
    return re.sub(r"\$(?:\{(\w+)\}|(\w+))", replace, line)


def expand(body, values):
    """The body for one combination, //@ if lines obeyed."""
    shown, out = [True], []
    for number, line in body:
        words = line.strip().split(None, 2)
        if words[:1] == ["//@"]:
            if words[1] == "if":
                shown.append(shown[-1] and bool(eval(words[2], {}, values)))
            elif words[1] == "else":
                shown[-1] = shown[-2] and not shown[-1]
            elif words[1] == "end":
                shown.pop()
            else:
                raise TemplateError(f"line {number}: '{words[1]}' inside a family")
        elif shown[-1]:
            out.append(substitute(line, values, number))
    if len(shown) != 1:
        raise TemplateError(f"line {body[0][0]}: if without end")
    return out


def parse(path):
    """Pieces of the template in order: ('text', lines), ('family', Family), ('labels', None)."""
    pieces, axes, family = [("text", [])], {}, None
    with open(path, encoding="ascii") as template:
        for number, line in enumerate(template, 1):
            words = line.strip().split()
            directive = words[1] if words[:1] == ["//@"] else None
            if family:
                if directive == "done":
                    if family.base:
                        family.body += family.base.body
                    pieces += [("family", family), ("text", [])]
                    family = None
                else:
                    family.body.append((number, line))
            elif directive == "axis":
                axes[words[2]] = words[4:]
            elif directive == "family":
                base = take_base(pieces, words, number)
                family = Family(words[2],
                                [take_axis(axes, word, number)
                                 for word in words[5 if base else 3:]], number, base)
            elif directive == "labels":
                pieces += [("labels", None), ("text", [])]
            elif directive:
                raise TemplateError(f"line {number}: '{directive}' outside a family")
            else:
                pieces[-1][1].append(line)
    if family:
        raise TemplateError(f"line {family.line}: family without done")
    return pieces, axes


def take_base(pieces, words, number):
    if words[3:4] != ["of"]:
        return None
    for kind, content in pieces:
        if kind == "family" and content.name == words[4]:
            return content
    raise TemplateError(f"line {number}: no family '{words[4]}' above")


def take_axis(axes, word, number):
    name, _, part = word.partition("=")
    if name not in axes:
        raise TemplateError(f"line {number}: no axis '{name}'")
    values = part.split(",") if part else axes[name]
    for value in values:
        if value not in axes[name]:
            raise TemplateError(f"line {number}: axis '{name}' has no '{value}'")
    return name, values


def numeric(axis):
    return all(value.isdigit() for value in axis)


def constant(axis_name, value):
    return f"SOFT_{axis_name.upper()}_{value.upper()}"


def write_interp(pieces, families, path):
    with open(path, "w", encoding="ascii") as out:
        for kind, content in pieces:
            if kind == "text":
                out.writelines(content)
            elif kind == "labels":
                for family in families:
                    for values in family.combinations():
                        out.write(f"        &&{family.label(values)},\n")
            else:
                for values in content.combinations():
                    out.write(f"{content.label(values)}: {{\n")
                    out.writelines(expand(content.body, derived(values)))
                    out.write("}\n")


def write_uops(axes, families, path):
    with open(path, "w", encoding="ascii") as out:
        out.write("/* SPDX-License-Identifier: GPL-3.0-or-later */\n"
                  "/* Generated by gen-interp.py from interp.tmpl. Do not edit. */\n"
                  "#pragma once\n\n#include <stdint.h>\n")
        for name, values in axes.items():
            if not numeric(values):
                names = "".join(f"    {constant(name, value)},\n" for value in values)
                out.write(f"\nenum soft_{name} {{\n{names}}};\n")
        first = 0
        for family in families:
            first += write_family(out, axes, family, first)
        out.write(f"\n#define SOFT_UOPS {first}\n")
        write_moved(out, families)


def write_moved(out, families):
    """soft_uop_moved(number, bytes): what runs a move of that many bytes, then the handler."""
    numbers, first = {}, 0
    for family in families:
        for position, values in enumerate(family.combinations()):
            numbers[family.name, tuple(sorted(values.items()))] = first + position
        first += position + 1
    cells = {}
    for family in families:
        for values in family.combinations() if family.base else ():
            move = values.pop("move")
            base = numbers[family.base.name, tuple(sorted(values.items()))]
            values["move"] = move
            cells[base, move] = numbers[family.name, tuple(sorted(values.items()))]
    out.write("\nstatic inline int soft_uop_moved(unsigned number, unsigned bytes)\n{\n"
              "    static const int16_t moved[SOFT_UOPS][2] = {\n")
    for base in sorted({base for base, _ in cells}):
        row = ", ".join(str(cells.get((base, move), 0)) for move in ("4", "8"))
        out.write(f"        [{base}] = {{{row}}},\n")
    out.write("    };\n"
              "    int joined = bytes == 4 || bytes == 8 ? moved[number][bytes == 8] : 0;\n\n"
              "    return joined ? joined : -1;\n}\n")


def write_family(out, axes, family, first):
    count = 1
    for _, values in family.axes:
        count *= len(values)
    parameters = ", ".join(f"unsigned {name}" for name, _ in family.axes) or "void"
    out.write(f"\nstatic inline int soft_uop_{family.name}({parameters})\n{{\n")
    stride, terms, checks = count, [str(first)], []
    for name, values in family.axes:
        stride //= len(values)
        number = {value: int(value) if numeric(axes[name]) else position
                  for position, value in enumerate(axes[name])}
        table = [-1] * (max(number.values()) + 1)
        for position, value in enumerate(values):
            table[number[value]] = position
        cells = ", ".join(str(cell) for cell in table)
        out.write(f"    static const int8_t {name}_at[] = {{{cells}}};\n")
        checks.append(f"{name} >= sizeof({name}_at) || {name}_at[{name}] < 0")
        terms.append(f"{name}_at[{name}] * {stride}")
    if checks:
        out.write(f"\n    if ({' || '.join(checks)}) {{\n        return -1;\n    }}\n")
    out.write(f"    return {' + '.join(terms)};\n}}\n")
    return count


def main(arguments):
    template, interp, uops = arguments
    try:
        pieces, axes = parse(template)
        families = [content for kind, content in pieces if kind == "family"]
        write_interp(pieces, families, interp)
        write_uops(axes, families, uops)
    except TemplateError as error:
        sys.exit(f"{template}: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check cpu/isa.def and make the decoder's tables of it.

    gen-isa.py ISA_DEF POLICY_H OPS_H TABLES_C

Other generators import parse() for the rows. The meaning of every column is explained at the head
of isa.def; this file only knows how they are spelt. An error names file and line and ends the run.
"""

import dataclasses
import re
import sys

FLAG_BITS = {"c": 0x001, "p": 0x004, "a": 0x010, "z": 0x040, "s": 0x080, "i": 0x200, "d": 0x400,
             "o": 0x800}
ACCESS = {"-": 0, "r": 1, "w": 2, "x": 3}

# Flags read by condition code / 2 (SDM 1 appendix B); the odd codes are the negations.
CONDITION_FLAGS = ["o", "c", "z", "zc", "s", "p", "so", "zso"]

# The key a row is matched against: soft_key() in engine/soft/decode.c builds the same.
KEY_MODRM = 0xff
KEY_REG_SHIFT, KEY_MOD_SHIFT = 3, 6
KEY_66, KEY_F3, KEY_F2 = 1 << 8, 1 << 9, 1 << 10
KEY_MODE64, KEY_W, KEY_L, KEY_REX_B, KEY_MEM = 1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 15

MAPS = {"": 0, "0F": 1, "0F38": 2, "0F3A": 3}
# VEX maps follow the legacy ones in the slot table.
VEX_MAP_OFFSET = 3

# What may stand before the opcode bytes of a row without VEX.
PREFIX_WORDS = ("NP", "NFx", "66", "F2", "F3", "REX.W", "W0", "REX.B")

# Where a letter's register number stands and what kind of operand it is.
LETTERS = {"A": ("NONE", "FAR"), "B": ("VVVV", "GPR"), "C": ("REG", "CR"), "D": ("REG", "DR"),
           "E": ("RM_OR_MEM", "GPR"), "F": ("NONE", "NONE"), "G": ("REG", "GPR"),
           "H": ("VVVV", "XMM"), "I": ("NONE", "IMM"), "J": ("NONE", "REL"), "L": ("IS4", "XMM"),
           "M": ("MEM", "MEM"), "N": ("RM", "MMX"), "O": ("MEM", "MEM"), "P": ("REG", "MMX"),
           "Q": ("RM_OR_MEM", "MMX"), "R": ("RM", "GPR"), "S": ("REG", "SEG"), "U": ("RM", "XMM"),
           "V": ("REG", "XMM"), "W": ("RM_OR_MEM", "XMM"), "X": ("NONE", "NONE"),
           "Y": ("NONE", "NONE"), "Z": ("OPCODE", "GPR")}
IMPLIED_LETTERS = set("FXY")
MODRM_METHODS = set("CDEGMNPQRSUVW")
REGISTER_ONLY, MEMORY_ONLY, EITHER = set("NRU"), set("M"), set("EQW")

TYPES = ["b", "w", "d", "q", "v", "z", "y", "dq", "qq", "x", "h", "f", "g", "p", "a", "s", "t",
         "bs", "env", "state", "fx"]
TYPE_ALIASES = {"ps": "x", "pd": "x", "ss": "d", "sd": "q", "": "none"}

# Operands written out: source, kind, width, number.
FIXED = {"AL": ("FIXED", "GPR", "b", 0), "CL": ("FIXED", "GPR", "b", 1),
         "DX": ("FIXED", "GPR", "w", 2), "AX": ("FIXED", "GPR", "w", 0),
         "eAX": ("FIXED", "GPR", "z", 0),
         "rAX": ("FIXED", "GPR", "v", 0), "ES": ("FIXED", "SEG", "w", 0),
         "CS": ("FIXED", "SEG", "w", 1), "SS": ("FIXED", "SEG", "w", 2),
         "DS": ("FIXED", "SEG", "w", 3), "FS": ("FIXED", "SEG", "w", 4),
         "GS": ("FIXED", "SEG", "w", 5), "ST": ("FIXED", "ST", "t", 0), "STi": ("RM", "ST", "t", 0),
         "XMM0": ("FIXED", "XMM", "dq", 0), "1": ("NONE", "CONST", "none", 1),
         "3": ("NONE", "CONST", "none", 3)}

# Attributes that users of the table see (enum soft_isa_flag) and those the decoder keeps
# (enum soft_rule).
ISA_FLAGS = {"lock": "LOCKABLE", "priv": "PRIVILEGED", "branch": "BRANCH", "string": "STRING",
             "system": "SYSTEM", "x87": "X87", "mmx": "MMX", "sse": "SSE", "avx": "AVX",
             "aligned": "ALIGNED", "io": "IO", "nowait": "FPU_NOWAIT"}
RULES = {"d64": "D64", "f64": "F64", "regs": "REGS", "implied": "IMPLIED", "string": "STRING",
         "lock": "LOCK", "vsib": "VSIB"}
MODE_ATTRIBUTES = {"i64", "o64"}


class IsaError(Exception):
    """A mistake in the table, with its place."""

    def __init__(self, path, line, text):
        super().__init__(f"{path}:{line}: {text}")


@dataclasses.dataclass
class Operand:
    """One operand as written: its letter ('' when written out), source, kind and widths."""
    text: str
    letter: str
    source: str
    kind: str
    register_type: str
    memory_type: str
    access: int
    number: int = 0

    @property
    def implied(self):
        return self.letter in IMPLIED_LETTERS


@dataclasses.dataclass
class Row:
    """One encoding. `opcodes` holds all that +r or a range spans; +cc gives sixteen rows."""
    path: str
    line: int
    encoding: str
    mnemonic: str
    operands: list
    attributes: set
    feature: str
    flags_read: int = 0
    flags_written: int = 0
    flags_undefined: int = 0
    vex: bool = False
    map: int = 0
    opcodes: list = dataclasses.field(default_factory=list)
    condition: int = -1
    mask: int = 0
    value: int = 0
    modrm: bool = False
    vector_ignored: bool = False
    index: int = -1

    def need(self, mask, value):
        """Ask for key bits, once."""
        if self.mask & mask & (self.value ^ value):
            raise IsaError(self.path, self.line, "encoding and operands contradict each other")
        self.mask |= mask
        self.value |= value & mask

    def explicit(self):
        """Operands of the decoded instruction. A string instruction has none."""
        if "string" in self.attributes:
            return []
        return [operand for operand in self.operands if not operand.implied]


def _parse_operand(row, text, access):
    if text in FIXED:
        source, kind, type_name, number = FIXED[text]
        return Operand(text, "", source, kind, type_name, type_name, access, number)
    register_text, _, memory_text = text.partition("/")
    letter = register_text[0]
    if letter not in LETTERS:
        raise IsaError(row.path, row.line, f"unknown operand '{text}'")
    types = []
    for part in (register_text, memory_text or register_text):
        name = TYPE_ALIASES.get(part[1:], part[1:])
        if name not in TYPES and name != "none":
            raise IsaError(row.path, row.line, f"unknown width '{part[1:]}' of operand '{text}'")
        types.append(name)
    if memory_text:
        if letter not in REGISTER_ONLY or memory_text[0] != "M":
            raise IsaError(row.path, row.line, f"'{text}' is not a register or memory")
        letter = {"R": "E", "U": "W", "N": "Q"}[letter]
    return Operand(text, letter, *LETTERS[letter], types[0], types[1], access)


def _parse_vex(row, word):
    parts = word.split(".")[1:]
    if parts and parts[0] in ("128", "256", "LZ", "LIG"):
        length = parts.pop(0)
        if length == "LIG":
            row.vector_ignored = True
        else:
            row.need(KEY_L, KEY_L if length == "256" else 0)
    if len(parts) != 3 or parts[1] not in MAPS or parts[2] not in ("W0", "W1", "WIG"):
        raise IsaError(row.path, row.line, f"'{word}' is not VEX.L.pp.map.W")
    row.vex, row.map = True, MAPS[parts[1]]
    _need_prefix(row, parts[0])
    if parts[2] != "WIG":
        row.need(KEY_W, KEY_W if parts[2] == "W1" else 0)


def _need_prefix(row, word):
    repeat = KEY_F2 | KEY_F3
    if word == "NP":
        row.need(repeat | KEY_66, 0)
    elif word == "NFx":
        row.need(repeat, 0)
    elif word == "66":
        row.need(repeat | KEY_66, KEY_66)
    elif word == "F3" or word == "F2":
        row.need(repeat, KEY_F3 if word == "F3" else KEY_F2)
    else:
        raise IsaError(row.path, row.line, f"unknown prefix '{word}'")


def _parse_encoding(row):
    words = row.encoding.split()
    if words and words[0].startswith("VEX."):
        _parse_vex(row, words.pop(0))
    while not row.vex and words and words[0] in PREFIX_WORDS:
        word = words.pop(0)
        if word in ("REX.W", "W0"):
            row.need(KEY_W, KEY_W if word == "REX.W" else 0)
        elif word == "REX.B":
            row.need(KEY_REX_B, KEY_REX_B)
        else:
            _need_prefix(row, word)
    if not row.vex and words and words[0] == "0F":
        words.pop(0)
        row.map = 1
        if words and words[0] in ("38", "3A"):
            row.map = MAPS["0F" + words.pop(0)]
    _parse_bytes(row, words)


def _parse_bytes(row, words):
    if not words:
        raise IsaError(row.path, row.line, "no opcode")
    opcode = words.pop(0)
    match = re.fullmatch(r"([0-9A-F]{2})(\+r|\+cc|-[0-9A-F]{2})?", opcode)
    if not match:
        raise IsaError(row.path, row.line, f"'{opcode}' is no opcode")
    first, span = int(match[1], 16), match[2] or ""
    last = first + {"": 0, "+r": 7, "+cc": 15}[span] if span[:1] != "-" else int(span[1:], 16)
    row.opcodes = list(range(first, last + 1))
    row.condition = 0 if span == "+cc" else -1
    for word in words:
        if re.fullmatch(r"[0-9A-F]{2}(\+i)?", word):
            row.need(0xf8 if "+" in word else 0xff, int(word[:2], 16))
            row.modrm = True
        elif re.fullmatch(r"/[0-7]", word):
            row.need(7 << KEY_REG_SHIFT, int(word[1]) << KEY_REG_SHIFT)
            row.modrm = True
        elif word in ("mem", "reg"):
            row.need(KEY_MEM, KEY_MEM if word == "mem" else 0)
            row.modrm = True
        else:
            raise IsaError(row.path, row.line, f"unknown word '{word}' in the encoding")


def _parse_flags(row, text):
    for word in text.split():
        match = re.fullmatch(r"([rwu])=(cc|[oszapcdi]+)", word)
        if not match or (match[2] == "cc") != (match[1] == "r" and row.condition >= 0):
            raise IsaError(row.path, row.line, f"'{word}' says nothing about flags")
        bits = 0 if match[2] == "cc" else sum(FLAG_BITS[letter] for letter in set(match[2]))
        if match[1] == "r":
            row.flags_read = bits
        elif match[1] == "w":
            row.flags_written |= bits
        else:
            row.flags_undefined = bits
            if row.flags_written & bits:
                raise IsaError(row.path, row.line, "a flag is both written and undefined")
            row.flags_written |= bits


def _parse_attributes(row):
    known = set(ISA_FLAGS) | set(RULES) | MODE_ATTRIBUTES
    for word in row.attributes - known:
        raise IsaError(row.path, row.line, f"unknown attribute '{word}'")
    if row.attributes >= MODE_ATTRIBUTES:
        raise IsaError(row.path, row.line, "both i64 and o64")
    if row.attributes & MODE_ATTRIBUTES:
        row.need(KEY_MODE64, KEY_MODE64 if "o64" in row.attributes else 0)


def _parse_operands(row, text, access):
    names = text.split(",") if text else []
    if len(names) != len(access) or len(names) > 5:
        raise IsaError(row.path, row.line, f"{len(names)} operands, access '{access}'")
    for name, letter in zip(names, access):
        if letter not in ACCESS:
            raise IsaError(row.path, row.line, f"unknown access '{letter}'")
        operand = _parse_operand(row, name, ACCESS[letter])
        row.operands.append(operand)
        if operand.letter in MODRM_METHODS or operand.text == "STi":
            row.modrm = True
        if "regs" in row.attributes:
            continue
        if operand.letter in MEMORY_ONLY:
            row.need(KEY_MEM, KEY_MEM)
        elif operand.letter in REGISTER_ONLY or operand.text == "STi":
            row.need(KEY_MEM, 0)


def _finish_modrm(row):
    """A pinned ModRM.mod of 3 and a demand for memory are the same key bit; keep the latter."""
    if row.mask & 0xc0:
        if row.mask & 0xc0 != 0xc0 or row.value & 0xc0 != 0xc0:
            raise IsaError(row.path, row.line, "a whole ModRM byte must name a register form")
        row.mask, row.value = row.mask & ~0xc0, row.value & ~0xc0
        row.need(KEY_MEM, 0)


def _parse_line(path, number, text):
    cells = [cell.strip() for cell in text.split("|")]
    if len(cells) != 6:
        raise IsaError(path, number, f"{len(cells)} columns where six are wanted")
    encoding, name, access, flags, attributes, feature = cells
    mnemonic, _, operands = name.partition(" ")
    if not re.fullmatch(r"[A-Z0-9][A-Z0-9_]*", mnemonic):
        raise IsaError(path, number, f"'{mnemonic}' is no mnemonic")
    row = Row(path, number, encoding, mnemonic, [], set(attributes.split()), feature or "BASE")
    _parse_encoding(row)
    _parse_attributes(row)
    _parse_operands(row, operands.strip(), access)
    _finish_modrm(row)
    _parse_flags(row, flags)
    if row.condition < 0:
        return [row]
    rows = []
    for code, opcode in enumerate(row.opcodes):
        read = sum(FLAG_BITS[letter] for letter in CONDITION_FLAGS[code // 2])
        rows.append(dataclasses.replace(row, condition=code, opcodes=[opcode], flags_read=read))
    return rows


def _check_slot(key, rows):
    """Rows of one opcode: all with ModRM or none, and no two that fit the same bytes.

    Two may when one asks for more than the other, or when a third asks for just what both do.
    """
    for row in rows:
        # Modes may differ in it (none does today), so it is asked by slot.
        if row.modrm != rows[0].modrm:
            raise IsaError(row.path, row.line, f"ModRM or none? Line {rows[0].line} says otherwise")
    for i, one in enumerate(rows):
        for two in rows[i + 1:]:
            common = one.mask & two.mask
            if (one.value ^ two.value) & common:
                continue
            if (one.mask == common) != (two.mask == common):
                continue
            both = one.mask | two.mask, one.value | two.value
            if one.mask != two.mask and any((row.mask, row.value) == both for row in rows):
                continue
            raise IsaError(two.path, two.line, f"fits the same bytes as line {one.line}")


def slots(rows):
    """{(map, VEX maps after legacy ones; opcode): rows, the narrower first}; checks overlaps."""
    table = {}
    for row in rows:
        table_map = row.map + (VEX_MAP_OFFSET if row.vex else 0)
        for opcode in row.opcodes:
            table.setdefault((table_map, opcode), []).append(row)
    for key, candidates in table.items():
        _check_slot(key, candidates)
        candidates.sort(key=lambda row: -bin(row.mask).count("1"))
    return table


def parse(path):
    """All rows of the table at @path, in order, `index` set. Raises IsaError."""
    rows = []
    with open(path, encoding="ascii") as table:
        for number, text in enumerate(table, 1):
            if text.strip() and not text.startswith("#"):
                rows.extend(_parse_line(path, number, text.rstrip("\n")))
    for index, row in enumerate(rows):
        row.index = index
    slots(rows)
    return rows


def mnemonics(rows):
    """Every mnemonic once, in order of the alphabet: the order of enum soft_op."""
    return sorted({row.mnemonic for row in rows})


def check_features(rows, policy_path):
    """Each feature must be a constant of cpu/policy.h."""
    with open(policy_path, encoding="utf-8") as policy:
        known = set(re.findall(r"^    HV_FEATURE_(\w+),", policy.read(), re.M))
    for row in rows:
        if row.feature not in known:
            raise IsaError(row.path, row.line, f"no HV_FEATURE_{row.feature} in {policy_path}")


GENERATED = "/* Generated by cpu/gen-isa.py from cpu/isa.def. Do not edit. */\n"


def write_ops(rows, path):
    with open(path, "w", encoding="ascii") as out:
        out.write("/* SPDX-License-Identifier: GPL-3.0-or-later */\n" + GENERATED)
        out.write("#pragma once\n\nenum soft_op {\n")
        for name in mnemonics(rows):
            out.write(f"    SOFT_OP_{name},\n")
        out.write("    SOFT_OP_COUNT,\n};\n")


def _bits(prefix, names):
    return " | ".join(f"{prefix}{name}" for name in names) or "0"


def _form(operand):
    memory = operand.memory_type if operand.letter in ("E", "M", "Q", "W", "O") else "none"
    return "{SOFT_SOURCE_%s, SOFT_OPERAND_%s, SOFT_TYPE_%s, SOFT_TYPE_%s, %d, %d}" % (
        operand.source, operand.kind, operand.register_type.upper(), memory.upper(),
        operand.access, operand.number)


def _string_type(row):
    for operand in row.operands:
        if operand.letter in ("X", "Y"):
            return operand.memory_type
    return "none"


def _encoding(row):
    rules = [RULES[word] for word in sorted(row.attributes) if word in RULES]
    if row.vector_ignored:
        rules.append("LIG")
    forms = row.explicit()
    if any(operand.letter in ("H", "B") for operand in forms):
        rules.append("VVVV")
    if any(operand.letter == "L" for operand in forms):
        rules.append("IS4")
    if "vsib" in row.attributes or any(operand.letter in ("C", "D", "S") for operand in forms):
        rules.append("NUMBERS")
    return "    {%#06x, %#06x, %s, SOFT_TYPE_%s, %d, {%s}}, /* %d: %s */\n" % (
        row.mask, row.value, _bits("SOFT_RULE_", rules), _string_type(row).upper(), len(forms),
        ", ".join(_form(operand) for operand in forms) or "{0}", row.line,
        row.encoding + " " + row.mnemonic)


def _description(row):
    flags = [ISA_FLAGS[word] for word in sorted(row.attributes) if word in ISA_FLAGS]
    return '    {"%s", SOFT_OP_%s, %s, %#x, %#x, %#x, HV_FEATURE_%s},\n' % (
        row.mnemonic, row.mnemonic, _bits("SOFT_ISA_", flags), row.flags_read, row.flags_written,
        row.flags_undefined, row.feature)


def write_tables(rows, path):
    table = slots(rows)
    with open(path, "w", encoding="ascii") as out:
        out.write("/* SPDX-License-Identifier: GPL-3.0-or-later */\n" + GENERATED)
        out.write('#include "engine/soft/decode-private.h"\n\n#include "cpu/policy.h"\n')
        out.write("\nconst struct soft_encoding soft_encodings[] = {\n")
        out.writelines(_encoding(row) for row in rows)
        out.write("};\n\nconst struct soft_isa_row soft_isa_table[] = {\n")
        out.writelines(_description(row) for row in rows)
        out.write(f"}};\n\nconst size_t soft_isa_count = {len(rows)};\n")
        out.write("\nconst uint16_t soft_candidates[] = {\n")
        first, position = {}, 0
        for key, candidates in sorted(table.items()):
            first[key] = position
            position += len(candidates)
            out.write("    " + " ".join(f"{row.index}," for row in candidates) + "\n")
        out.write("};\n\nconst struct soft_slot soft_slots[SOFT_MAPS][256] = {\n")
        for (table_map, opcode), candidates in sorted(table.items()):
            out.write("    [%d][0x%02x] = {%d, %d, %d},\n" % (
                table_map, opcode, first[table_map, opcode], len(candidates),
                candidates[0].modrm))
        out.write("};\n")


def main(arguments):
    isa, policy, ops, tables = arguments
    try:
        rows = parse(isa)
        check_features(rows, policy)
    except IsaError as error:
        sys.exit(str(error))
    write_ops(rows, ops)
    write_tables(rows, tables)


if __name__ == "__main__":
    main(sys.argv[1:])

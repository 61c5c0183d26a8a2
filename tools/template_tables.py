#!/usr/bin/env python3
"""Writes src/text/template_tables.c: which characters Python's str calls upper, lower, titled or
printable, and what its case mappings give. Usage: tools/template_tables.py src/text
"""
import os
import sys

POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def spans(points, key=lambda c: 0):
    """[first, last, step, value]: runs of points whose key is the same, one or two apart."""
    found = []
    for c in points:
        value = key(c)
        if found and found[-1][3] == value:
            first, last, step, _ = found[-1]
            if c - last == (step or c - last) and c - last <= 2:
                found[-1][1:3] = [c, c - last]
                continue
        found.append([c, c, 0, value])
    return [(a, b, s or 1, v) for a, b, s, v in found]


def mapped(method):
    """Spans of a mapping to one character each, with the distance, and those to several. Of title
    only what differs from upper, of casefold from lower."""
    single, several = [], []
    for c in POINTS:
        text = getattr(chr(c), method)()
        if text == {"title": chr(c).upper(), "casefold": chr(c).lower()}.get(method, chr(c)):
            continue
        if len(text) == 1:
            single.append(c)
        else:
            several.append((c, [ord(x) for x in text]))
    return spans(single, lambda c: ord(getattr(chr(c), method)()) - c), several


def write_spans(out, name, rows):
    out.write(f"\nconst hil_char_span {name}[] = {{\n")
    line = ""
    for a, b, s, v in rows:
        cell = f"{{0x{a:X}, 0x{b:X}, {s}, {v}}}, "
        if len(line) + len(cell) > 96:
            out.write("    " + line.rstrip() + "\n")
            line = ""
        line += cell
    out.write("    " + line.rstrip() + "\n};\n")
    out.write(f"const size_t {name}_count = sizeof {name} / sizeof *{name};\n")


def write_several(out, name, rows):
    out.write(f"\nconst hil_char_expansion {name}[] = {{\n")
    for i in range(0, len(rows), 3):
        cells = ("{0x%X, {%s}}," % (c, ", ".join(f"0x{p:X}" for p in points))
                 for c, points in rows[i:i + 3])
        out.write("    " + " ".join(cells) + "\n")
    out.write(f"}};\nconst size_t {name}_count = sizeof {name} / sizeof *{name};\n")


def main():
    with open(os.path.join(sys.argv[1], "template_tables.c"), "w") as out:
        out.write("/* template_tables.c - written by tools/template_tables.py: characters as Python's"
                  " str knows them.\n */\n#include \"text/template_tables.h\"\n\n/* clang-format off */\n")
        for method in ("upper", "lower", "title", "casefold"):
            single, several = mapped(method)
            write_spans(out, f"hil_char_to_{method}", single)
            write_several(out, f"hil_char_to_{method}_several", several)
        for method in ("isupper", "islower"):
            write_spans(out, f"hil_char_{method[2:]}_spans",
                        spans(c for c in POINTS if getattr(chr(c), method)()))
        write_spans(out, "hil_char_titled_spans",
                    spans(c for c in POINTS if chr(c).istitle() and not chr(c).isupper()))
        write_spans(out, "hil_char_unprintable_spans",
                    [s for s in spans(c for c in range(0x110000) if not chr(c).isprintable())])


main()

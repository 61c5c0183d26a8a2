#!/usr/bin/env python3
"""Writes the tables behind src/text/unicode/unicode.c: unicode_classes.c, _categories.c, _splits.c, _joins.c,
_compat.c, _compat_points.c and _marks.c.

The tables hold what the Hugging Face `tokenizers` library does, not what one Unicode version says:
its regular expressions know Unicode 16 while its NFC is older. So every set is measured on the
library itself. Usage: tools/unicode_tables.py src/text/unicode
"""
import base64
import json
import os
import sys
import unicodedata

import charsmap
import tokenizers
from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers

LAST = 0x110000
POINTS = [c for c in range(1, LAST) if not 0xD800 <= c < 0xE000]
LETTER, NUMBER, SPACE, WORD, UNSTABLE = 1, 2, 4, 8, 16
NFC, NFD = normalizers.NFC(), normalizers.NFD()


def matching(pattern):
    """The code points that the regular expression engine of Split matches."""
    split = pre_tokenizers.Split(Regex(pattern), "removed")
    found = set()
    for start in range(0, len(POINTS), 20000):
        points = POINTS[start:start + 20000]
        rest = set()
        for _, (a, b) in split.pre_tokenize_str("".join(map(chr, points))):
            rest.update(points[a:b])
        found.update(set(points) - rest)
    return found


CATEGORIES = ("Cn Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co "
              "Cs").split()


def categories():
    """The general category of every code point as \\p{..} of Split knows it."""
    found = [0] * LAST
    for number, name in enumerate(CATEGORIES):
        if number and name != "Cs":
            for c in matching(rf"\p{{{name}}}"):
                found[c] = number
    found[0] = CATEGORIES.index("Cc")
    found[0xD800:0xE000] = [CATEGORIES.index("Cs")] * 0x800
    return found


def set_of(split):
    """The code points that a pre-tokenizer of one character cuts off."""
    found = set()
    for start in range(0, len(POINTS), 20000):
        points = POINTS[start:start + 20000]
        text = "".join("a" + chr(c) + "a" for c in points)
        for _, (a, b) in split.pre_tokenize_str(text):
            if b - a == 1 and a % 3 == 1:
                found.add(points[a // 3])
    return found


def ranges(points):
    """[first, last] of each run."""
    found = []
    for c in sorted(points):
        if found and found[-1][1] == c - 1:
            found[-1][1] = c
        else:
            found.append([c, c])
    return found


def special_sets(category):
    """Sets that are no union of categories, as the ranges in which they differ from one."""
    def union(prefixes):
        return {c for c in POINTS if CATEGORIES[category[c]].startswith(prefixes)}

    ascii_marks = {c for c in range(128) if chr(c).isprintable() and not chr(c).isalnum() and c != 32}
    return (("words", matching(r"\w") ^ union(("L", "M", "Nd", "Pc"))),
            ("digits", set_of(pre_tokenizers.Digits(individual_digits=True)) ^ union(("N",))),
            ("marks", set_of(pre_tokenizers.Punctuation("isolated")) ^ (union(("P",)) | ascii_marks)),
            ("han", matching(r"\p{Han}")))


def words():
    """The code points that stop a single_word added token from matching behind them."""
    token = dict(id=1, content="X", single_word=True, lstrip=False, rstrip=False,
                 normalized=False, special=True)
    model = dict(type="BPE", vocab={"a": 0}, merges=[])
    tokenizer = Tokenizer.from_str(json.dumps(dict(version="1.0", added_tokens=[token], model=model)))
    found = set()
    for start in range(0, len(POINTS), 20000):
        points = POINTS[start:start + 20000]
        encoding = tokenizer.encode("".join(chr(c) + "X\n" for c in points))
        free = {points[a // 3] for t, (a, _) in zip(encoding.ids, encoding.offsets) if t == 1}
        found.update(set(points) - free)
    found.add(ord("X"))
    return found


def combining():
    """Canonical combining classes as the library's NFD sorts them."""
    classes = {}
    for c in POINTS:
        ccc = unicodedata.combining(chr(c))
        if not ccc:
            continue
        probes = ["a" + p + chr(c) + p for p in "\u0345\u0334\u0301\u0327"]
        if all(NFD.normalize_str(p) == unicodedata.normalize("NFD", p) for p in probes):
            classes[c] = ccc
        else:
            assert all(NFD.normalize_str(p) == p for p in probes), hex(c)
    return classes


def pairs():
    """Canonical decompositions (c, first, second or 0) and which of them compose again."""
    split, joined = [], []
    for c in POINTS:
        parts = unicodedata.decomposition(chr(c))
        if not parts or parts[0] == "<" or NFD.normalize_str(chr(c)) == chr(c):
            continue
        assert NFD.normalize_str(chr(c)) == unicodedata.normalize("NFD", chr(c)), hex(c)
        parts = [int(x, 16) for x in parts.split()]
        first, second = parts[0], parts[1] if len(parts) > 1 else 0
        split.append((c, first, second))
        if second and NFC.normalize_str(chr(first) + chr(second)) == chr(c):
            joined.append((first, second, c))
    return split, sorted(joined)


def unstable(classes, joined):
    """Code points that NFC changes alone, or that may join or pass something before them."""
    seconds = {b for _, b, _ in joined} | set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))
    found = set()
    for c in POINTS:
        first = ord(NFD.normalize_str(chr(c))[0])
        if classes.get(first) or first in seconds or NFC.normalize_str(chr(c)) != chr(c):
            found.add(c)
    return found


def compat():
    """Compatibility decompositions that are not canonical, packed as first << 25 | (last - first) << 18 |
    place << 6 | size << 1 | moves: the points [place, place + size) of a pool, each one more for the next
    code point if `moves`."""
    nfkd = normalizers.NFKD()
    whole = {c: nfkd.normalize_str(chr(c)) for c in POINTS}
    whole = {c: text for c, text in whole.items() if text != NFD.normalize_str(chr(c))}
    runs, pool = [], ""
    for c, text in sorted(whole.items()):
        if runs and runs[-1][1] == c - 1:
            first, last, before, moves = runs[-1]
            shift = c - first
            moved = "".join(chr(ord(x) + shift) for x in before)
            if text == before and moves != 1 or text == moved and moves != 0:
                runs[-1] = [first, c, before, int(text != before)]
                continue
        runs.append([c, c, text, None])
    items = []
    for first, last, text, moves in runs:
        if text not in pool:
            pool += text
        place = pool.index(text)
        assert last - first < 128 and place < 4096 and len(text) < 32
        items.append(f"0x{first << 25 | (last - first) << 18 | place << 6 | len(text) << 1 | (moves or 0):X}")
    return items, [f"0x{ord(x):X}" for x in pool]


def lower():
    """Lower case as runs (first, last, step, shift), where it differs from that of Python, which
    template_tables.py writes."""
    lowercase = normalizers.Lowercase()
    runs = []
    for c in POINTS:
        text = lowercase.normalize_str(chr(c))
        if text == chr(c).lower():
            continue
        shift = ord(text) - c
        for run in runs[-2:]:
            if run[3] == shift and (c - run[1] == run[2] or run[0] == run[1] and c - run[1] <= 2):
                run[1:3] = [c, c - run[1]]
                break
        else:
            runs.append([c, c, 1, shift])
    return [f"{{0x{a:X}, 0x{b:X}, {step}, {shift}}}" for a, b, step, shift in runs]


def mark_sets(category):
    """Accents, and what continues a grapheme, as ranges in which they differ from marks."""
    marks = {c for c in POINTS if CATEGORIES[category[c]][0] == "M"}
    strip, found = normalizers.StripAccents(), set()
    for c in POINTS:
        if strip.normalize_str("a" + chr(c)) == "a":
            found.add(c)
    replace = normalizers.Precompiled(base64.b64decode(charsmap.build({"a": "Z"})))
    extends = {c for c in POINTS if replace.normalize_str("a" + chr(c)) == "Z"}
    return (("accents", found ^ marks), ("extends", extends ^ marks))


COUNTED = ("compat", "lower", "accents", "extends", "ranks", "splits", "joins", "categories", "words", "digits", "marks", "han")  # the others end by what they hold


def table(kind, name, items):
    lines, line = [f"\nconst {kind} hil_unicode_{name}[] = {{"], "   "
    for item in items:
        if len(line) + len(item) + 2 > 100:
            lines.append(line)
            line = "   "
        line += f" {item},"
    lines += [line, "};"]
    if name in COUNTED:
        lines += [f"const size_t hil_unicode_{name}_count =",
                  f"    sizeof hil_unicode_{name} / sizeof *hil_unicode_{name};"]
    return lines


def write(noun, tables):
    """One file, of tables (type, name, items)."""
    lines = [f"/* unicode_{noun}.c - written by tools/unicode_tables.py; do not edit. */",
             "/* clang-format off */", f"/* As tokenizers {tokenizers.__version__} behaves. */",
             '#include "text/unicode/unicode_tables.h"']
    for each in tables:
        lines += table(*each)
    with open(os.path.join(sys.argv[1], f"unicode_{noun}.c"), "w") as file:
        file.write("\n".join(lines) + "\n")


def main():
    flags = [0] * LAST
    classes = combining()
    split, joined = pairs()
    sets = [(LETTER, matching(r"\p{L}")), (NUMBER, matching(r"\p{N}")), (SPACE, matching(r"\s")),
            (WORD, words()), (UNSTABLE, unstable(classes, joined))]
    for bit, points in sets:
        for c in points:
            flags[c] |= bit
    runs, block = [], []
    for c in range(LAST):
        if c == 0 or flags[c] != flags[c - 1]:
            runs.append((c, flags[c]))
        if c % 256 == 0:
            block.append(len(runs) - 1)
    block.append(len(runs) - 1)
    ranks = []
    for c, ccc in sorted(classes.items()):
        if ranks and ranks[-1][1] == c - 1 and ranks[-1][2] == ccc:
            ranks[-1][1] = c
        else:
            ranks.append([c, c, ccc])

    write("classes", (
        ("uint32_t", "runs", [f"0x{c << 8 | f:X}" for c, f in runs]),
        ("uint16_t", "blocks", [str(b) for b in block])))
    category = categories()
    starts = [c for c in range(LAST) if c == 0 or category[c] != category[c - 1]]
    write("categories", [("uint32_t", "categories", [f"0x{c << 5 | category[c]:X}" for c in starts])] +
          [("hil_unicode_range", name, [f"{{0x{a:X}, 0x{b:X}}}" for a, b in ranges(points)])
           for name, points in special_sets(category)])
    items, pool = compat()
    write("compat", (("uint64_t", "compat", items),))
    write("compat_points", (("uint32_t", "compat_points", pool),))
    write("marks", [("hil_unicode_lower_run", "lower", lower())] +
          [("hil_unicode_range", name, [f"{{0x{a:X}, 0x{b:X}}}" for a, b in ranges(points)])
           for name, points in mark_sets(category)])
    write("splits", (
        ("hil_unicode_pair", "splits", [f"{{0x{c:X}, 0x{a:X}, 0x{b:X}}}" for c, a, b in split]),))
    write("joins", (
        ("hil_unicode_rank", "ranks", [f"{{0x{a:X}, 0x{b:X}, {k}}}" for a, b, k in ranks]),
        ("hil_unicode_pair", "joins", [f"{{0x{c:X}, 0x{a:X}, 0x{b:X}}}" for a, b, c in joined])))
    print(f"runs {len(runs)} ranks {len(ranks)} splits {len(split)} joins {len(joined)}",
          file=sys.stderr)


main()

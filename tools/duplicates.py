#!/usr/bin/env python3
"""duplicates.py - pairs of files that share six or more lines, boilerplate aside.

usage: python3 tools/duplicates.py [--most N] [FOLDER]

Prints the pairs, the longest first; with --most N, more than N pairs are a failure. Two lines are alike
when they are the same but for white space, or of the same shape: the same but for names, numbers and
strings. Comments, blank lines, includes and lone punctuation do not count. A run is six or more alike lines
in a row. A pair of files, or a file with itself, counts once, by its longest run.

Boilerplate is left out: a run of the same shape, but not the same lines, of which at most half weigh. A
line weighs when it has NAMES names or more, is no field of an initializer, and its shape stands in at most
SPREAD files. So rows of tables, lists of checks and idioms are no pairs by shape alone. Neither is a run
that stands in more than PLACES places.
"""
import collections
import os
import re
import subprocess
import sys

LINES = 6
NAMES = 3
SPREAD = 100
PLACES = 8
ENDINGS = ('.c', '.h', '.cu', '.sh', '.py', '.awk', '.cmake', 'CMakeLists.txt', 'Makefile')
KEYWORDS = frozenset('''break case const continue default do else enum extern for goto if inline return
    sizeof static struct switch typedef union void while def class import in local then fi done esac
    elif'''.split())
FOLDED = {'name': 'N', 'number': '0', 'string': '""'}
TOKEN = re.compile(r'''(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|(?P<number>\d[\w.]*)|'''
                   r'''(?P<name>[A-Za-z_]\w*)|[-+*/%&|^!<>=]=|->|&&|\|\||<<|>>|\+\+|--|\S''')
COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)

Line = collections.namedtuple('Line', 'number text shape names')


def files(folder):
    listed = subprocess.run(['git', '-C', folder, 'ls-files', '-co', '--exclude-standard'],
                            capture_output=True, text=True)
    if listed.returncode == 0:
        names = listed.stdout.split('\n')
    else:
        names = [os.path.relpath(os.path.join(at, name), folder)
                 for at, _, here in os.walk(folder) for name in here]
    return sorted(name for name in names if name.endswith(ENDINGS) and '/golden/' not in name
                  and os.path.isfile(os.path.join(folder, name)))


def shape_of(text):
    """The line's tokens, with names, numbers and strings folded."""
    return tuple(token.group() if token.lastgroup is None or token.group() in KEYWORDS
                 else FOLDED[token.lastgroup] for token in TOKEN.finditer(text))


def blank(comment):
    text = comment.group()
    return text if text.startswith('"') else re.sub(r'[^\n]', ' ', text)


def lines_of(path):
    """Those that count."""
    with open(path, encoding='utf-8', errors='replace') as file:
        text = file.read()
    if path.endswith(('.c', '.h', '.cu')):
        text = COMMENT.sub(blank, text)
    else:
        text = re.sub(r'(?m)(^|\s)#.*$', '', text)
    lines = []
    for number, line in enumerate(text.split('\n'), 1):
        line = ' '.join(line.split())
        if re.search(r'\w', line) and not re.match(r'#\s*include|import |from ', line):
            shape = shape_of(line)
            lines.append(Line(number, line, shape, shape.count('N')))
    return lines


def runs_of(sources, look):
    """{(file, file): [(start, start, length)]}: all runs of lines of which `look` sees the same."""
    places = collections.defaultdict(list)
    for name, lines in sources.items():
        for at in range(len(lines) - LINES + 1):
            places[tuple(look(line) for line in lines[at:at + LINES])].append((name, at))
    starts = collections.defaultdict(set)
    for where in places.values():
        if len(where) <= PLACES:
            for i, (one, a) in enumerate(where):
                for other, b in where[i + 1:]:
                    if one != other or b - a >= LINES:  # a table is no copy of itself
                        starts[one, other].add((a, b))
    runs = collections.defaultdict(list)
    for pair, found in starts.items():
        for a, b in found:
            if (a - 1, b - 1) not in found:
                length = LINES
                while (a + length - LINES + 1, b + length - LINES + 1) in found:
                    length += 1
                runs[pair].append((a, b, length))
    return runs


def pairs_of(folder):
    """[(length, text)], the longest first."""
    sources = {name: lines_of(os.path.join(folder, name)) for name in files(folder)}
    spread = collections.Counter(shape for lines in sources.values()
                                 for shape in {line.shape for line in lines})

    def weighs(line):
        return line.names >= NAMES and line.shape[0] != '.' and spread[line.shape] <= SPREAD

    found = runs_of(sources, lambda line: line.text)
    for pair, runs in runs_of(sources, lambda line: line.shape).items():
        lines = sources[pair[0]]
        found[pair] += [(a, b, length) for a, b, length in runs
                        if 2 * sum(map(weighs, lines[a:a + length])) > length]
    pairs = []
    for pair, runs in found.items():
        if runs:
            *starts, length = max(runs, key=lambda run: run[2])
            sides = (f'{name}:{sources[name][at].number}-{sources[name][at + length - 1].number}'
                     for name, at in zip(pair, starts))
            pairs.append((length, ' ~ '.join(sides) + f': {length} lines'))
    return sorted(pairs, key=lambda pair: (-pair[0], pair[1]))


def main(words):
    most = None
    if words[:1] == ['--most'] and len(words) > 1:
        most, words = int(words[1]), words[2:]
    pairs = pairs_of(words[0] if words else '.')
    for _, text in pairs:
        print(text)
    print(f'{len(pairs)} pairs of files share {LINES} lines or more')
    return most is not None and len(pairs) > most


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))

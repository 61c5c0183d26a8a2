#!/usr/bin/env python3
"""Translates CUDA C to C++ for the emulator: translate.py FROM TO FILE...

Copies files of the folder FROM to the folder TO with what a C++ compiler does not know replaced:
launches (kernel<<<grid, block, shared, stream>>>(arguments)), dynamic shared memory, and PTX, of
which each statement becomes a call of a function named after the instruction.
"""
import os
import re
import sys

OPEN, CLOSE = "([{<", ")]}>"


def skip_space_back(text, at):
    while at > 0 and text[at - 1].isspace():
        at -= 1
    return at


def match_forward(text, at):
    """The index after the bracket that closes the one at `at`; knows strings."""
    depth, opening = 0, text[at]
    closing = CLOSE[OPEN.index(opening)]
    while True:
        c = text[at]
        if c == '"':
            at = text.index('"', at + 1)
        elif c == opening:
            depth += 1
        elif c == closing:
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1


def kernel_start(text, at):
    """Where the name of the kernel begins that ends before `at`: name or name<...>."""
    at = skip_space_back(text, at)
    if text[at - 1] == ">":
        depth = 0
        while True:
            at -= 1
            depth += (text[at] == ">") - (text[at] == "<")
            if depth == 0:
                break
    while re.match(r"[A-Za-z0-9_:]", text[at - 1]):
        at -= 1
    return at


def translate_launches(text):
    while True:
        at = text.find("<<<")
        if at < 0:
            return text
        begin = kernel_start(text, at)
        kernel = text[begin:at].strip()
        end = text.index(">>>", at)
        config = text[at + 3:end]
        text = f"{text[:begin]}emulator::launch({{{config}}}, {kernel}){text[end + 3:]}"


def split_operands(text):
    """The expressions of "=r"(x), "r"(y)."""
    found, at = [], 0
    while True:
        quote = text.find('"', at)
        if quote < 0:
            return found
        paren = text.index("(", text.index('"', quote + 1))
        at = match_forward(text, paren)
        found.append(text[paren + 1:at - 1])


def translate_ptx(text):
    while True:
        statement = re.search(r"\basm\b(\s+volatile)?\s*\(", text)
        if not statement:
            return text
        stop = match_forward(text, statement.end() - 1)
        body = text[statement.end():stop - 1]
        code = re.match(r'\s*("(?:[^"\\]|\\.)*"\s*)+', body)
        words = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', code.group(0)))
        name = re.sub(r"[^A-Za-z0-9]+", "_", words.split()[0].rstrip(";"))
        operands, depth, parts, last = body[code.end():], 0, [], 0
        for i, c in enumerate(operands):
            depth += (c in "([") - (c in ")]")
            if c == ":" and depth == 0:
                parts.append(operands[last:i])
                last = i + 1
        parts.append(operands[last:])
        values = [v for part in parts[1:3] for v in split_operands(part)]
        text = text[:statement.start()] + f"emulator::ptx_{name}({', '.join(values)})" + text[stop:]


def translate(text):
    text = re.sub(r"extern __shared__ (?:__align__\([^)]*\) )?(\w[\w ]*?) ?(\w+)\[\];",
                  r"\1 *\2 = (\1 *)emulator::dynamic_shared();", text)
    text = re.sub(r"(?<![.\w>])(threadIdx|blockIdx|blockDim|gridDim)\b", r"emulator::now->\1", text)
    return translate_ptx(translate_launches(text))


def main():
    source, target = sys.argv[1:3]
    for name in sys.argv[3:]:
        with open(name) as file:
            text = translate(file.read())
        to = os.path.join(target, os.path.relpath(name, source))
        os.makedirs(os.path.dirname(to), exist_ok=True)
        to = re.sub(r"\.cu$", ".cpp", to)
        text = f'#line 1 "{os.path.abspath(name)}"\n' + text
        if os.path.exists(to) and open(to).read() == text:
            continue
        with open(to, "w") as file:
            file.write(text)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes vectors for build/test_tokenizer_real from lines of real text.

tools/tokenizer_vectors.py ../shared/data/tokenizers ../shared/data/corpora 10000 > vectors.jsonl
build/test_tokenizer_real vectors.jsonl
"""
import json
import pathlib
import random
import sys

from tokenizers import Tokenizer


def odd_texts(rng, lines, count):
    """Lines cut and glued at random places with odd characters between."""
    glue = [" ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u3000", "\u0301", "\u1100\u1161\u11a8", "'s", "'LL", "'\u017f",
            "\u2581", "<s>", "</s>", "<unk>", "<|endoftext|>", "<|im_start|>", "<|im_", "<tool_call>", "\U0001f469\u200d\U0001f4bb",
            "123456", "\u0661\u0662", "\ufffd", "\x00", "\u0344", "\uac00\u11a8", "e\u0323\u0302", "\u212b", "\ufb1d"]
    for _ in range(count):
        parts = []
        for _ in range(rng.randrange(1, 9)):
            line = rng.choice(lines)
            a, b = sorted(rng.randrange(len(line) + 1) for _ in range(2))
            parts.append(rng.choice([line[a:b], rng.choice(glue) * rng.randrange(1, 4),
                                     chr(rng.choice([rng.randrange(1, 0xD800),
                                                     rng.randrange(0xE000, 0x110000)]))]))
        yield "".join(parts)


def main():
    folder, corpora, count = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3])
    names = sorted(p.parent.name for p in folder.glob("*/tokenizer.json"))
    tokenizers = {n: Tokenizer.from_file(str(folder / n / "tokenizer.json")) for n in names}
    lines = []
    for path in sorted(corpora.iterdir()):
        lines += path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    rng = random.Random(1)
    texts = rng.sample(lines, min(count, len(lines))) + list(odd_texts(rng, lines, count))
    for text in texts:
        ids, decoded = {}, {}
        for name, tokenizer in tokenizers.items():
            ids[name] = tokenizer.encode(text, add_special_tokens=False).ids
            back = tokenizer.decode(ids[name], skip_special_tokens=False)
            if back != text:
                decoded[name] = back
        print(json.dumps({"text": text, "ids": ids, "decoded": decoded}, ensure_ascii=False))


main()

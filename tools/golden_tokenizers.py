#!/usr/bin/env python3
"""Writes tests/golden/tokenizers: a small tokenizer of every family and what Hugging Face tokenizers
makes of hard texts with it; pretokenizers.jsonl, the words of pre-tokenizers alone; and normalizers.jsonl.
Usage: tools/golden_tokenizers.py tests/golden/tokenizers
With a number of random texts as second argument it writes as many cases of each family instead; check
them with build/test_tokenizer_golden FOLDER.
"""
import json
import pathlib
import random
import sys
import unicodedata

import charsmap
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
SUFFIX = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
CASED = (r"[^\r\n\p{L}\p{N}]?UPPER*LOWER+SUFFIX|[^\r\n\p{L}\p{N}]?UPPER+LOWER*SUFFIX|NUMBER"
         r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+").replace("UPPER", UPPER).replace("LOWER", LOWER)
O200K = CASED.replace("SUFFIX", SUFFIX).replace("NUMBER", r"\p{N}{1,3}")
TEKKEN = CASED.replace("SUFFIX", "").replace("NUMBER", r"\p{N}")
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]"
          r"|\s+(?!\S)|\s")
QWEN35 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK2 = [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"]
DEEPSEEK3 = [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
             r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"""
             r"|\s*[\r\n]+|\s+(?!\S)|\s+"]
CODER = [r"[\r\n]", "\\s?[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u0370-\u0373\u0391-\u03a1\u03a3-\u03f5\u0400-\u052f\uff21-\uff3a\U00010400-\U0001044f]+",
         "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+", r"\s+$",
         "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"]
BLOOM = " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"
KIMI = (r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
        + SUFFIX + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")

PROSE = """The harbour was quiet when the lamps went out, and nobody could say who had seen the ship leave.
"We'll wait," she said, "until they're back; I've counted 17 boats, you're sure there were 18?"
He'd written 3,141 letters in 2024, and it's said that none of them arrived. That is not the whole story.
The mill turns when the river rises, the river rises when the snow melts, and the snow melts in April.
Der Müller mahlt, wenn der Fluß steigt; größere Räder drehen sich langsamer als kleine.
Le garçon a mangé une crème brûlée à l'hôtel, où l'été dure jusqu'à Noël.
Река поднимается весной, и мельница снова работает до поздней осени.
Το ποτάμι ανεβαίνει την άνοιξη και ο μύλος γυρίζει.
川の水が増えると水車が回り、粉がひける。古い水車小屋には誰もいない。
河水上涨的时候，磨坊就开始工作。天空很蓝，孩子们在岸边玩。
강물이 불어나면 물레방아가 돌아갑니다. 아이들은 강가에서 놉니다.
النهر يرتفع في الربيع والطاحونة تدور من جديد.
नदी वसंत में बढ़ती है और चक्की फिर से चलती है।
def mill(river, level=0):
    if level > 10: return [river[i] for i in range(level) if i % 2 == 0]
    return {"name": "mill", "wheels": 4, "open": True}
1234 1234 12345 12345 2024 2024 2024 1718 1718 234 234 345 345 123 123 45 45 12 12
for (int i = 0; i < count; ++i) { total += rows[i].size; } // sum of sizes
\tstatic const char *const names[] = {"wheel", "river", "snow"};
"""

TEXTS = [
    "", " ", "  ", "   ", "\n", "\n\n", "\r\n", " \n ", "\t\t", "a", " a", "a ", "  a  b   c    ",
    "The mill turns.", " The mill turns. ", "We'll say they're sure it's I've you'd I'm not can't",
    "WE'LL SAY THEY'RE SURE IT'S I'VE YOU'D I'M", "x'\u017fy 'S 'sS ''s 'l 'll 'r 're 'v ' '",
    "1 12 123 1234 12345 3,141.59 0x1F \u0661\u0662\u0663\u0664 \u00bd \u2167 \u00b2",
    "river\nriver\r\nriver\rriver\n\n\nriver \n\t river", "snow  \n  \n melts\n   ", "!!! ??? ... ;;; ([{}]) <> #$%&*+-/=@\\^_`|~",
    "end.\n\nNext: \"quote\" 'quote' \u201cquote\u201d\u2026\u2014\u2013", "a\u00a0b\u2003c\u3000d\u2028e\u0085f\u180eg\u200bh\ufeffi",
    "Müller gr\u00f6\u00dfer Fluß", "Mu\u0308ller gro\u0308\u00dfer e\u0301e\u0323\u0302 \u1e69 s\u0307\u0323 \u0344 \u212b\u2126\u1fef",
    "\u1112\u1161\u11ab\u1100\u116e\u11a8 \ud55c\uad6d \uac00\u11a8 \u11a8 \u1161", "\u0301 \u0301x \u0928\u093c \u09c7\u09be \u0b47\u0b3e \u3046\u3099",
    "a\u05b0\u0094\u05bc\u0327\u0301\u0300\u0345\u0334 q\u0323\u0307 q\u0307\u0323 \ufb1d \u2adc",
    "Река поднимается весной.", "το ποτάμι ΠΟΤΑΜΙ ς", "川の水が増えると水車が回り", "河水上涨的时候，磨坊", "강물이 불어나면",
    "النهر يرتفع", "नदी वसंत में बढ़ती है", "\u0e41\u0e21\u0e48\u0e19\u0e49\u0e33\u0e02\u0e36\u0e49\u0e19", "\U0001f600\U0001f469\u200d\U0001f4bb\U0001f1e9\U0001f1ea\u2764\ufe0f\U0001f44d\U0001f3fd",
    "\U00010400\U00010428 \U0001d400\U0001d7d8 \U00020000 \U000e0041 \U0010ffff", "def mill(river, level=0):\n    return [river[i] for i in range(level)]\n",
    "\tif (x) {\n\t\treturn  y;\n\t}\n", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "                                                                                  x", "turnturnturnturnturnturnturnturnturnturnturnturnturnturnturnturn",
    "\u2581\u2581the\u2581mill \u2581 x", "<s>", "<s>the</s>", "a<s> b </s>  c", "<s><s>", "<|end|>", "the<|end|>mill<|end|>", "<|end|", "<|en<|end|>d|>",
    "<|endless|>", "a <|endless|> b", " <mask> ", "snow  <mask>  snow", "<mask>\n\n<mask> x", "  <left>  snow", "snow  <right>  snow", "x<right> <left>y",
    "WORD", "aWORD", "WORDa", " WORD ", "-WORD-", "WORDWORD", "_WORD", "\u00e9WORD", "WORD\u0301", "WORD WORD", "soft", "so ft", "Soft soft", "so\u0308ft so\u0308 f",
    "<mask>\x85WORD</s>soft", "x<right>\u2028\u3000WORD\u2028<mask>",
    "<0x41>", "<0x0A><unk>", "<unk>", "\x00", "a\x00b", "\x01\x1f\x7f\x80\xad\xff",
]
BYTES = [b"\xff", b"a\xffb", b"\xc3", b"\xc3(", b"\xe2\x82", b"\xe2\x82x", b"\xf0\x9f\x98", b"\xf0\x9f\x98\x80\x80", b"\xed\xa0\x80", b"\xc0\x80 \xf5\x80\x80\x80",
         b"\xf4\x90\x80\x80", b"the\xe2\x96 mill\xe2\x96\x81", b"\xe0\x80\x80", b"\xf0\x80\x80\x80", b"\xef\xbf\xbd\xfe"]


def token(content, **flags):
    return dict(dict(content=content, single_word=False, lstrip=False, rstrip=False, normalized=False,
                     special=True), **flags)


FLAGGED = [token("<|end|>"), token("<|endless|>"), token("<mask>", lstrip=True, rstrip=True), token("<left>", lstrip=True, special=False),
           token("<right>", rstrip=True), token("WORD", single_word=True, special=False), token("soft", normalized=True, special=False),
           token("so\u0308", normalized=True, special=False)]


EMPTY = dict(version="1.0", added_tokens=[], model=dict(type="BPE", vocab={}, merges=[]))


def train_bytes(pre_tokenizer, size):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    trainer = trainers.BpeTrainer(vocab_size=size, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(PROSE.splitlines(keepends=True), trainer)
    return json.loads(tokenizer.to_str())


def train_pieces(size):
    """A SentencePiece-style model: control and byte pieces first, then characters and merges."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    control = ["<unk>", "<s>", "</s>"]
    trainer = trainers.BpeTrainer(vocab_size=size, show_progress=False,
                                  special_tokens=control + [f"<0x{b:02X}>" for b in range(256)])
    latin = [line for line in PROSE.splitlines() if line.isascii() or "\u00fc" in line]
    tokenizer.train_from_iterator(latin, trainer)
    return json.loads(tokenizer.to_str())["model"]


def score_pieces(pieces):
    """A Unigram model of these pieces. The trainer of the library gives others each time, so scores are drawn."""
    rng = random.Random(3)
    control = ["<pad>", "</s>", "<unk>", "<s>"]
    known = [p for p in pieces if not (p.startswith("<") and p.endswith(">") and len(p) > 2)]
    vocab = [[p, 0.0] for p in control] + [[p, -1.5 - 9 * rng.random() / len(p)] for p in known]
    return {"type": "Unigram", "unk_id": 2, "vocab": vocab, "byte_fallback": False}


def unigram_families(pieces, space, chain):
    """T5 and its relatives, which split at spaces; Gemma-like ones with byte fallback, which do not."""
    model = score_pieces(pieces)
    meta = {"type": "Metaspace", "replacement": space, "prepend_scheme": "always", "split": True}
    end = template(["$A", "</s>"], {"</s>": 1})
    control = [token("<pad>"), token("</s>"), token("<unk>"), token("<s>")]
    t5 = dict(version="1.0", model=model, normalizer=None, pre_tokenizer=meta, post_processor=end, decoder=meta, added_tokens=control + FLAGGED)
    yield "unigram-t5", t5
    vocab = model["vocab"][:4] + [[f"<0x{b:02X}>", 0.0] for b in range(256)] + model["vocab"][4:]
    fallback = dict(model, vocab=vocab, byte_fallback=True)
    yield "unigram-bytes", dict(t5, model=fallback, decoder=chain, pre_tokenizer=None, post_processor=template(["<s>", "$A"], {"<s>": 3}),
                                normalizer={"type": "Sequence", "normalizers": [
                                    {"type": "Prepend", "prepend": space}, {"type": "Replace", "pattern": {"String": " "}, "content": space}]})
    yield "unigram-some-bytes", dict(t5, model=dict(fallback, vocab=vocab[:200] + vocab[260:]), decoder=chain,
                                     pre_tokenizer=sequence({"type": "WhitespaceSplit"}, meta))


def frame(*names):
    def special(name):
        return {"SpecialToken": {"id": name, "type_id": 0}}
    text = {"Sequence": {"id": "A", "type_id": 0}}
    return [special(n) if n != "$A" else text for n in names]


def template(single, ids):
    return {"type": "TemplateProcessing", "single": frame(*single), "pair": [],
            "special_tokens": {n: {"id": n, "ids": [i], "tokens": [n]} for n, i in ids.items()}}


def split(pattern, behavior="Isolated", invert=False):
    kind = "String" if len(pattern) == 1 else "Regex"
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def sequence(*steps):
    return {"type": "Sequence", "pretokenizers": list(steps)}


PLAIN = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
WITH_REGEX = dict(PLAIN, use_regex=True)
DIGITS = {"type": "Digits", "individual_digits": True}
RUNS = dict(DIGITS, individual_digits=False)


def new_pretokenizers():
    """Pre-tokenizers of current decoders, each with byte-level BPE."""
    yield "o200k", sequence(split(O200K), PLAIN)
    yield "tekken", sequence(split(TEKKEN), PLAIN)
    yield "deepseek2", sequence(*map(split, DEEPSEEK2), DIGITS, PLAIN)
    yield "deepseek3", sequence(*map(split, DEEPSEEK3), PLAIN)
    yield "deepseek-coder", sequence(*map(split, CODER), DIGITS, PLAIN)
    yield "cohere", sequence(DIGITS, WITH_REGEX)
    yield "falcon", sequence({"type": "Punctuation", "behavior": "Contiguous"}, WITH_REGEX, RUNS, split("[0-9][0-9][0-9]"))
    yield "olmo2", sequence(split(LLAMA3, "Removed", True), PLAIN)
    yield "qwen3_5", sequence(split(QWEN35), PLAIN)
    yield "bloom", sequence(split(BLOOM), PLAIN)


def odd_pretokenizers():
    """Every behavior, and expressions that no family has."""
    yield from (pre for _, pre in new_pretokenizers())
    yield from map(split, (CL100K, KIMI))
    for behavior in ("Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext"):
        for invert in (False, True):
            yield split(r"\s", behavior, invert)
            yield sequence(split("e", behavior, invert), split(r"\p{Ll}{2}|\d+", behavior, not invert))
        yield {"type": "Punctuation", "behavior": behavior}
    yield from map(split, (
        r"a+?b|a", r"a{2,3}?", r"(?:ab|a)(?:c|bcd)", r"\p{N}{1,3}+", r"x{,2}y|x", r"[^\p{L}\s]+(?=\s)", r"\s+$", r"\s+\z", r"\w+|[^\w\s]+", r"[\w&&[^\d]]",
        r".+", r"[\x{1F600}\u4e00-\u9fff]+", r"[]a^-]+", r"(?i:k+|[m-t])", r"\P{L}+", r"\p{^L}+?(?!\P{L})", r"[a-m&&[^e]]+", r"(th|the|t)+",
        r"(?:\p{L}(?!n))+", r"\p{L}{2}{2}|\s++ ?", r"\r?\n|\t", r"e?+e|\p{Lu}++"))
    yield RUNS
    yield {"type": "WhitespaceSplit"}
    yield {"type": "CharDelimiterSplit", "delimiter": "e"}
    for scheme in ("always", "first", "never"):
        yield sequence({"type": "WhitespaceSplit"}, {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": True})
    yield sequence(DIGITS, dict(WITH_REGEX, add_prefix_space=True))
    yield sequence(PLAIN, split(r"\u0120+|\p{L}", "MergedWithNext"))


def families():
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    plain = dict(byte_level, use_regex=False)

    gpt2 = train_bytes(pre_tokenizers.ByteLevel(add_prefix_space=False), 420)
    gpt2["model"]["merges"] = [" ".join(pair) for pair in gpt2["model"]["merges"]]
    gpt2.update(decoder=byte_level, post_processor=byte_level, added_tokens=FLAGGED[:1])
    yield "gpt2", gpt2

    prefix = json.loads(json.dumps(gpt2))
    prefix["pre_tokenizer"]["add_prefix_space"] = True
    prefix["added_tokens"] = FLAGGED
    yield "gpt2-prefix", prefix

    pre = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
                                   pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    llama3 = train_bytes(pre, 420)
    model = llama3["model"]
    model["ignore_merges"] = True
    whole = {"\u0120mill", "\u0120river", "the", "snow", "\u0120the", "123"}
    assert whole & set(model["vocab"])
    model["merges"] = [pair for pair in model["merges"] if "".join(pair) not in whole]
    size = len(model["vocab"])
    llama3.update(decoder=byte_level, added_tokens=[token("<|begin|>"), token("<|end|>")],
                  pre_tokenizer={"type": "Sequence", "pretokenizers": [split(LLAMA3), plain]},
                  post_processor={"type": "Sequence", "processors": [
                      byte_level, template(["<|begin|>", "$A"], {"<|begin|>": size})]})
    yield "llama3", llama3

    pre = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN2), "isolated"),
                                   pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    qwen2 = train_bytes(pre, 420)
    qwen2.update(normalizer={"type": "NFC"}, decoder=plain, post_processor=plain, added_tokens=FLAGGED,
                 pre_tokenizer={"type": "Sequence", "pretokenizers": [split(QWEN2), plain]})
    yield "qwen2", qwen2

    pre = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    digits = train_bytes(pre, 400)
    digits.update(decoder=byte_level, added_tokens=FLAGGED[1:3])
    yield "digits", digits

    pieces = train_pieces(480)
    pieces.update(byte_fallback=True, fuse_unk=True, ignore_merges=False)
    control = [token("<unk>"), token("<s>"), token("</s>")]
    space = "\u2581"
    chain = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": space}, "content": " "}, {"type": "ByteFallback"},
        {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    llama2 = dict(version="1.0", added_tokens=control + FLAGGED[:4] + FLAGGED[6:], model=pieces, decoder=chain, pre_tokenizer=None,
                  normalizer={"type": "Sequence", "normalizers": [
                      {"type": "Prepend", "prepend": space},
                      {"type": "Replace", "pattern": {"String": " "}, "content": space}]},
                  post_processor=template(["<s>", "$A", "</s>"], {"<s>": 1, "</s>": 2}))
    yield "llama2", llama2

    first = dict(llama2, normalizer=None, pre_tokenizer={
        "type": "Metaspace", "replacement": space, "prepend_scheme": "first", "split": False})
    yield "llama2-metaspace", first

    known = [p for p in pieces["vocab"] if not (p.startswith("<0x") and len(p) == 6)]
    small = dict(pieces, vocab={p: i for i, p in enumerate(known)}, byte_fallback=False, fuse_unk=False)
    meta = {"type": "Metaspace", "replacement": space, "prepend_scheme": "always", "split": True}
    yield "metaspace-split", dict(first, model=small, pre_tokenizer=meta, decoder=meta,
                                  added_tokens=control + FLAGGED)

    gemma = dict(pieces, fuse_unk=True)
    yield "gemma", dict(llama2, model=gemma, normalizer={"type": "Replace", "pattern": {"String": " "}, "content": space},
                        pre_tokenizer=split(" ", "MergedWithPrevious"), post_processor=template(["<s>", "$A"], {"<s>": 1}),
                        decoder=dict(chain, decoders=chain["decoders"][:3]))

    yield from unigram_families(pieces["vocab"], space, chain)

    for name, pre in new_pretokenizers():
        trained = train_bytes(Tokenizer.from_str(json.dumps(dict(EMPTY, pre_tokenizer=pre))).pre_tokenizer, 400)
        trained.update(pre_tokenizer=pre, decoder=byte_level, added_tokens=FLAGGED, normalizer={"type": "NFC"} if name == "cohere" else None)
        yield name, trained

    fused = dict(small, fuse_unk=True)
    yield "plain", dict(version="1.0", added_tokens=control[:1] + FLAGGED[4:6], model=fused, normalizer=None, pre_tokenizer=None,
                        post_processor=None, decoder=None)


def random_texts(count):
    """Pieces of the texts above and single characters, glued at random."""
    rng = random.Random(11)
    for _ in range(count):
        parts = []
        for _ in range(rng.randrange(1, 12)):
            text = rng.choice(TEXTS + PROSE.splitlines())
            a, b = sorted(rng.randrange(len(text) + 1) for _ in range(2))
            point = rng.choice([rng.randrange(1, 0x300), rng.randrange(0x300, 0xD800), rng.randrange(0xE000, 0x20000)])
            parts.append(rng.choice([text[a:b], chr(point), rng.choice(" \n\t'.-aA19\u0301\u4e00") * rng.randrange(1, 4)]))
        yield "".join(parts).encode()


def cases(tokenizer, count):
    for raw in list(random_texts(count)) or [t.encode() for t in TEXTS] + BYTES:
        text = raw.decode("utf-8", errors="replace")
        case = {"text": text} if text.encode() == raw else {"hex": raw.hex()}
        case["ids"] = tokenizer.encode(text, add_special_tokens=False).ids
        framed = tokenizer.encode(text).ids
        if framed != case["ids"]:
            case["special"] = framed
        yield case, framed
    rng = random.Random(7)
    size = tokenizer.get_vocab_size()
    for _ in range(24):
        count = rng.randrange(1, 30)
        top = rng.choice([size + 3, 260])
        case = {"decode": [rng.randrange(top) for _ in range(count)]}
        yield case, case["decode"]


def odd_normalizers():
    """Every kind, alone and as T5 and ALBERT combine them."""
    replacements = {chr(c): unicodedata.normalize("NFKC", chr(c)) for c in [*range(0xA0, 0x180), *range(0x2000, 0x2100), *range(0xFF01, 0xFF60), 0x212B, 0x1100, 0xAC00]}
    replacements = {key: value for key, value in replacements.items() if key != value}
    replacements.update({"e\u0301": "\u00e9", "u\u0308": "\u00fc", "\r\n": " ", "\t": " ", "\u200b": "", "\u00ad": "", "o": "0", "\u0600": "#", "\uac00": "GA",
                         "\u0e33": "am", "\U0001f600": ":)", "\u1112": "h"})
    precompiled = {"type": "Precompiled", "precompiled_charsmap": charsmap.build(replacements)}
    runs = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "\u2581"}
    single = [{"type": kind} for kind in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents")]
    single += [{"type": "Strip", "strip_left": left, "strip_right": right} for left in (False, True) for right in (False, True)]
    single += [precompiled, runs, {"type": "Replace", "pattern": {"Regex": r"\s+$|[aeiou]+"}, "content": "<>"}]
    yield from single
    yield {"type": "Sequence", "normalizers": [precompiled, {"type": "Strip", "strip_left": False, "strip_right": True}, runs]}
    yield {"type": "Sequence", "normalizers": [{"type": "Replace", "pattern": {"String": "''"}, "content": '"'}, single[3], single[5], single[4],
                                               {"type": "Sequence", "normalizers": [precompiled, {"type": "Prepend", "prepend": "\u2581"}]}]}


def write_normalizers(path, count):
    points = [*range(0x80, 0x250), *range(0x1D00, 0x1DC0), *range(0x2070, 0x2190), *range(0x3300, 0x3358), *range(0xFB00, 0xFB50), *range(0xFF00, 0xFFF0),
              *range(0x1D400, 0x1D430), 0xFDFA, 0x1F130, 0x0130, 0x03A3, 0x10400, 0x1E900]
    texts = [t.replace("\0", "") for t in TEXTS[::2]] + ["".join(map(chr, points)), "\u0301".join(map(chr, points[::9])), "  \u3000 x \u00a0 "]
    texts += ["e\u0301 o\u0301\u0302 \u0600o \r\no\u200d\u00a9 \uac00\u0301 \u1112\u1161\u11ab\u0301 \u1112\u0301 a\u0e33 \uff76\uff9e \n\u0301 \U0001f600\u0301"]
    if count:
        texts = [raw.decode().replace("\0", "") for raw in random_texts(count)]
    with open(path, "w") as lines:
        for normalizer in odd_normalizers():
            tokenizer = Tokenizer.from_str(json.dumps(dict(EMPTY, normalizer=normalizer)))
            pairs = [[text, tokenizer.normalizer.normalize_str(text)] for text in texts]
            print(json.dumps({"normalizer": normalizer, "texts": pairs}, ensure_ascii=False, separators=(",", ":")), file=lines)


def write_pretokenizers(path, count):
    texts = [t for t in TEXTS if 4 < len(t) < 60][::4] + [" ".join(TEXTS[8:24]), "The  mill\u2028turns\r\n\n 12345 e.e"]
    if count:
        texts = [raw.decode().replace("\0", "") for raw in random_texts(count)]
    with open(path, "w") as lines:
        for pre in odd_pretokenizers():
            tokenizer = Tokenizer.from_str(json.dumps(dict(EMPTY, pre_tokenizer=pre)))
            words = [[text, [word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text)]] for text in texts]
            print(json.dumps({"pre_tokenizer": pre, "texts": words}, ensure_ascii=False, separators=(",", ":")), file=lines)


def main():
    out = pathlib.Path(sys.argv[1])
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    out.mkdir(parents=True, exist_ok=True)
    write_pretokenizers(out / "pretokenizers.jsonl", count)
    write_normalizers(out / "normalizers.jsonl", count)
    for name, description in families():
        description = dict(description)
        for key in ("truncation", "padding", "normalizer", "post_processor"):
            description.setdefault(key, None)
        vocab = description["model"]["vocab"]
        if isinstance(vocab, list):
            vocab = {piece: number for number, (piece, _) in enumerate(vocab)}
        fresh = len(vocab)
        added = []
        for entry in description["added_tokens"]:
            number = vocab.get(entry["content"])
            if number is None:
                number, fresh = fresh, fresh + 1
            added.append(dict(id=number, **entry))
        description["added_tokens"] = added
        folder = out / name
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(description, ensure_ascii=False, separators=(",", ":"))
        (folder / "tokenizer.json").write_text(text + "\n")
        tokenizer = Tokenizer.from_str(text)
        with open(folder / "cases.jsonl", "w") as lines:
            for case, ids in cases(tokenizer, count):
                case["all"] = tokenizer.decode(ids, skip_special_tokens=False)
                skipped = tokenizer.decode(ids, skip_special_tokens=True)
                if skipped != case["all"]:
                    case["skip"] = skipped
                print(json.dumps(case, ensure_ascii=False, separators=(",", ":")), file=lines)


main()

#!/usr/bin/env python3
"""Writes what `transformers` makes of chat templates, for tests/text/test_template_golden.c.

    tools/golden_templates.py tests/golden             templates.jsonl: the templates below
    tools/golden_templates.py --random N SEED FILE     N templates that template_grammar.py makes up

One JSON object per line: variables, for all lines behind it, or a template with either text and spans
(what {% generation %} blocks wrote, in bytes) or error. The clock stands at NOW.
"""
import datetime
import json
import os
import re
import sys

import transformers.utils.chat_template_utils as chat

from template_cases import CASES
from template_grammar import make_case

NOW = 1700000000
# What Python prints by its place in memory, integers of more than 64 bits, and half surrogates.
OUTSIDE = re.compile("<generator|<function|<bound|<built-in|<Macro|<class|object at|<Loop|<jinja2|<filter"
                     "|<map|<reversed|<dict_|iterator|TemplateNamespace|<Namespace|Cycler|Joiner"
                     "|Undefined|\\d{19}|[\ud800-\udfff]")


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(NOW, datetime.timezone.utc)


def render(template, variables):
    """The text and its spans, in bytes."""
    compiled = chat._cached_compile_jinja_template(template)
    pieces, spans = [], []
    with compiled.environment.activate_tracker(pieces, spans):
        for piece in compiled.generate(**variables):
            pieces.append(piece)
    text = "".join(pieces)
    return text, [[len(text[:a].encode()), len(text[:b].encode())] for a, b in spans]


def record(template, variables):
    case = {"template": template}
    try:
        case["text"], case["spans"] = render(template, variables)
    except RecursionError:
        return None
    except Exception as error:  # whatever a template raises is its result
        case["error"] = str(error)
    return case


def write(path, cases):
    counts = {"text": 0, "error": 0}
    before = None
    with open(path, "w") as out:
        for template, variables in cases:
            case = record(template, json.loads(json.dumps(variables)))
            if case is None or OUTSIDE.search(case.get("text", "")):
                continue
            if variables != before:
                out.write(json.dumps({"variables": variables}) + "\n")
                before = variables
            out.write(json.dumps(case) + "\n")
            counts["text" if "text" in case else "error"] += 1
    print(f"{path}: {counts['text']} texts, {counts['error']} errors")


def main():
    os.environ["TZ"] = "UTC0"
    chat.datetime = Clock
    if sys.argv[1] == "--random":
        count, seed, path = int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
        write(path, (make_case(seed * 1000003 + i) for i in range(count)))
    else:
        write(os.path.join(sys.argv[1], "templates.jsonl"), CASES)


if __name__ == "__main__":
    main()

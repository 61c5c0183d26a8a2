#!/usr/bin/env python3
"""Writes which tokens of conversations `transformers` masks, for tests/text/test_chat_learned.c.

    tools/golden_masks.py tests/golden             masks.json

Every tokenizer of tests/golden/tokenizers encodes every conversation by every template. A case is the
tokenizer, the template, the conversation, the number of tokens, and the tokens that are the assistant's
as [begin, end). Left out are those whose masked text begins or ends with white space that has no
token, or none by the offsets of a tokenizer that trims them: transformers then masks nothing, or all.
And those where one unknown token reaches over the border.
"""
import json
import os
import sys

from transformers import PreTrainedTokenizerFast
from transformers.utils.chat_template_utils import render_jinja_template

TEMPLATES = [
    "{% for m in messages %}[{{ m.role }}]\n{% if m.role == 'assistant' %}{% generation %}{{ m.content }}<|end|>"
    "{% endgeneration %}{% else %}{{ m.content }}<|end|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]\n{% endif %}",
    "{% for m in messages %}{% if m.role == 'assistant' %}A={% generation %}{{ m.content }};{% endgeneration %}"
    "{% else %}B={{ m.content }};{% endif %}{% endfor %}{% if add_generation_prompt %}A={% endif %}",
    "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}</s>{% endgeneration %}"
    "{% else %}<s>[INST] {{ m.content }} [/INST] {% endif %}{% endfor %}",
]


def talk(*texts):
    return [{"role": "assistant" if i % 2 else "user", "content": text} for i, text in enumerate(texts)]


CONVERSATIONS = [
    talk("Hi", "Hello there."),
    talk("a", "b", "c", "d"),
    talk("the theme", "them", "themes and then", "theatre"),
    talk("=", "=", "==", "=== =>"),
    talk("two\n\nlines", "one\ntwo\n\nthree"),
    talk("e\u0301te\u0301", "e\u0301te\u0301 \u00e9t\u00e9", "A\u030a", "A\u030angstro\u0308m"),
    talk("\u65e5\u672c\u8a9e", "\u306f\u3044\u3001\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467",
         "12345", "67890 1234567"),
    talk("<mask> WORD", "say WORD<mask>x"),
    talk("", "", "x", ""),
]



def spans(mask):
    found = []
    for i, learned in enumerate(mask):
        if learned and found and found[-1][1] == i:
            found[-1][1] = i + 1
        elif learned:
            found.append([i, i + 1])
    return found


def mask_of(tokenizer, template, messages):
    """None where transformers cannot tell."""
    out = tokenizer.apply_chat_template(messages, chat_template=template, tokenize=True, return_dict=True,
                                        return_assistant_tokens_mask=True)
    texts, marked = render_jinja_template(conversations=[messages], chat_template=template,
                                          return_assistant_tokens_mask=True)
    encoded = tokenizer(texts[0], add_special_tokens=False)
    unknown = json.loads(tokenizer.backend_tokenizer.to_str())["model"].get("unk_token")
    unknown = tokenizer.convert_tokens_to_ids(unknown) if unknown else None
    assert encoded["input_ids"] == out["input_ids"]
    for begin, end in marked[0]:
        if encoded.char_to_token(begin) is None or encoded.char_to_token(end - 1) is None:
            return None
        at = encoded.char_to_token(begin)
        if encoded.char_to_token(begin - 1) == at and encoded["input_ids"][at] == unknown:
            return None
    return len(out["input_ids"]), spans(out["assistant_masks"])


def main():
    golden = sys.argv[1]
    cases = []
    for name in sorted(os.listdir(os.path.join(golden, "tokenizers"))):
        file = os.path.join(golden, "tokenizers", name, "tokenizer.json")
        tokenizer = PreTrainedTokenizerFast(tokenizer_file=file, clean_up_tokenization_spaces=False)
        for t, template in enumerate(TEMPLATES):
            for c, messages in enumerate(CONVERSATIONS):
                mask = mask_of(tokenizer, template, messages)
                if mask is not None:
                    cases.append([name, t, c, mask[0], mask[1]])
    with open(os.path.join(golden, "masks.json"), "w") as out:
        out.write('{"templates": ' + json.dumps(TEMPLATES) + ',\n"conversations": ' + json.dumps(CONVERSATIONS) +
                  ',\n"cases": [\n' + ",\n".join(json.dumps(case) for case in cases) + "]}\n")
    print(len(cases), "cases")


if __name__ == "__main__":
    main()

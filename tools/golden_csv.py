#!/usr/bin/env python3
"""Writes tests/golden/csv: tables as Python's csv module writes them, and their rows as JSONL, as it reads them."""
import csv
import gzip
import io
import json
import os
import shutil

import pyarrow as pa

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden", "csv")
ODD = ["plain", "", "a, b", 'say "hi"', '"', '""', "two\nlines", "cr\rlf\r\n end", "tab\there", " spaced ", "Straße 日本語 \U0001f600",
       "it's 5\" long", "1.50", "null", "x" * 300, "\n", ",", ",,\"\n\"", "; # \\ \\n"]
SETS = {
    "text": [{"id": str(i), "text": t} for i, t in enumerate(ODD)],
    "completion": [{"prompt": "ask " + t, "extra": t, "completion": " tell " + t} for t in ODD],
    "alpaca": [{"instruction": "do " + t, "input": t if i % 2 else "", "output": "done " + t, "system": ""} for i, t in enumerate(ODD)],
    "pairs": [{"prompt": "ask " + t, "chosen": " yes" + t, "rejected": " no"} for t in ODD],
}
FORMS = {
    "lf.csv": dict(lineterminator="\n"),
    "crlf.csv": dict(lineterminator="\r\n"),
    "cr.csv": dict(lineterminator="\r", quoting=csv.QUOTE_ALL),
    "all.csv": dict(lineterminator="\r\n", quoting=csv.QUOTE_ALL),
    "words.csv": dict(lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC),
    "tabs.tsv": dict(lineterminator="\n", delimiter="\t"),
}


def table(rows, **form):
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, list(rows[0]), **form)
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def rows_of(text, delimiter):
    """Blank lines are no rows for the csv module either."""
    return list(csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))


def write(name, data):
    with open(os.path.join(ROOT, name), "wb") as f:
        f.write(data)


def main():
    shutil.rmtree(ROOT, ignore_errors=True)
    os.makedirs(ROOT)
    for name, rows in SETS.items():
        for form, options in FORMS.items():
            if name != "text" and form not in ("crlf.csv", "tabs.tsv"):
                continue
            text = table(rows, **options)
            assert rows_of(text, options.get("delimiter", ",")) == rows, form
            write("%s-%s" % (name, form), text.encode())
        write(name + ".jsonl", "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode())
    text = table(SETS["text"], lineterminator="\n", quoting=csv.QUOTE_ALL)
    write("text-mark.csv", b"\xef\xbb\xbf" + text.encode())
    write("text-open.csv", text.rstrip("\n").encode())
    write("text-blank.csv", ("\n\n" + table(SETS["text"], lineterminator="\n\n") + "\r\n\r\n").encode())
    write("text-packed.csv.gz", gzip.compress(text.encode(), mtime=0))
    with pa.CompressedOutputStream(os.path.join(ROOT, "text-packed.csv.zst"), "zstd") as f:
        f.write(text.encode())


if __name__ == "__main__":
    main()

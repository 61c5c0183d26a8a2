#!/usr/bin/env python3
"""Writes tests/golden/arrow: Arrow files of the tables of golden_parquet.py, whose rows are in tests/golden/parquet, and of
more types; folders of datasets.save_to_disk in saved."""
import datetime
import decimal
import json
import os
import shutil
import struct

import numpy as np
import pyarrow as pa
from datasets import Dataset, DatasetDict

import golden_parquet as tables

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden", "arrow")


def write(name, table, framed=False, rows=None, compression=None):
    options = pa.ipc.IpcWriteOptions(compression=compression)
    opened = pa.ipc.new_file if framed else pa.ipc.new_stream
    with opened(os.path.join(ROOT, name + ".arrow"), table.schema, options=options) as f:
        f.write_table(table, max_chunksize=rows)


def large(kind):
    """The same type with offsets of 64 bits."""
    if pa.types.is_string(kind):
        return pa.large_string()
    if pa.types.is_binary(kind):
        return pa.large_binary()
    if pa.types.is_list(kind):
        return pa.large_list(large(kind.value_type))
    return pa.struct([(f.name, large(f.type)) for f in kind]) if pa.types.is_struct(kind) else kind


def coded(table):
    """Texts as numbers of a dictionary, which is another one in each batch."""
    names = [f.name for f in table.schema if pa.types.is_string(f.type)]
    parts = []
    for begin in range(0, table.num_rows, 17):
        part = table.slice(begin, 17).combine_chunks()
        for name in names:
            i = part.schema.get_field_index(name)
            part = part.set_column(i, name, part[name].dictionary_encode())
        parts.append(part)
    return pa.concat_tables(parts)


def variants(name, table):
    write(name + "-stream", table)
    write(name + "-file", table, framed=True)
    write(name + "-batches", table, rows=7)
    write(name + "-zstd", table, rows=20, compression="zstd")
    write(name + "-zstdfile", table, framed=True, compression="zstd")
    write(name + "-large", table.cast(pa.schema([(f.name, large(f.type)) for f in table.schema])))
    twice = pa.concat_tables([table.slice(0, 5), table]).combine_chunks()
    write(name + "-slice", twice.slice(5))


def odd():
    """Types that Parquet does not have, some of which can only be skipped."""
    n = 40
    table = pa.table({
        "half": pa.array(np.arange(n, dtype=np.float16) / 4),
        "pair": pa.array([None if i % 7 == 2 else [i, -i] for i in range(n)], pa.list_(pa.int16(), 2)),
        "bits": pa.array([[i % 2 == 0, None][: i % 3] for i in range(n)], pa.list_(pa.bool_())),
        "bytes": pa.array([i for i in range(n)], pa.uint8()),
        "deep": pa.array([[[["a"] * (i % 3)], []] for i in range(n)], pa.list_(pa.list_(pa.list_(pa.string())))),
        "empty": pa.array([{}] * n, pa.struct([])),
        "named": pa.array(["n%d" % (i % 4) for i in range(n)]).dictionary_encode(),
        "tags": pa.array([[["x", "y", None][(i + k) % 3] for k in range(i % 3)] for i in range(n)],
                         pa.list_(pa.dictionary(pa.int8(), pa.string()))),
    })
    skipped = {
        "date": pa.array([datetime.date(2024, 7, 26)] * n),
        "view": pa.array(["long enough to be outside of its view %d" % i for i in range(n)], pa.string_view()),
        "listview": pa.array([[i] for i in range(n)], pa.list_view(pa.int32())),
        "runs": pa.RunEndEncodedArray.from_arrays(pa.array([n], pa.int32()), pa.array(["same"])),
        "union": pa.UnionArray.from_sparse(pa.array([0] * n, pa.int8()), [pa.array(range(n))]),
        "dense": pa.UnionArray.from_dense(pa.array([0] * n, pa.int8()), pa.array(range(n), pa.int32()), [pa.array(range(n))]),
        "map": pa.array([[("a", i)] for i in range(n)], pa.map_(pa.string(), pa.int32())),
        "fixed": pa.array([b"abcd"] * n, pa.binary(4)),
        "decimal": pa.array([decimal.Decimal("1.5")] * n),
        "nothing": pa.array([None] * n, pa.null()),
    }
    mixed = pa.table({**skipped, **{name: table[name] for name in table.column_names}})
    write("odd-stream", mixed)
    write("odd-zstd", mixed, rows=9, compression="zstd")
    with open(os.path.join(ROOT, "odd.jsonl"), "w", encoding="utf-8") as f:
        f.writelines(json.dumps(row) + "\n" for row in table.to_pylist())


def change(name, replacements):
    """Replaces numbers of 64 bits."""
    path = os.path.join(ROOT, name + ".arrow")
    with open(path, "rb") as f:
        content = f.read()
    for old, new in replacements:
        old, new = (struct.pack("<%dq" % len(n), *n) for n in (old, new))
        assert old in content, (name, old)
        content = content.replace(old, new)
    with open(path, "wb") as f:
        f.write(content)


def refused():
    text = pa.table({"text": ["abc"] * 300, "when": pa.array([0] * 300, pa.date32())})
    write("refused_lz4", text, compression="lz4")
    parts = pa.chunked_array([pa.array(["a"]).dictionary_encode(), pa.array(["a", "b"]).dictionary_encode()])
    with pa.ipc.new_stream(os.path.join(ROOT, "refused_delta.arrow"), pa.schema([("text", parts.type)]),
                           options=pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)) as f:
        for chunk in parts.chunks:
            f.write_batch(pa.record_batch([chunk], ["text"]))
    write("refused_rows", pa.table({"text": pa.nulls(12345)}))
    change("refused_rows", [((12345,), (1 << 62,))])
    text = pa.array(["%x" % (i * i) for i in range(300)])
    group = pa.StructArray.from_arrays([text, text], ["a", "b"])
    write("refused_shared", pa.table({"group": group}), compression="zstd")
    change("refused_shared", [((1216, 623, 1840, 590), (0, 623, 624, 590))])  # the bytes of b are those of a
    write("refused_bytes", pa.table({"text": pa.array([b"\xff\xfe"], pa.binary()), "big": pa.array([2**63], pa.uint64())}))


def saved():
    """As datasets leaves them, with the same rows as JSONL."""
    chat = [{"messages": [{"role": "user", "content": "ask %d" % i}, {"role": "assistant", "content": "tell %d" % i}]} for i in range(9)]
    ids = [{"input_ids": list(range(3, 7 + i)), "attention_mask": [1] * (4 + i), "labels": [-100] + list(range(4, 7 + i))} for i in range(6)]
    for name, rows, shards in (("chat", chat, 2), ("ids", ids, 1)):
        folder = os.path.join(ROOT, "saved", name)
        Dataset.from_list(rows).save_to_disk(folder, num_shards=shards)
        with open(os.path.join(ROOT, "saved", name + ".jsonl"), "w", encoding="utf-8") as f:
            f.writelines(json.dumps(row) + "\n" for row in rows)
    # What .map() leaves in the folder is not of the set.
    shutil.copy(os.path.join(ROOT, "texts-stream.arrow"), os.path.join(ROOT, "saved", "chat", "cache-0123456789abcdef.arrow"))
    DatasetDict({"train": Dataset.from_list(ids), "test": Dataset.from_list(ids[:2])}).save_to_disk(os.path.join(ROOT, "saved", "splits"))


def main():
    shutil.rmtree(ROOT, ignore_errors=True)
    os.makedirs(ROOT)
    for name, table in (("texts", tables.texts()), ("chats", tables.chats()), ("kinds", tables.kinds())):
        variants(name, table)
    write("texts-coded", coded(tables.texts()), rows=17)
    write("empty-stream", tables.texts().slice(0, 0))
    odd()
    refused()
    saved()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes tests/golden/parquet: small Parquet files made by pyarrow, and what their rows are.

SET-*.parquet all hold the rows of SET.jsonl. The sets "old*" are written here byte by byte: lists
as old writers have them, which pyarrow does not write."""
import datetime
import decimal
import json
import math
import os
import struct

import pyarrow as pa
import pyarrow.parquet as pq

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden", "parquet")
LEFT_OUT = (pa.types.is_timestamp, pa.types.is_date, pa.types.is_decimal, pa.types.is_time)


def kept(value, kind):
    """What JSON has of a value: no dates, no bytes within groups, null for numbers that are not finite."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {f.name: kept(value[f.name], f.type) for f in kind if readable(f.type)}
    if pa.types.is_list(kind):
        return [kept(v, kind.value_type) for v in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


def readable(kind, top=False):
    if pa.types.is_list(kind):
        return readable(kind.value_type)
    if pa.types.is_struct(kind):
        return any(readable(f.type) for f in kind)
    if pa.types.is_binary(kind):
        return top
    return not any(test(kind) for test in LEFT_OUT) and not pa.types.is_fixed_size_binary(kind)


def write_rows(name, rows):
    with open(os.path.join(ROOT, name + ".jsonl"), "w", encoding="utf-8") as f:
        for row in rows:
            f.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")


def write_set(name, table, variants):
    columns = [f for f in table.schema if readable(f.type, True)]
    rows = [{f.name: kept(row[f.name], f.type) for f in columns} for row in table.to_pylist()]
    for row in rows:
        for key, value in row.items():
            if isinstance(value, bytes):
                row[key] = value.decode()
    write_rows(name, rows)
    for variant, options in variants.items():
        options = dict({"compression": "none", "use_dictionary": False, "write_statistics": False,
                        "store_schema": False}, **options)
        pq.write_table(table, os.path.join(ROOT, "%s-%s.parquet" % (name, variant)), **options)


def texts():
    words = ["", "a", "Straße", "日本語", "\U0001f600 smile", "nul\0inside", "line\nline\r\n\t\"quote\" \\", None]
    rows = words + ["same prefix %d and more" % (i % 7) for i in range(40)] + [None, "x" * 700, "end"]
    return pa.table({"id": pa.array(range(len(rows)), pa.int64()), "text": pa.array(rows, pa.string()),
                     "raw": pa.array([None if r is None else r.encode() for r in rows], pa.binary())})


def chats():
    call = pa.struct([("name", pa.string()), ("arguments", pa.list_(pa.list_(pa.string())))])
    message = pa.struct([("role", pa.string()), ("content", pa.string()), ("when", pa.timestamp("us")),
                         ("picture", pa.binary()), ("weight", pa.float64()), ("tool_calls", pa.list_(call))])
    when = datetime.datetime(2024, 7, 26)

    def say(role, content, calls=None, weight=None):
        return {"role": role, "content": content, "when": when, "picture": b"\xff\xfe", "weight": weight,
                "tool_calls": calls}

    calls = [{"name": "f", "arguments": [["a", None, "b"], [], None, ["c"]]}, {"name": None, "arguments": []}, None]
    rows = []
    for i in range(30):
        rows.append([say("user", "question %d" % i), say("assistant", "answer " * (i % 5), None, i / 4)])
        if i % 6 == 0:
            rows += [None, [], [None], [say("user", None), None, say("tool", "", calls, float("nan"))]]
    odd = [None if i % 3 == 0 else {"tag": None if i % 2 else "t%d" % i} for i in range(len(rows))]
    return pa.table({"messages": pa.array(rows, pa.list_(message)),
                     "about": pa.array(odd, pa.struct([("tag", pa.string())]))})


def kinds():
    n = 67
    numbers = [(-1) ** i * (i * 7919) ** 3 for i in range(n)]

    def some(values):
        return [None if i % 5 == 3 else v for i, v in enumerate(values)]

    return pa.table({
        "truth": pa.array(some([i % 3 == 0 for i in range(n)]), pa.bool_()),
        "runs": pa.array([i > 30 for i in range(n)], pa.bool_()),
        "i8": pa.array(some([i - 30 for i in range(n)]), pa.int8()),
        "i32": pa.array([max(-2**31, min(2**31 - 1, v)) for v in numbers], pa.int32()),
        "i64": pa.array(some([max(-2**63, min(2**63 - 1, v * 1000)) for v in numbers]), pa.int64()),
        "u32": pa.array(some([2**32 - 1 - i for i in range(n)]), pa.uint32()),
        "u64": pa.array([i * 2**56 for i in range(n)], pa.uint64()),
        "f32": pa.array(some([i / 8 - 3 for i in range(n - 1)] + [float("inf")]), pa.float32()),
        "f64": pa.array(some([v / 7 for v in numbers]), pa.float64()),
        "same": pa.array([7] * n, pa.int64()),
        "none": pa.array([None] * n, pa.null()),
        "list": pa.array(some([list(range(i % 4)) for i in range(n)]), pa.list_(pa.int32())),
    })


def variants():
    out = {}
    for codec in ("none", "snappy", "gzip", "zstd"):
        for version in ("1.0", "2.0"):
            for page in (None, 64):
                out["%s-v%s%s" % (codec, version[0], "-pages" if page else "")] = dict(
                    compression=codec, data_page_version=version, use_dictionary=page is None,
                    row_group_size=10**6 if page is None else 17, data_page_size=page,
                    write_batch_size=None if page is None else 5, write_page_checksum=bool(page))
    return out


def some_variants(keep):
    return {name: options for name, options in variants().items() if name in keep}


class Long(int):
    """A number that the format has with 64 bits; others have 32."""


# Thrift's compact protocol, as far as footers and headers of pages need it.
def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field_value(value):
    if isinstance(value, bool):
        return (1 if value else 2), b""
    if isinstance(value, int):
        return (6 if isinstance(value, Long) else 5), varint(value << 1 if value >= 0 else (-value << 1) - 1)
    if isinstance(value, (str, bytes)):
        value = value.encode() if isinstance(value, str) else value
        return 8, varint(len(value)) + value
    if isinstance(value, dict):
        return 12, thrift(value)
    items = [field_value(v) for v in value]
    head = bytes([len(items) << 4 | items[0][0]]) if len(items) < 15 else bytes([240 | items[0][0]]) + varint(len(items))
    return 9, head + b"".join(body for _, body in items)


def thrift(fields):
    """A structure of {id: value}; integers of all sizes are written alike."""
    out, last = b"", 0
    for number, value in fields.items():
        kind, body = field_value(value)
        out += bytes([(number - last) << 4 | kind]) + body
        last = number
    return out + b"\0"


def packed(levels, width):
    """A packed run of levels, with its length in front."""
    bits = 0
    for i, level in enumerate(levels):
        bits |= level << (i * width)
    groups = (len(levels) + 7) // 8
    body = varint(groups << 1 | 1) + bits.to_bytes(groups * width, "little")
    return struct.pack("<I", len(body)) + body


def write_old(name, schema, columns, rows):
    """One group of rows. columns: (repetition levels, definition levels, texts), widths by schema."""
    data, chunks = b"PAR1", []
    for path, repeats, defines, widths, values in columns:
        page = b""
        if widths[0]:
            page += packed(repeats, widths[0])
        if widths[1]:
            page += packed(defines, widths[1])
        page += b"".join(struct.pack("<I", len(v.encode())) + v.encode() for v in values)
        start = len(data)
        data += thrift({1: 0, 2: len(page), 3: len(page), 5: {1: len(defines), 2: 0, 3: 3, 4: 3}}) + page
        size = Long(len(data) - start)
        chunks.append({2: Long(start), 3: {1: 6, 2: [0], 3: path, 4: 0, 5: Long(len(defines)), 6: size, 7: size,
                                           9: Long(start)}})
    count = Long(len(rows))
    footer = thrift({1: 1, 2: schema, 3: count, 4: [{1: chunks, 2: Long(len(data)), 3: count}]})
    with open(os.path.join(ROOT, name + "-a.parquet"), "wb") as f:
        f.write(data + footer + struct.pack("<I", len(footer)) + b"PAR1")
    write_rows(name, rows)


def old_lists():
    root = {4: "root", 5: 1}
    rows = [{"messages": ["a", "b"]}, {"messages": []}, {"messages": None}, {"messages": ["c"]}]
    levels = [0, 1, 0, 0, 0], [2, 2, 1, 0, 2]
    write_old("old2", [root, {3: 1, 4: "messages", 5: 1, 6: 3}, {1: 6, 3: 2, 4: "element", 6: 0}],
              [(["messages", "element"], *levels, (1, 2), ["a", "b", "c"])], rows)
    # A repeated column without a list around it.
    write_old("oldbare", [root, {1: 6, 3: 2, 4: "messages", 6: 0}],
              [(["messages"], [0, 1, 0, 0], [1, 1, 0, 1], (1, 1), ["a", "b", "c"])],
              [{"messages": ["a", "b"]}, {"messages": []}, {"messages": ["c"]}])
    # Elements of two columns, and of one with a name that says so.
    pair = [{"messages": [{"role": "a", "content": "x"}, {"role": "b", "content": "y"}]}, {"messages": []},
            {"messages": None}, {"messages": [{"role": "c", "content": "z"}]}]
    fields = [{1: 6, 3: 0, 4: "role", 6: 0}, {1: 6, 3: 0, 4: "content", 6: 0}]
    columns = [(["messages", "bag", f[4]], *levels, (1, 2), v) for f, v in zip(fields, (["a", "b", "c"], ["x", "y", "z"]))]
    write_old("oldpair", [root, {3: 1, 4: "messages", 5: 1, 6: 3}, {3: 2, 4: "bag", 5: 2}] + fields, columns, pair)
    one = [{"messages": [{"role": "a"}, {"role": "b"}]}, {"messages": []}, {"messages": None},
           {"messages": [{"role": "c"}]}]
    for name in ("array", "messages_tuple"):
        write_old("old" + name[-5:], [root, {3: 1, 4: "messages", 5: 1, 6: 3}, {3: 2, 4: name, 5: 1}, fields[0]],
                  [(["messages", name, "role"], *levels, (1, 2), ["a", "b", "c"])], one)


def refused():
    """Files of which a test knows the message."""
    short = pa.table({"text": ["abc"] * 3, "f": pa.array([1.0, 2.0, 3.0])})
    for codec in ("brotli", "lz4"):
        pq.write_table(short, os.path.join(ROOT, "bad_%s.parquet" % codec), compression=codec, store_schema=False)
    pq.write_table(short, os.path.join(ROOT, "bad_split.parquet"), compression="none", use_dictionary=False,
                   column_encoding={"f": "BYTE_STREAM_SPLIT"}, store_schema=False)
    kinds_of = {
        "map": pa.array([[("a", "b")]], pa.map_(pa.string(), pa.string())),
        "date": pa.array([datetime.date(2024, 7, 26)]),
        "decimal": pa.array([decimal.Decimal("1.5")]),
        "large": pa.array([2**63], pa.uint64()),
        "bytes": pa.array([b"\xff\xfe"], pa.binary()),
        "picture": pa.array([{"bytes": b"\xff"}], pa.struct([("bytes", pa.binary())])),
    }
    pq.write_table(pa.table(kinds_of), os.path.join(ROOT, "bad_kinds.parquet"), compression="none", store_schema=False)
    # the bytes of b are taken out: they are those of a
    same = pa.array(["%d" % (i * 6364136223846793005 % 2**63) for i in range(300)])
    group = pa.StructArray.from_arrays([pa.array(["x"] * 300), same, same], ["first", "a", "b"])
    path = os.path.join(ROOT, "bad_shared.parquet")
    pq.write_table(pa.table({"group": group}), path, compression="zstd", use_dictionary=False, write_statistics=False,
                   store_schema=False)
    with open(path, "rb") as f:
        content = f.read()
    begin = [pq.read_metadata(path).row_group(0).column(i).data_page_offset for i in range(3)]
    old, new = (bytes([n << 1 & 0x7f | 0x80, n >> 6]) for n in (begin[2], begin[1]))
    at = len(content) - 8 - struct.unpack("<i", content[-8:-4])[0]
    with open(path, "wb") as f:
        f.write(content[:begin[2]] + content[at:].replace(old, new))
    assert pq.read_metadata(path).row_group(0).column(2).data_page_offset == begin[1]


def records():
    """Rows as the Hub has them; the .jsonl beside each gives the same tokens."""
    message = pa.struct([("content", pa.string()), ("role", pa.string())])
    turn = pa.struct([("from", pa.string()), ("value", pa.string())])
    n = 12
    extra = {"id": pa.array(range(n), pa.int64()), "image": pa.array([b"\xff\xd8"] * n, pa.binary())}
    dialogue = [[{"role": "user", "content": "ask %d" % i}, {"role": "assistant", "content": "tell %d" % i}]
                for i in range(n)]
    sets = {
        "text": {"text": ["document %d" % i for i in range(n)]},
        "completion": {"prompt": ["ask %d" % i for i in range(n)], "completion": [" tell %d" % i for i in range(n)]},
        "alpaca": {"instruction": ["do %d" % i for i in range(n)], "input": ["" if i % 2 else "in %d" % i for i in range(n)],
                   "output": ["done %d" % i for i in range(n)]},
        "messages": {"prompt": ["ask"] * n, "messages": pa.array(dialogue, pa.list_(message))},
        "sharegpt": {"conversations": pa.array([[{"from": "human", "value": "ask %d" % i}, {"from": "gpt", "value": "ok"}]
                                                for i in range(n)], pa.list_(turn)), "system": pa.array([None] * n, pa.string())},
        "pairs": {"prompt": ["ask %d" % i for i in range(n)], "chosen": pa.array(dialogue, pa.list_(message)),
                  "rejected": pa.array([d[:1] + [{"role": "assistant", "content": "no"}] for d in dialogue], pa.list_(message))},
        "strings": {"prompt": ["ask %d" % i for i in range(n)], "chosen": [" yes"] * n, "rejected": [" no"] * n},
    }
    for name, columns in sets.items():
        table = pa.table(dict(columns, **extra))
        pq.write_table(table, os.path.join(ROOT, "records_%s.parquet" % name), compression="snappy", row_group_size=5,
                       store_schema=False)
        rows = table.drop_columns(list(extra)).to_pylist()
        write_rows("records_" + name, [dict(row, id=i) for i, row in enumerate(rows)])


def main():
    os.makedirs(ROOT, exist_ok=True)
    for old in os.listdir(ROOT):
        os.remove(os.path.join(ROOT, old))
    plain = dict(use_dictionary=False)
    write_set("texts", texts(), dict(
        variants(), deltalength=dict(plain, column_encoding={"text": "DELTA_LENGTH_BYTE_ARRAY", "id": "DELTA_BINARY_PACKED"}),
        deltabytes=dict(plain, compression="snappy", column_encoding={"text": "DELTA_BYTE_ARRAY", "id": "DELTA_BINARY_PACKED"}),
        deltabytes2=dict(plain, data_page_version="2.0", data_page_size=64, write_batch_size=5,
                         column_encoding={"text": "DELTA_BYTE_ARRAY", "raw": "DELTA_LENGTH_BYTE_ARRAY"}),
        statistics=dict(write_statistics=True, use_dictionary=True, compression="zstd", write_page_index=True),
        fallback=dict(use_dictionary=True, dictionary_pagesize_limit=100, write_batch_size=5)))
    write_set("chats", chats(), some_variants(["none-v1", "none-v1-pages", "snappy-v2-pages", "gzip-v2", "zstd-v1-pages",
                                               "zstd-v2"]))
    write_set("kinds", kinds(), dict(
        some_variants(["none-v1", "none-v2-pages", "zstd-v1-pages", "snappy-v2"]),
        delta=dict(plain, column_encoding={"i8": "DELTA_BINARY_PACKED", "i32": "DELTA_BINARY_PACKED",
                                           "i64": "DELTA_BINARY_PACKED", "u64": "DELTA_BINARY_PACKED",
                                           "same": "DELTA_BINARY_PACKED", "runs": "RLE", "truth": "RLE"})))
    write_set("empty", texts().slice(0, 0), {"a": {}, "b": dict(compression="zstd", use_dictionary=True)})
    old_lists()
    refused()
    records()


if __name__ == "__main__":
    main()

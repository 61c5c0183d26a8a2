"""Builds a precompiled_charsmap, the table of a SentencePiece normalizer, from a dict of replacements."""
import base64
import struct


def build(replacements):
    root, values = {}, {}
    blob = b""
    for key, value in sorted(replacements.items()):
        node = root
        for byte in key.encode():
            node = node.setdefault(byte, {})
        values[id(node)] = len(blob)
        blob += value.encode() + b"\0"
    units, free = {0: 0}, 1
    todo = [(0, root)]
    while todo:
        place, node = todo.pop()
        labels = list(node) + ([0] if id(node) in values else [])
        base = free
        while any(base ^ label in units for label in labels):
            base += 1
        units[place] |= (place ^ base) << 10
        if id(node) in values:
            units[place] |= 1 << 8
            units[base] = values[id(node)] | 1 << 31
        for label, child in node.items():
            units[base ^ label] = label
            todo.append((base ^ label, child))
        while free in units:
            free += 1
    size = (max(units) | 255) + 1
    array = struct.pack(f"<{size}I", *(units.get(i, 0) for i in range(size)))
    return base64.b64encode(struct.pack("<I", len(array)) + array + blob).decode()

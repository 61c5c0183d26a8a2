"""gpu_disk.py - what a drive gives to a raw loop that reads and writes past the page cache."""
import mmap
import os
import threading
import time

BLOCK = 4 << 20


def open_direct(path, flags):
    try:
        return os.open(path, flags | os.O_DIRECT, 0o600)
    except OSError:  # a file system without it, such as tmpfs
        return os.open(path, flags, 0o600)


def worker(handle, blocks, begin, deadline, moved):
    """Reads and writes in turn, block after block of its own part of the file."""
    buffer = mmap.mmap(-1, BLOCK)
    buffer.write(os.urandom(1 << 16) * (BLOCK >> 16))
    at, count = 0, 0
    begin.wait()
    while time.monotonic() < deadline[0]:
        place = blocks[at % len(blocks)] * BLOCK
        count += (os.pwritev(handle, [buffer], place) if at % 2 else
                  os.preadv(handle, [buffer], place))
        at += 1
    moved.append(count)


def rate(handle, size, seconds, depth):
    blocks = list(range(size // BLOCK))
    begin, moved, deadline = threading.Event(), [], [0.0]
    depth = min(depth, len(blocks))
    threads = [threading.Thread(target=worker, args=(handle, blocks[i::depth], begin, deadline,
                                                     moved)) for i in range(depth)]
    for thread in threads:
        thread.start()
    start = time.monotonic()
    deadline[0] = start + seconds
    begin.set()
    for thread in threads:
        thread.join()
    return sum(moved) / (time.monotonic() - start)


def mixed_rate(folder, size, seconds):
    """Bytes per second, half of them read and half written; the best of several depths."""
    path = os.path.join(folder, "disk-rate")
    handle = open_direct(path, os.O_RDWR | os.O_CREAT)
    os.unlink(path)
    try:
        buffer = mmap.mmap(-1, BLOCK)
        buffer.write(os.urandom(1 << 16) * (BLOCK >> 16))
        for place in range(0, size, BLOCK):  # blocks that were never written cost nothing to read
            os.pwritev(handle, [buffer], place)
        os.fsync(handle)
        return max(rate(handle, size, seconds / 2, depth) for depth in (8, 24))
    finally:
        os.close(handle)

"""Comparing runs, and killing them."""

import os
import signal
import subprocess
import time


def same(a, b, within=1e-5):
    assert len(a) == len(b) > 0
    for x, y in zip(a, b):
        assert abs(x - y) <= within * max(1, abs(y)), (a, b)


def environment():
    python = os.path.join(os.path.dirname(__file__), "..", "..", "python")
    return {**os.environ, "PYTHONPATH": python, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


def kill_when(command, condition):
    """Starts a program and kills it as soon as the condition is true."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment())
    while not condition():
        assert process.poll() is None, process.stderr.read().decode()
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.communicate()

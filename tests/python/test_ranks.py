"""Several ranks: processes that are forked from this one, with the environment that torchrun gives."""

import faulthandler
import functools
import gc
import multiprocessing
import os
import socket
import subprocess
import sys
import time
import traceback
from datetime import timedelta

import hilbert
import models
import pytest
import ranks_cases as cases
import torch
from conftest import LIMIT
from hilbert import _ranks
from hilbert.deepspeed import read_config

pytestmark = pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="no gloo")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def _rank(rank, ranks, port, case, folder):
    gc.freeze()  # what the parent has is not ours
    sys.stdout = sys.stderr = open(folder / f"rank{rank}.log", "w", buffering=1)
    faulthandler.dump_traceback_later(LIMIT - 2)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK=str(rank),
                      LOCAL_WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    from hilbert import _shared
    try:
        torch.save(case(rank, ranks, folder), folder / f"rank{rank}.pt")
    except BaseException as error:  # as Python does for a program
        sys.last_value = error
        traceback.print_exc()
    _shared._leave()
    os._exit(1 if getattr(sys, "last_value", None) else 0)


def start(ranks, case, folder):
    """Runs a case on so many ranks; returns exit codes and the ends of their logs."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    fork = multiprocessing.get_context("fork")
    children = [fork.Process(target=_rank, args=(rank, ranks, port, case, folder))
                for rank in range(ranks)]
    for child in children:
        child.start()
    end = time.monotonic() + LIMIT
    for child in children:
        child.join(max(0, end - time.monotonic()))
    codes = [child.exitcode for child in children]
    for child in children:
        child.kill()
    return codes, [(folder / f"rank{rank}.log").read_text()[-1500:] for rank in range(ranks)]


def run(ranks, case, folder):
    """What each rank returned."""
    codes, logs = start(ranks, case, folder)
    assert codes == [0] * ranks, "\n".join(logs)
    return [torch.load(folder / f"rank{rank}.pt", weights_only=False) for rank in range(ranks)]


@functools.lru_cache(maxsize=None)
def reference(case, folder):
    """The same on one rank with all batches, in this process."""
    return case(0, 1, folder)


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    return tmp_path_factory.mktemp("one")


def assert_close(mine, theirs, tolerance=1e-6):
    """Losses, and norms as far as losses of other roundings have them."""
    assert len(mine) == len(theirs)
    for i, (a, b) in enumerate(zip(mine, theirs)):
        assert abs(a - b) <= (10 if i % 2 else 1) * tolerance * max(1.0, abs(b)), (i, mine, theirs)


def assert_same(a, b):
    assert a.keys() == b.keys()
    for name in a:
        assert torch.equal(a[name], b[name]), name


def run_alike(ranks, case, folder):
    """The same losses and weights on all ranks."""
    results = run(ranks, case, folder)
    for result in results:
        assert result[0] == results[0][0]
        assert_same(result[1], results[0][1])
    return results


@pytest.mark.parametrize("ranks", [2, 3])
def test_losses_of_one_rank_for_any_placement(ranks, tmp_path, one):
    results = run(ranks, cases.placed, tmp_path)
    losses, weights, _ = results[0][0]
    assert_close(losses, reference(cases.placed, one)[0][0])
    for result in results:
        for other, values, _ in result:
            assert other == losses
            assert_same(values, weights)
    placed = [run[2] for run in results[0]]
    assert not placed[0]["host"] and placed[1]["host"] and placed[2]["disk"]


@pytest.mark.parametrize("name", [make.__name__ for make in models.ALL if make is not models.compiled])
def test_kinds_of_models(name, tmp_path):
    try:
        alone = cases.kind(name, 0, 1, tmp_path)
    except ModuleNotFoundError as error:
        pytest.skip(str(error))
    for norms in run(2, functools.partial(cases.kind, name), tmp_path):
        assert norms == pytest.approx(alone, rel=1e-6)


@pytest.mark.parametrize("ranks", [2, 3])
def test_accumulation(ranks, tmp_path, one):
    results = run(ranks, cases.accumulated, tmp_path)
    case = functools.partial(cases.accumulated_alone, ranks)
    assert_close(results[0], case(one))


def test_weights_and_gradients_that_programs_give(tmp_path, one):
    results = run_alike(2, cases.given, tmp_path)
    assert_close(results[0][0], reference(cases.given, one)[0])


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_choose_experts(ranks, tmp_path):
    results = run_alike(ranks, cases.chosen, tmp_path)
    assert_close(results[0][0], cases.chosen_plainly(ranks), 1e-5)


@pytest.mark.parametrize("ranks", [2, 3])
def test_a_rank_without_batches(ranks, tmp_path):
    run_alike(ranks, cases.unbalanced, tmp_path)


@pytest.mark.parametrize("ranks", [2, 3])
def test_one_rank_alone(ranks, tmp_path):
    results = run(ranks, cases.alone, tmp_path)
    for first, _, changed, loaded in results:
        assert_same(first, results[0][0])
        assert_same(changed, results[0][2])
        assert_same(loaded, results[0][3])
        assert changed["3.weight"].item() == 5 and loaded["3.weight"].item() != 5
    assert len(results[0][1]) == 3


def test_mpi_is_not_needed(tmp_path):
    """Ranks of torchrun load neither MPI nor hilbert's module for it, so it need not be installed."""
    for libraries in run(2, cases.mapped, tmp_path):
        assert any(name.startswith("libhilbert.so") for name in libraries), libraries
        assert not [name for name in libraries if "mpi" in name], libraries


def test_resume_on_other_numbers_of_ranks(tmp_path):
    two = run(2, cases.saved, tmp_path / "2" / "saved")
    three = run(3, cases.saved, tmp_path / "3" / "saved")
    for result in three:
        assert_same(result[1], two[0][2])  # the same bits after loading
    (tmp_path / "1" / "saved").mkdir(parents=True)
    one = cases.saved(0, 1, tmp_path / "1" / "saved")
    assert_same(one[1], three[0][2])
    (tmp_path / "none" / "x").mkdir(parents=True)
    assert_close(two[0][0] + three[0][0] + one[0], cases.saved_alone(tmp_path), 1e-5)


def test_generate_and_save_pretrained(tmp_path):
    transformers = pytest.importorskip("transformers")
    results = run(2, cases.generated, tmp_path)
    assert [len(result[0][0][0]) for result in results] == [9, 11]
    assert torch.equal(results[0][0][0][0], results[1][0][0][0][:9])
    assert torch.equal(results[0][0][1], results[1][0][1])
    assert all(result[1] for result in results)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    assert_same({k: v for k, v in model.state_dict().items()}, results[0][2])


@pytest.mark.parametrize("ranks", [2, 3])
def test_engine(ranks, tmp_path):
    results = run(ranks, cases.engines, tmp_path)
    alone = cases.engine_alone(ranks, tmp_path)
    mine = results[0]
    for stage in range(4):
        assert_close(mine[stage], alone, 1e-5)
        assert mine[stage] == mine[0]
    assert mine["sizes"] == (8 * ranks, 4, 2, 4, 8, 32 * ranks, ranks)
    data = sum((result["data"] for result in results), [])
    assert sorted(data) == [i % 90 for i in range(48)]
    for result in results:
        assert result["again"] == result["later"] and result["loaded"] == {"rank": 0}
        assert "train_batch_size" in result["refused"]
        assert torch.equal(result["frozen"], mine["frozen"])


def test_overflow_on_one_rank(tmp_path):
    counts = run_alike(2, cases.overflowing, tmp_path)[0][0]
    scale = counts[0][1]
    assert counts == [(0, scale), (1, scale // 2), (1, scale // 2)]


def test_a_rank_that_waits_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(_ranks, "_HINT", timedelta(seconds=1))
    codes, logs = start(2, cases.late, tmp_path)
    assert codes == [0, 0], logs
    assert logs[0].count("rank 0 has waited for 1 s") == 1


def test_activations(tmp_path):
    for plain, kept in run(2, cases.kept, tmp_path):
        assert plain[0] == kept[0]
        assert_same(plain[1], kept[1])


@pytest.mark.parametrize("batch, micro, accumulation, good", [
    (32, 16, 1, True), (33, 16, 1, False), (32, 17, 1, False), (32, 16, None, True), (32, None, 1, True),
    (None, 16, 1, True), (64, 16, None, True), (31, None, None, False)])
def test_batch_arithmetic(batch, micro, accumulation, good):
    """Of two ranks."""
    keys = {"train_batch_size": batch, "train_micro_batch_size_per_gpu": micro,
            "gradient_accumulation_steps": accumulation}
    settings = {key: value for key, value in keys.items() if value is not None}
    if not good:
        with pytest.raises(hilbert.UsageError, match="train_batch_size"):
            read_config(settings, 2)
        return
    config = read_config(settings, 2)
    assert config.batch == config.micro_batch * config.accumulation * 2
    assert config.batch == (batch or 32) and config.micro_batch == 16


def test_ranks_that_differ(tmp_path):
    for rank, messages in enumerate(run(2, cases.differing, tmp_path)):
        assert len(messages) == 3, messages
        assert "other learning rates" in messages[0]
        assert "rank 0 wants to discard gradients, rank 1 wants to step" in messages[1]
        assert "rank 1 has other parameters" in messages[2]


@pytest.mark.parametrize("how, message", [
    ("raise", "rank 1 failed: ValueError: bad batch"), ("kill", "another rank has ended"),
    ("end", "a rank has ended before the others"), ("delete", "rank 1 has deleted its model"),
    ("drive", "rank 1 failed: ")])
def test_a_failure_reaches_all_ranks(how, message, tmp_path):
    began = time.monotonic()
    codes, logs = start(3, functools.partial(cases.failing, how), tmp_path)
    assert codes[0] == 1 and codes[2] == 1, logs
    assert message in logs[0] and message in logs[2], logs
    assert time.monotonic() - began < LIMIT / 2  # not by a timeout of torch.distributed


def test_torchrun(tmp_path):
    """The example, which uses no torch.distributed itself and saves on rank 0 alone when the other
    rank has ended, as DeepSpeed's launcher would start it too."""
    here = os.path.dirname(__file__)
    program = os.path.join(here, "..", "..", "examples", "ranks.py")
    path = os.pathsep.join([os.path.join(here, "..", "..", "python"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone",
                           "--nproc-per-node", "2", os.path.abspath(program)], cwd=tmp_path,
                          env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
                          capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "step 100" in done.stdout
    assert len(torch.load(tmp_path / "ranks.pt")) == 16

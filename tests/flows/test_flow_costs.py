"""How long and how much: told before a fit, while it compiles, and after it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.cli.compiling import tell_compiling
from tensorveil.cli.main import run
from tensorveil.runs import warm
from tensorveil.runs.costs import PER_ENTRY, Cost, estimate_open, estimate_private
from tests.flows.private_cases import write_table


def words(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().out.split())


def test_info_and_plan_say_what_a_fit_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_table(tmp_path / "ratings.csv")
    assert run(["info", str(path)]) == 0
    assert "a fit of rank 8 takes, roughly and on one core: bayes under a second, 200 MB; als" in words(capsys)
    assert run(["info", str(path), "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["costs"]) == {"bayes", "als", "sgd"}
    for unit in ("value", "entry", "slice:user"):
        asked = [
            "--unit",
            unit,
            "--shape",
            "6040,3706",
            "--entries",
            "1000000",
            "--bounds",
            "1",
            "5",
            "--delta",
            "1e-7",
        ]
        assert run(["plan", *asked, "--epsilon", "2"]) == 0
        assert "a fit takes, roughly and on one core: about" in words(capsys)
        assert run(["plan", *asked, "--epsilon", "2", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["cost"]["bytes"] > 16_000_000


def test_estimates_grow_with_what_there_is_to_do() -> None:
    shape, some = (1000, 500, 20), 100_000
    for solver in PER_ENTRY:
        small, large = (estimate_open(shape, n, solver=solver) for n in (some, 10 * some))
        assert small.seconds < large.seconds <= 10 * small.seconds
        assert small.bytes < large.bytes
        wide = estimate_open(shape, some, solver=solver, ranks=(32,) * 3)
        assert wide.seconds > small.seconds
    core = estimate_private(shape, some, unit="value", ranks=(4, 4, 4), core=True)
    assert core.seconds > estimate_private(shape, some, unit="value", ranks=(4, 4, 4)).seconds


def test_memory_of_entries_grows_with_the_tables_that_are_decoded_whole() -> None:
    """Two-way tables are kept, one table at a time is worked on, and none of them is larger than tables may be."""

    def need(*shape: int) -> int:
        return estimate_private(shape, 10_000, unit="entry", ranks=(2,) * len(shape)).bytes

    fits, long = need(1000, 3000), need(1000, 30_000)
    assert fits > long  # the larger table is not measured
    assert need(300, 300, 30) - need(300, 300, 60) > 0.9 * 8 * 8 * 300 * 300 * 30 - 24 * 300 * 300  # nor that of all


@pytest.mark.parametrize(
    ("cost", "told"),
    [
        (Cost(seconds=0.2, bytes=1000), "under a second, under 1 MB"),
        (Cost(seconds=3.44, bytes=34_400_000), "about 3 s, 34 MB"),
        (Cost(seconds=1234.0, bytes=2_340_000_000), "about 21 min, 2 GB"),
        (Cost(seconds=40_000.0, bytes=123_000_000), "about 11 h, 120 MB"),
    ],
)
def test_estimates_claim_no_more_digits_than_they_have(cost: Cost, told: str) -> None:
    assert str(cost) == told


def test_a_fit_says_whether_it_converged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tensor = tv.synthetic_cp((12, 9, 8), 1, random_state=0).train
    for solver in ("bayes", "als", "sgd"):
        hurried = tv.CP(1, solver=solver, sweeps=2, random_state=0, threads=1).fit(tensor)
        assert (hurried.n_iter_, hurried.converged_) == (2, False)
    patient = tv.CP(1, solver="als", sweeps=400, tol=1e-3, random_state=0, threads=1).fit(tensor)
    assert patient.converged_
    assert patient.n_iter_ < 400
    stopped = tv.CP(1, validation_fraction=0.2, patience=1, sweeps=400, random_state=0, threads=1).fit(tensor)
    assert stopped.converged_ == (stopped.n_iter_ < 400)
    tensor.write(tmp_path / "tensor.npz")
    asked = ["complete", str(tmp_path / "tensor.npz"), "--no-fill", "--no-report", "--rank", "1", "--solver", "als"]
    for sweeps, told, known in ((2, "not converged: more --sweeps may give", False), (4000, "converged", True)):
        output = tmp_path / f"result-{sweeps}"
        assert run([*asked, "--sweeps", str(sweeps), "--output", str(output)]) == 0
        assert told in words(capsys)
        assert json.loads((output / "summary.json").read_text(encoding="utf-8"))["fit"]["converged"] is known


def test_the_first_fit_says_that_it_compiles_and_later_ones_do_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from numba import njit

    @njit  # type: ignore[untyped-decorator]
    def double(number: float) -> float:
        return 2 * number

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with tell_compiling():
        double(1.0)
        double(np.float32(1))
    assert capsys.readouterr().err.count("compiling (once") == 1
    with tell_compiling():
        double(2.0)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    with tell_compiling():
        double(1)
    assert capsys.readouterr().err == ""


def test_the_doctor_warms_the_usual_kernels(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    done: list[str] = []
    monkeypatch.setattr(warm, "KINDS", {name: lambda name=name: done.append(name) for name in ("CP", "Tucker")})
    monkeypatch.setattr(warm.warm_kernels, "__kwdefaults__", {"kinds": ("CP", "Tucker"), "progress": None})
    assert run(["doctor", "--json"]) == 0
    assert done == []
    capsys.readouterr()
    assert run(["doctor", "--warm", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["warmed"]) == {"CP", "Tucker"}
    assert run(["doctor", "--warm"]) == 0
    assert "compiled: CP, Tucker" in words(capsys)
    assert done == ["CP", "Tucker"] * 2


@pytest.mark.slow
def test_every_usual_kind_of_fit_can_be_warmed() -> None:
    assert set(warm.warm_kernels().seconds) == set(warm.KINDS)

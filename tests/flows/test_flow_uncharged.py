"""Runs that cannot succeed are refused before the charge; those that end after it say what was charged."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.cli.main import run
from tensorveil.errors import CHARGED, STANDS
from tests.flows.private_cases import complete, names, new_ledger, write_table

LONG = "x" * 250


def entries(path: Any) -> Any:
    return tv.Ledger.open(path).entries()


@pytest.mark.parametrize(
    "options",
    [
        ["-o", "/proc/release"],
        ["-o", "x" * 300],
        ["--diagnostics", "/proc/mine"],
        ["--bounds", "0", "5e-324"],
        ["--bounds", "-1.7e308", "1.7e308"],
        ["--max-memory", "1K"],
        ["--max-memory", "300K", "--rank", "2000"],
    ],
)
def test_what_cannot_succeed_is_not_charged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path, ledger = write_table(tmp_path / "ratings.csv"), new_ledger(tmp_path / "ledger")
    assert complete(path, "release", "--ledger", ledger, *options) == 2
    assert entries(ledger) == ()
    assert CHARGED not in capsys.readouterr().err
    assert names(tmp_path) == ["ledger", "ratings.csv"]


def test_a_mode_of_two_thousand_million_rows_is_not_charged(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path / "ledger", "entry")
    tensor = tv.ObservedTensor([[0, 1], [1, 0]], [1.0, 2.0], shape=(2**31 - 1, 2))
    private = tv.PrivateCP(
        8, epsilon=1.0, delta=0.0, unit="entry", bounds=(1, 5), shape=(2**31 - 1, 2), ledger=ledger, method="gram"
    )
    with pytest.raises(tv.TensorveilError, match="memory"):
        private.fit(tensor)
    assert entries(ledger) == ()


@pytest.mark.parametrize(
    ("shape", "target"), [((3, 4), "/proc/r.npy"), ((2, 3, 4), "r.parquet"), ((2, 3, 4), "r.png"), ((3, 4), "x" * 300)]
)
def test_reports_that_cannot_be_written_are_not_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], target: str
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("mine.npy", np.full(shape, 0.5))
    ledger = new_ledger(tmp_path / "ledger", "tensor")
    promise = ["--epsilon", "2", "--unit", "tensor", "--bounds", "0", "1", "--ledger", str(ledger)]
    name = target if "." in target else f"{target}.npy"
    assert run(["perturb", "mine.npy", name, *promise]) == 2
    assert entries(ledger) == ()
    assert names(tmp_path) == ["ledger", "mine.npy"]


def test_two_runs_with_one_output_are_not_both_charged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tensorveil.release.folder import write_folder

    path, ledger = write_table(tmp_path / "ratings.csv"), new_ledger(tmp_path / "ledger")
    with write_folder(tmp_path / "release") as staging:
        (staging / "model.npz").write_text("another run's")
        assert complete(path, tmp_path / "release", "--ledger", ledger) == 2
        assert "another run is writing" in capsys.readouterr().err
    assert entries(ledger) == ()


UNREADABLE = {
    "unnamed.csv": ",user,film,rating\n" + "".join(f"{n},u{n % 4},f{n // 4},{n % 5}\n" for n in range(16)),
    "blank.csv": "user, ,rating\n" + "".join(f"u{n % 4},f{n // 4},{n % 5}\n" for n in range(16)),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_column_without_a_name_makes_no_release(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / name).write_text(UNREADABLE[name])
    ledger = new_ledger(tmp_path / "ledger")
    assert complete(tmp_path / name, tmp_path / "release", "--ledger", ledger) == 2
    assert "has no name" in capsys.readouterr().err
    assert entries(ledger) == ()
    with pytest.raises(tv.InputError, match="has no name"):
        tv.read(tmp_path / name)
    if name == "unnamed.csv":  # named columns can be read as they are
        modes = ["--modes", "user,film"]
        assert complete(tmp_path / name, tmp_path / "release", "--ledger", ledger, *modes) == 0
        tv.load_release(tmp_path / "release")


def test_zero_and_minus_zero_are_one_label(tmp_path: Path) -> None:
    frame = {"place": np.array([0.0, -0.0, 1.0]), "day": np.array([0, 1, 0]), "value": np.array([1.0, 2.0, 3.0])}
    import pyarrow as pa

    tensor = tv.ObservedTensor.from_frame(pa.table(frame))
    assert tensor.shape == (2, 2)
    for name in ("t.npz", "t.parquet", "t.csv"):
        tensor.write(tmp_path / name)
        assert tv.read(tmp_path / name).shape == (2, 2)
    private = tv.PrivateCP(1, epsilon=5.0, delta=0.0, unit="value", bounds=(0, 5)).fit(tensor)
    tv.load_release(tv.write_release(private, tmp_path / "release"))


def test_a_release_is_read_back_before_it_is_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tensorveil.models import CPModel

    path, ledger = write_table(tmp_path / "ratings.csv"), new_ledger(tmp_path / "ledger")
    save = CPModel.save

    def spoil(model: Any, place: Any) -> None:
        save(model, place)
        place.write_bytes(place.read_bytes()[:-30])

    monkeypatch.setattr(CPModel, "save", spoil)
    assert complete(path, tmp_path / "release", "--ledger", ledger) == 2
    assert CHARGED in capsys.readouterr().err
    assert [charge.status for charge in entries(ledger)] == ["spent, release unknown"]
    assert names(tmp_path) == ["ledger", "ratings.csv"]


WAITING = """
import sys, time
from tensorveil.cli import main
from {module} import {owner}
real = {owner}.{name}
def stuck(*given, **more):
    if {first}:
        real(*given, **more)
    print("now", flush=True)
    time.sleep(60)
{owner}.{name} = stuck
main.main()
"""
MOMENTS = {
    "charged": {"module": "tensorveil.privacy", "owner": "Ledger", "name": "charge", "first": True},
    "fitting": {"module": "tensorveil.completion.central", "owner": "CentralJob", "name": "run", "first": False},
    "writing": {"module": "tensorveil.models", "owner": "CPModel", "name": "save", "first": False},
    "confirmed": {"module": "tensorveil.privacy", "owner": "Ledger", "name": "confirm", "first": True},
}


@pytest.mark.parametrize(
    ("sent", "moment"),
    [("INT", "charged"), ("INT", "confirmed"), ("TERM", "fitting"), ("TERM", "confirmed"), ("HUP", "writing")],
)
def test_a_run_that_is_ended_after_the_charge_says_so(tmp_path: Path, moment: str, sent: str) -> None:
    path, ledger = write_table(tmp_path / "ratings.csv"), new_ledger(tmp_path / "ledger")
    promise = ["--epsilon", "2", "--unit", "value", "--bounds", "1", "5", "--value", "rating", "--rank", "1"]
    places = ["--ledger", str(ledger), "-o", str(tmp_path / "release"), "--method", "mean", "--no-report"]
    command = [sys.executable, "-c", WAITING.format(**MOMENTS[moment]), "complete", str(path), *promise, *places]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "now\n"
        process.send_signal(getattr(signal, f"SIG{sent}"))
        _, err = process.communicate(timeout=30)
    assert process.returncode == {"INT": 130, "TERM": 143, "HUP": 129}[sent], err
    (charge,) = entries(ledger)
    assert CHARGED in err
    assert f"It is charge {charge.release_id} in {ledger}." in err
    stands = moment == "confirmed"
    assert (STANDS in err) == (tmp_path / "release").exists() == stands
    assert ("nothing was written" in err) == (sent == "INT" and not stands)
    assert not [name for name in names(tmp_path) if name.endswith(".part")]


def test_python_is_told_where_no_run_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorveil.completion.central import CentralJob

    def fail(*_: Any) -> None:
        raise MemoryError

    path, ledger = write_table(tmp_path / "ratings.csv"), new_ledger(tmp_path / "ledger")
    private = tv.PrivateCP(1, epsilon=1.0, delta=0.0, unit="value", bounds=(1, 5), ledger=ledger)
    tensor = tv.read(path, value="rating")
    with monkeypatch.context() as patch:
        patch.setattr(CentralJob, "run", fail)
        with pytest.raises(MemoryError) as caught:
            private.fit(tensor)
    assert private.release_id_ in caught.value.__notes__[0]
    private.fit(tensor)
    with pytest.raises(tv.InputError) as refused:
        tv.write_release(private, "/proc/release")
    assert private.release_id_ in refused.value.__notes__[0]
    tv.write_release(private, tmp_path / "release")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("options", [[], ["--json"]])
@pytest.mark.parametrize("verb", ["complete", "perturb"])
def test_a_full_disk_under_what_is_printed_does_not_hide_a_release(tmp_path: Path, verb: str, options: Any) -> None:
    out, unit, bounds = str(tmp_path / "out.npy"), "tensor", ("0", "1")
    np.save(tmp_path / "mine.npy", np.full((3, 4), 0.5))
    words = ["perturb", str(tmp_path / "mine.npy"), out]
    if verb == "complete":
        unit, bounds, path = "value", ("1", "5"), write_table(tmp_path / "ratings.csv")
        words = ["complete", str(path), "-o", out, "--method", "mean", "--value", "rating", "--no-report"]
    ledger = new_ledger(tmp_path / "ledger", unit)
    words += ["--epsilon", "1", "--unit", unit, "--bounds", *bounds]
    command = [sys.executable, "-m", "tensorveil", *words, "--ledger", str(ledger), *options]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert CHARGED in done.stderr
    assert f"{STANDS} {out}." in done.stderr


def test_a_ledger_that_cannot_note_a_release_does_not_contradict_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tensorveil.privacy import Ledger, LedgerError

    def fail(*_: Any) -> None:
        raise LedgerError("the ledger is in use by another process. Release nothing; try again.")

    monkeypatch.setattr(Ledger, "confirm", fail)
    path, ledger = write_table(tmp_path / "ratings.csv"), new_ledger(tmp_path / "ledger")
    assert complete(path, tmp_path / "release", "--ledger", ledger) == 2
    told = capsys.readouterr().err
    assert "Release nothing" not in told
    assert f"{STANDS} {tmp_path / 'release'}." in told


def test_what_a_killed_run_left_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_table(tmp_path / "ratings.csv")
    left = tmp_path / ".release.0123456789abcdef.part"
    left.mkdir()
    assert complete(path, tmp_path / "release") == 0
    assert f"What it left, {left}," in capsys.readouterr().err
    left.rmdir()
    assert complete(path, tmp_path / "other") == 0
    assert "killed" not in capsys.readouterr().err

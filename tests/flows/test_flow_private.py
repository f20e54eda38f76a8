"""From a table to a release folder, privately: what is written, what is said, and what never is."""

from __future__ import annotations

import json
import math
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pytest

from tensorveil.cli.main import run
from tensorveil.completion import PrivateCP
from tensorveil.errors import InputError
from tensorveil.models import CPModel
from tensorveil.privacy import Ledger
from tensorveil.release import fill
from tensorveil.release.release import load_release
from tensorveil.tensor import read, write
from tests.flows.private_cases import (
    RELEASE,
    SECRET,
    SHAPE,
    UUID,
    assert_nothing_private,
    complete,
    names,
    new_ledger,
    write_table,
)
from tests.released import mask_released


def test_values_from_a_table_to_a_release(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, output = write_table(tmp_path / "ratings.csv"), tmp_path / "release"
    ledger = new_ledger(tmp_path / "ratings.ledger")
    assert complete(path, output, "--ledger", ledger, "--purpose", "first look") == 0
    captured = capsys.readouterr()
    words = " ".join(captured.out.split())
    model, guarantee = load_release(output)
    assert guarantee.sentence() in words
    assert "chosen by auto" in words
    assert "No --ledger" not in captured.err
    assert names(output) == RELEASE
    assert guarantee.private
    assert (guarantee.epsilon, guarantee.delta, str(guarantee.unit)) == (2.0, 0.0, "value")
    assert (model.shape, model.bounds) == (SHAPE, (1.0, 5.0))
    assert isinstance(model, CPModel)
    labels = model.modes[0].labels
    assert labels is not None
    assert labels.tolist()[:2] == ["u00", "u01"]
    filled = pyarrow.csv.read_csv(output / "filled.csv")
    assert filled.num_rows == math.prod(SHAPE) - read(path).n_entries
    cells = {name: filled.column(name).to_pylist() for name in ("user", "film")}
    np.testing.assert_allclose(model.predict_labels(cells), filled.column("rating").to_numpy())
    (charge,) = Ledger.open(ledger).entries()
    assert (charge.status, charge.purpose) == ("released", "first look")
    card = (output / "MODEL_CARD.md").read_text()
    assert card.splitlines()[2] == f"**{guarantee.sentence()}**"
    assert_nothing_private(output, captured.out, captured.err)


def test_entries_are_filled_everywhere_and_have_no_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, output = write_table(tmp_path / "ratings.csv", indices=True), tmp_path / "release"
    assert complete(path, output, "--delta", "1e-6", "--json", unit="entry") == 0
    captured = capsys.readouterr()
    facts = json.loads(captured.out)
    assert (facts["method"], facts["shape"], facts["filled"]) == ("crosstabs", list(SHAPE), math.prod(SHAPE))
    assert facts["guarantee"]["unit"] == "entry"
    assert (facts["ledger"], facts["expected"]) == (None, [])
    assert "nothing keeps count" in captured.err
    model, _ = load_release(output)
    assert all(mode.labels is None for mode in model.modes)
    assert pyarrow.csv.read_csv(output / "filled.csv").num_rows == math.prod(SHAPE)
    assert facts["files"] == names(output) == RELEASE
    assert_nothing_private(output, captured.out, captured.err)


@pytest.mark.parametrize(
    ("unit", "options"),
    [
        ("value", ["--method", "input", "--model", "tucker"]),
        ("value", ["--method", "tables", "--delta", "1e-6"]),
        ("value", ["--private-shape", "14,9", "--duplicates", "error", "--missing", "drop"]),
        ("entry", ["--model", "tucker", "--method", "gram"]),
    ],
)
def test_methods_and_models_may_be_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], unit: Any, options: Any
) -> None:
    path = write_table(tmp_path / "ratings.csv", indices=unit == "entry")
    assert complete(path, tmp_path / "release", *options, unit=unit, epsilon=10) == 0
    captured = capsys.readouterr()
    assert ("as asked" in captured.out) == ("--method" in options)
    assert load_release(tmp_path / "release")[1].private
    assert_nothing_private(tmp_path / "release", captured.out, captured.err)


DROPPED: dict[str, Any] = {"out_of_range": "drop", "missing": "drop", "duplicates": "keep"}


@pytest.mark.parametrize("ending", [".tns", ".npz", ".parquet"])
def test_entries_in_other_kinds_of_files(tmp_path: Path, capsys: pytest.CaptureFixture[str], ending: Any) -> None:
    tensor = read(write_table(tmp_path / "ratings.csv", indices=True), labels=False, shape=SHAPE)
    write(tensor, tmp_path / f"plain{ending}")
    assert complete(tmp_path / f"plain{ending}", tmp_path / "release", "--value", tensor.value_name, unit="entry") == 0
    assert names(tmp_path / "release") == RELEASE
    if ending == ".tns":
        return
    # Labels that were read off the data are refused, after any number of files.
    labelled = read(write_table(tmp_path / "labelled.csv"), value="rating", duplicates="keep")
    write(labelled, tmp_path / f"labelled{ending}")
    if ending == ".parquet":
        # Whoever names columns reads a table, and text is no index; as it is, the tensor is refused.
        assert read(tmp_path / "labelled.parquet", value="rating", labels=False, shape=SHAPE, **DROPPED).n_entries == 0
        again = read(tmp_path / "labelled.parquet")
        with pytest.raises(InputError, match="public list"):
            PrivateCP(1, epsilon=1.0, delta=0.0, unit="entry", bounds=(1, 5), shape=again.shape).fit(again)
        return
    assert complete(tmp_path / f"labelled{ending}", tmp_path / "other", unit="entry") == 2
    assert not (tmp_path / "other").exists()


def test_only_the_cells_asked_for_or_none(tmp_path: Path) -> None:
    asked = tmp_path / "asked.csv"
    for unit in ("value", "entry"):
        path = write_table(tmp_path / f"{unit}.csv", indices=unit == "entry")
        if unit == "value":
            asked.write_text("film,user\n3,u01\n")
            assert complete(path, tmp_path / "value-asked", "--at", asked) == 0
            assert pyarrow.csv.read_csv(tmp_path / "value-asked" / "filled.csv").num_rows == 1
        assert complete(path, tmp_path / f"{unit}-none", "--no-fill", unit=unit) == 0
        assert names(tmp_path / f"{unit}-none") == [name for name in RELEASE if name != "filled.csv"]


@pytest.mark.parametrize(
    ("unit", "one", "other"),
    [
        # Other values at the same positions; values far outside of the bounds; in unit entry, other entries.
        ("value", {"seed": 1}, {"seed": 2}),
        ("value", {"seed": 1}, {"seed": 2, "scale": 1000}),
        ("entry", {"seed": 1, "keep": 0.3, "indices": True}, {"seed": 2, "keep": 0.8, "indices": True}),
    ],
)
@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_what_is_said_does_not_depend_on_what_is_private(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], unit: Any, one: Any, other: Any, as_json: Any
) -> None:
    said, written = [], []
    for number, facts in enumerate((one, other)):
        place = tmp_path / str(number)
        place.mkdir()
        path = write_table(place / "ratings.csv", **facts)
        ledger = new_ledger(place / "ratings.ledger", unit)
        capsys.readouterr()
        # Stages decide by released numbers, so the method is one that has nothing to decide.
        method = ["--method", "mean" if unit == "value" else "gram"]
        options = ["--ledger", ledger, "--diagnostics", place / "mine", *method, *as_json]
        assert complete(path, place / "release", *options, unit=unit) == 0
        captured = capsys.readouterr()
        said.append([mask_released(UUID.sub("ID", text)).replace(str(place), "PLACE") for text in captured])
        release = place / "release"
        # Digests are of files that hold noise.
        texts = [(release / name).read_text() for name in ("MODEL_CARD.md", "guarantee.json")]
        written.append([mask_released(re.sub("[0-9a-f]{64}", "DIGEST", text)) for text in texts])
    assert said[0] == said[1]
    assert written[0] == written[1]
    text = "".join(said[0])
    for word in ("train", "clipped", "outside", "seconds"):
        assert word not in text


def test_diagnostics_go_elsewhere_and_say_what_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_table(tmp_path / "ratings.csv", scale=1)
    assert complete(path, tmp_path / "release", "--diagnostics", tmp_path / "mine") == 0
    captured = capsys.readouterr()
    assert names(tmp_path / "mine") == ["DO_NOT_PUBLISH-report.html", "DO_NOT_PUBLISH.txt", "diagnostics.json"]
    facts = json.loads((tmp_path / "mine" / "diagnostics.json").read_text())
    assert facts["entries"] == read(path).n_entries == sum(facts["histogram"]["counts"])
    assert facts["train_rmse"] > 0
    assert_nothing_private(tmp_path / "release", captured.out, captured.err)
    for inside in ("release/mine", "again"):
        assert complete(path, tmp_path / "again", "--diagnostics", tmp_path / inside) == 2
        assert not (tmp_path / "again").exists()


BROKEN = [
    (f"u00,0,1.{SECRET}\n", []),
    (f"u99,3,1.{SECRET},9\n", []),
    ("", ["--max-cells", "3"]),
    ("", ["--private-shape", "3,3"]),
    ("", ["--value", "stars"]),
]


@pytest.mark.parametrize(("row", "options"), BROKEN)
@pytest.mark.parametrize("debug", [[], ["--debug"]])
def test_errors_quote_nothing_and_cost_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], row: Any, options: Any, debug: Any
) -> None:
    path = write_table(tmp_path / "ratings.csv")
    path.write_text(path.read_text() + row)
    ledger = new_ledger(tmp_path / "ratings.ledger")
    capsys.readouterr()
    assert complete(path, tmp_path / "release", "--ledger", ledger, *options, *debug) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert SECRET not in captured.err
    assert "u99" not in captured.err
    assert Ledger.open(ledger).entries() == ()
    assert names(tmp_path) == ["ratings.csv", "ratings.ledger"]


def test_debug_shows_where_but_not_what(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError(f"cannot cope with {SECRET}") from ValueError(SECRET)

    monkeypatch.setattr(PrivateCP, "fit", fail)
    assert complete(write_table(tmp_path / "ratings.csv"), tmp_path / "release", "--debug") == 1
    err = capsys.readouterr().err
    assert "release_privately" in err
    assert "RuntimeError" in err
    assert SECRET not in err


def test_a_charge_beyond_the_budget_is_refused_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, ledger = write_table(tmp_path / "ratings.csv"), new_ledger(tmp_path / "ratings.ledger")
    assert complete(path, tmp_path / "one", "--ledger", ledger) == 0
    assert complete(path, tmp_path / "two", "--ledger", ledger) == 2
    err = capsys.readouterr().err
    assert "exceed the budget" in err
    assert "never taken back" not in err
    assert len(Ledger.open(ledger).entries()) == 1
    assert not (tmp_path / "two").exists()
    # A folder that is taken is refused before the charge.
    assert complete(path, tmp_path / "one", "--ledger", ledger, epsilon=0.5) == 2
    assert len(Ledger.open(ledger).entries()) == 1


@pytest.mark.parametrize("unit", ["entry", None])
def test_the_ledger_must_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str], unit: Any) -> None:
    path, ledger = write_table(tmp_path / "ratings.csv"), tmp_path / "ratings.ledger"
    if unit:
        new_ledger(ledger, unit)
    assert complete(path, tmp_path / "release", "--ledger", ledger) == 2
    assert "ledger" in capsys.readouterr().err
    assert not (tmp_path / "release").exists()


@pytest.mark.parametrize(("error", "code"), [(OSError(28, "No space left on device"), 1), (KeyboardInterrupt(), 130)])
def test_a_failing_write_keeps_the_charge_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, error: Any, code: Any
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    path, ledger = write_table(tmp_path / "ratings.csv"), new_ledger(tmp_path / "ratings.ledger")
    monkeypatch.setattr(fill, "write_table", fail)
    assert complete(path, tmp_path / "release", "--ledger", ledger) == code
    assert "never taken back" in capsys.readouterr().err
    (charge,) = Ledger.open(ledger).entries()
    assert charge.status == "spent, release unknown"
    assert names(tmp_path) == ["ratings.csv", "ratings.ledger"]


STUCK = """
import sys, time
from tensorveil.cli import main
from tensorveil.runs import private
def stuck(estimator, *rest, **options):
    print("charged", flush=True)
    time.sleep(60)
private.fill_release = stuck
path, ledger, output = sys.argv[1:]
sys.argv = ["tensorveil", "complete", path, "--value", "rating", "--epsilon", "1",
            "--unit", "value", "--bounds", "1", "5", "--rank", "1",
            "--ledger", ledger, "-o", output]
main.main()
"""


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_a_kill_between_charge_and_release_leaves_the_charge(tmp_path: Path, sent: Any) -> None:
    path, ledger = write_table(tmp_path / "ratings.csv"), new_ledger(tmp_path / "ratings.ledger")
    command = [sys.executable, "-c", STUCK, str(path), str(ledger), str(tmp_path / "release")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "charged\n"
        process.send_signal(sent)
        process.communicate(timeout=30)
    (charge,) = Ledger.open(ledger).entries()
    assert charge.status == "spent, release unknown"
    assert not (tmp_path / "release").exists()


def test_a_release_is_never_overwritten_by_an_open_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, output = write_table(tmp_path / "ratings.csv"), tmp_path / "release"
    assert complete(path, output) == 0
    assert run(["complete", str(path), "-o", str(output), "--rank", "1", "--solver", "als", "--force"]) == 2
    assert "other files" in capsys.readouterr().err
    assert names(output) == RELEASE


def test_predict_answers_from_a_release(tmp_path: Path) -> None:
    assert complete(write_table(tmp_path / "ratings.csv"), tmp_path / "release", "--no-fill") == 0
    (tmp_path / "asked.csv").write_text("film,user\n3,u01\n")
    model, asked, answers = (str(tmp_path / name) for name in ("release/model.npz", "asked.csv", "answers.csv"))
    assert run(["predict", model, "--at", asked, "-o", answers]) == 0
    assert 1 <= pyarrow.csv.read_csv(answers).column("rating")[0].as_py() <= 5

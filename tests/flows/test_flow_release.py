"""The release folder as written from Python."""

from __future__ import annotations

import dataclasses
import json
import re
import socket
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pytest

from tensorveil.completion import CP, PrivateCP, PrivateTucker
from tensorveil.errors import InputError, NotFittedError
from tensorveil.models import CPModel, TuckerModel
from tensorveil.privacy import Budget, Ledger, LedgerError
from tensorveil.release import release
from tensorveil.release.diagnostics import write_diagnostics
from tensorveil.release.fill import Fill
from tensorveil.release.release import load_release, write_release
from tensorveil.tensor import Mode, ObservedTensor

FILES = ["MODEL_CARD.md", "guarantee.json", "model.npz", "report.html"]
FILL = Fill(coords=[[0, 0], [9, 7]], format="csv")


def observed(labels: bool = True) -> Any:
    rng = np.random.default_rng(0)
    coords = np.argwhere(rng.random((10, 8)) < 0.6)
    modes = (Mode("user | id", [f"u{i}" for i in range(10)] if labels else None), Mode("film"))
    return ObservedTensor(coords, rng.uniform(1, 5, len(coords)), (10, 8), modes=modes)


def fitted(kind: Any = PrivateCP, **options: Any) -> Any:
    promise = {"epsilon": 3.0, "delta": 0.0, "unit": "value", "bounds": (1, 5), "method": "input", "sweeps": 3}
    return kind(2, **(promise | options)).fit(observed(labels=options.get("unit") != "entry"))


def names(folder: Path) -> Any:
    return sorted(found.name for found in folder.iterdir())


@pytest.mark.parametrize("kind", [PrivateCP, PrivateTucker])
def test_what_is_written_is_read_again(tmp_path: Path, kind: Any) -> None:
    estimator = fitted(kind)
    assert write_release(estimator, tmp_path / "release") == tmp_path / "release"
    model, guarantee = load_release(tmp_path / "release")
    assert guarantee == estimator.guarantee_
    facts = json.loads((tmp_path / "release" / "guarantee.json").read_text())
    assert sorted(facts["files"]) == [name for name in FILES if name != "guarantee.json"]
    assert {name: facts[name] for name in guarantee.to_json() if name != "digest"} == {
        name: fact for name, fact in guarantee.to_json().items() if name != "digest"
    }
    assert isinstance(model, CPModel | TuckerModel)
    np.testing.assert_array_equal(model.dense(), estimator.model_.dense())
    assert names(tmp_path / "release") == FILES
    card = (tmp_path / "release" / "MODEL_CARD.md").read_text()
    for words in (
        "value: neighbours replace one value",
        "1 to 5, declared",
        "input perturbation",
        "user \\| id",
        "load_",
    ):
        assert words in card
    for part in guarantee.composition:
        assert f"| {part.name} | {part.statistic} |" in card


def test_the_card_says_no_more_than_the_facts_it_is_made_of(tmp_path: Path) -> None:
    """Two fits of other values have the same card, but for what is released of errors and of what was measured."""
    one, other = fitted(), PrivateCP(2, epsilon=3.0, delta=0.0, unit="value", bounds=(1, 5), method="input", sweeps=3)
    other.fit(observed().with_values(np.full(observed().n_entries, 4.25)))
    cards = []
    for number, estimator in enumerate((one, other)):
        write_release(estimator, tmp_path / str(number))
        card = (tmp_path / str(number) / "MODEL_CARD.md").read_text()
        for released in (*estimator.notes_, f"RMSE about {estimator.estimated_rmse_:.3g}"):
            card, times = re.subn(rf"(?<![\d.]){re.escape(released)}(?![\d.])", "RELEASED", card)
            assert times
        cards.append(card)
    assert cards[0] == cards[1]


@pytest.mark.parametrize("kind", ["csv", "parquet", "png"])
def test_a_release_holds_no_time_place_or_name_of_whoever_wrote_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Written twice, at other times, in another place and by another user, it is the same to the byte."""
    estimator = fitted()
    fill = dataclasses.replace(FILL, format=kind)
    first = write_release(estimator, tmp_path / "first", fill=fill)
    monkeypatch.setenv("USER", "somebody")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    monkeypatch.setattr(time, "time", lambda: 2e9)
    monkeypatch.setattr(time, "localtime", lambda *_: time.gmtime(2e9))
    (tmp_path / "elsewhere").mkdir()
    second = write_release(estimator, tmp_path / "elsewhere" / "second", fill=fill)
    assert names(first) == names(second)
    for name in names(first):
        content = (first / name).read_bytes()
        assert content == (second / name).read_bytes()
        assert str(tmp_path).encode() not in content
        if len(socket.gethostname()) > 4:  # a shorter name is in some compressed file by chance
            assert socket.gethostname().encode() not in content


def test_sizes_of_model_files_do_not_follow_the_entries(tmp_path: Path) -> None:
    """In unit entry, a data set and the same with one entry less leave the same files but for noise."""
    whole, sizes, facts = observed(labels=False), [], []
    for number, data in enumerate((whole, whole.take(np.arange(whole.n_entries) > 0))):
        promise: dict[str, Any] = {
            "epsilon": 3.0,
            "delta": 0.0,
            "unit": "entry",
            "bounds": (1, 5),
            "shape": (10, 8),
            "sweeps": 2,
            "method": "gram",  # what others measure next follows from their noise
        }
        folder = write_release(PrivateCP(2, **promise).fit(data), tmp_path / str(number))
        with zipfile.ZipFile(folder / "model.npz") as archive:
            # The header is text, as long as the digits of the noisy offset.
            sizes.append(
                {each.filename: each.file_size for each in archive.infolist() if each.filename != "header.json"}
            )
        facts.append(json.loads((folder / "guarantee.json").read_text()))
        for name in ("files", "digest"):
            del facts[-1][name]
    assert sizes[0] == sizes[1]
    assert facts[0] == facts[1]


def test_nothing_is_overwritten_and_an_empty_folder_may_be_used(tmp_path: Path) -> None:
    estimator, target = fitted(), tmp_path / "release"
    target.mkdir()
    write_release(estimator, target)
    with pytest.raises(InputError, match="never overwritten"):
        write_release(estimator, target)
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for taken in ("file", "link"):
        with pytest.raises(InputError, match="already exists"):
            write_release(estimator, tmp_path / taken)
    with pytest.raises(InputError, match="does not exist"):
        write_release(estimator, tmp_path / "absent" / "release")
    assert names(target) == FILES


def test_a_folder_that_fills_meanwhile_is_spared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def intrude(path: Path, model: Any, fill: Any) -> None:
        (tmp_path / "release").mkdir()
        (tmp_path / "release" / "theirs").write_text("theirs")

    monkeypatch.setattr(release, "write_fill", intrude)
    with pytest.raises(InputError, match="already exists"):
        write_release(fitted(), tmp_path / "release", fill=FILL)
    assert names(tmp_path) == ["release"]
    assert names(tmp_path / "release") == ["theirs"]


def test_seeded_noise_is_refused_or_marked_everywhere(tmp_path: Path) -> None:
    estimator = fitted(noise_seed=1)
    with pytest.raises(InputError, match="not private"):
        write_release(estimator, tmp_path / "release")
    assert list(tmp_path.iterdir()) == []
    write_release(estimator, tmp_path / "release", allow_not_private=True, fill=FILL)
    assert all(name.startswith("NOT-PRIVATE-") for name in names(tmp_path / "release"))
    assert len(names(tmp_path / "release")) == 5
    assert (tmp_path / "release" / "NOT-PRIVATE-MODEL_CARD.md").read_text().startswith("# NOT PRIVATE")
    assert not load_release(tmp_path / "release")[1].private
    for name in names(tmp_path / "release"):  # taking the mark off does not help
        path = tmp_path / "release" / name
        path.rename(path.with_name(name.removeprefix("NOT-PRIVATE-")))
    with pytest.raises(InputError, match="contradicts"):
        load_release(tmp_path / "release")


@pytest.mark.parametrize("status", ["claimed", "refuted"])
def test_what_is_not_proven_is_refused(tmp_path: Path, status: Any) -> None:
    estimator = fitted()
    estimator.guarantee_ = dataclasses.replace(estimator.guarantee_, status=status)
    with pytest.raises(InputError, match="not private"):
        write_release(estimator, tmp_path / "release")


def test_the_model_must_be_the_one_that_the_guarantee_speaks_of(tmp_path: Path) -> None:
    estimator = fitted()
    newcomer = ObservedTensor([[0, 1], [0, 2]], [5.0, 1.0], (1, 8), modes=[Mode("user | id", ["new"]), Mode("film")])
    estimator.model_ = estimator.fold_in(newcomer, 0, regularization=1.0)
    with pytest.raises(InputError, match="no longer the one"):
        write_release(estimator, tmp_path / "release")
    estimator = fitted()
    estimator.model_ = estimator.private_model_ = dataclasses.replace(estimator.model_, bounds=(0.0, 9.0))
    with pytest.raises(InputError, match="different bounds"):
        write_release(estimator, tmp_path / "release")
    estimator = fitted(unit="entry", shape=(10, 8), method="auto")
    estimator.model_ = estimator.private_model_ = dataclasses.replace(estimator.model_, modes=observed().modes)
    with pytest.raises(InputError, match="no labels"):
        write_release(estimator, tmp_path / "release")
    with pytest.raises(NotFittedError):
        write_release(PrivateCP(2, epsilon=1.0, delta=0.0, unit="value", bounds=(1, 5)), tmp_path / "release")
    with pytest.raises(InputError, match="PrivateCP"):
        write_release(CP(2), tmp_path / "release")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_filled_cells_are_the_models_predictions(tmp_path: Path) -> None:
    estimator = fitted()
    folder = write_release(estimator, tmp_path / "release", fill=FILL, report=False)
    assert names(folder) == ["MODEL_CARD.md", "filled.csv", "guarantee.json", "model.npz"]
    table = pyarrow.csv.read_csv(folder / "filled.csv")
    np.testing.assert_allclose(table.column("value").to_numpy(), estimator.predict(FILL.coords))
    assert "`filled.csv`" in (folder / "MODEL_CARD.md").read_text()


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ({"coords": [[0, 0]], "format": "../more.csv"}, "format must be one of"),
        ({"coords": [[0, 8]]}, "inside the model's shape"),
        ({"coords": [0, 1]}, "one column per mode"),
        ({"coords": [[0.5, 1.0]]}, "integers"),
    ],
)
def test_cells_that_cannot_be_filled_leave_nothing(tmp_path: Path, cells: Any, words: Any) -> None:
    with pytest.raises(InputError, match=words):
        write_release(fitted(), tmp_path / "release", fill=Fill(**cells))
    assert list(tmp_path.iterdir()) == []


def test_the_ledger_hears_of_the_release_when_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger.create(tmp_path / "x.ledger", budget=Budget(epsilon=9.0, delta=0.0), unit="value", name="ratings")
    estimator = fitted(ledger=ledger)
    assert ledger.entries()[0].status == "spent, release unknown"

    def fail(path: Path, model: Any, fill: Any) -> None:
        raise RuntimeError

    monkeypatch.setattr(release, "write_fill", fail)
    with pytest.raises(RuntimeError):
        write_release(estimator, tmp_path / "release", fill=FILL)
    assert ledger.entries()[0].status == "spent, release unknown"
    write_release(estimator, tmp_path / "release")
    assert ledger.entries()[0].status == "released"
    (tmp_path / "x.ledger").unlink()
    with pytest.raises(LedgerError, match="could not note that the release was written"):
        write_release(estimator, tmp_path / "second")
    assert names(tmp_path / "second") == FILES


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda place: (place / "guarantee.json").unlink(), "holds no guarantee.json"),
        (lambda place: (place / "guarantee.json").write_bytes(b"\xff\xfe\x80"), "no text"),
        (lambda place: (place / "guarantee.json").write_text("{}"), "incomplete"),
        (lambda place: (place / "model.npz").unlink(), "not found"),
    ],
)
def test_a_broken_release_is_not_loaded(tmp_path: Path, change: Any, words: Any) -> None:
    write_release(fitted(), tmp_path / "release")
    change(tmp_path / "release")
    with pytest.raises(InputError, match=words):
        load_release(tmp_path / "release")


def test_diagnostics_stay_out_of_releases(tmp_path: Path) -> None:
    estimator = fitted()
    write_release(estimator, tmp_path / "release")
    with pytest.raises(InputError, match="inside a release"):
        write_diagnostics(tmp_path / "release" / "mine", estimator, observed())
    write_diagnostics(tmp_path / "mine", estimator, observed(), held_out=observed(), more={"seconds": 1.5})
    facts = json.loads((tmp_path / "mine" / "diagnostics.json").read_text())
    assert facts["held_out_rmse"] == facts["train_rmse"] == pytest.approx(estimator.rmse(observed()))
    assert facts["seconds"] == 1.5
    assert "do not publish" in facts["warning"]
    assert names(tmp_path / "release") == FILES

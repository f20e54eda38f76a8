from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensorveil.errors import InputError
from tensorveil.models import CPModel, load_model, storage
from tensorveil.tensor import Mode
from tests.unit.models.model_cases import random_model

LABELS = [
    Mode("text", ["ann", "bób", "", "日本"]),
    Mode("number", [5, -3, 10**12, 0, 7]),
    Mode("day", np.array(["2024-01-01", "2024-01-02", "2024-02-01"], dtype="datetime64[D]")),
]


@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("bounds", [None, (-1.0, 1.5)])
def test_a_model_survives_its_file(kind: Any, tmp_path: Path, biases: Any, bounds: Any) -> None:
    model = random_model(kind, modes=LABELS, biases=biases, bounds=bounds)
    model.save(tmp_path / "model.npz")
    again = load_model(tmp_path / "model.npz")
    assert type(again) is type(model)
    assert (again.offset, again.bounds) == (model.offset, model.bounds)
    for mine, its in zip(model.modes, again.modes, strict=True):
        assert mine == its
        assert mine.labels is not None
        assert its.labels is not None
        assert mine.labels.dtype == its.labels.dtype
    np.testing.assert_array_equal(again.dense(), model.dense())
    assert (again.biases is None) == (not biases)


def test_equal_models_make_equal_files_and_floats_keep_their_type(kind: Any, tmp_path: Path) -> None:
    for name in ("one", "two"):
        random_model(kind, dtype=np.float32, modes=LABELS).save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert load_model(str(tmp_path / "one")).dtype == np.float32
    with np.load(tmp_path / "one", allow_pickle=False) as arrays:
        assert arrays["factor_1"].shape == (5, 2)


def edited(path: Path, *, listed: bool = False, **changes: Any) -> None:
    """Rewrite the header of a model file; digests are left out, as in early versions, unless they are to stay."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members["header.json"]) | changes
    if not listed:
        del header["members"]
    members["header.json"] = json.dumps(header).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 99}, "Upgrade"),
        ({"version": "1"}, "format version"),
        ({"format": "other"}, "another format"),
        ({"kind": "train"}, "kind"),
        ({"kind": "tucker"}, "kind"),
        ({"order": 4}, "damaged"),
        ({"order": "x"}, "damaged"),
        ({"bounds": [1]}, "damaged"),
        ({"modes": [{"name": "a", "labels": None}]}, "modes"),
    ],
)
def test_files_of_other_kinds_are_refused(tmp_path: Path, changes: Any, message: Any) -> None:
    path = tmp_path / "model.npz"
    random_model("cp").save(path)
    edited(path, **changes)
    with pytest.raises(InputError, match=message):
        load_model(path)


@pytest.mark.parametrize(
    "changes", [{"offset": 1.0}, {"bounds": [0, 9]}, {"modes": [{"name": "a", "labels": None}] * 3}]
)
def test_a_changed_header_is_noticed(tmp_path: Path, changes: Any) -> None:
    """The archive's checksum of the header is made anew with it; the digest in it is not."""
    path = tmp_path / "model.npz"
    random_model("cp").save(path)
    edited(path, listed=True)
    load_model(path)
    edited(path, listed=True, **changes)
    with pytest.raises(InputError, match="changed"):
        load_model(path)


def test_damaged_and_foreign_files_are_refused(kind: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    model = random_model(kind, modes=LABELS)
    model.save(path)
    whole = path.read_bytes()
    for cut in range(0, len(whole), max(1, len(whole) // 20)):
        path.write_bytes(whole[:cut])
        with pytest.raises(InputError):
            load_model(path)
    start = whole.index(model.factors[0].tobytes())
    path.write_bytes(whole[:start] + b"\0\1" + whole[start + 2 :])
    with pytest.raises(InputError, match="damaged"):
        load_model(path)
    path.write_text("user,film,rating\n")
    with pytest.raises(InputError, match="not a readable tensorveil model"):
        load_model(path)
    np.savez(path, a=np.ones(3))
    with pytest.raises(InputError, match=r"no header\.json"):
        load_model(path)
    with pytest.raises(InputError, match="not found"):
        load_model(tmp_path / "absent.npz")


def test_pickled_objects_are_never_loaded(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    random_model("cp").save(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            if name != "factor_0.npy":
                archive.writestr(name, content)
        with archive.open("factor_0.npy", "w") as member:
            np.lib.format.write_array(member, np.array([[{}]], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="damaged"):
        load_model(path)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.npz"
    random_model("cp").save(path)
    before = path.read_bytes()

    def fail(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(storage, "_add_array", fail)
    with pytest.raises(OSError, match="disk full"):
        random_model("cp", seed=1).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_targets_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    model = CPModel(factors=(np.ones((1, 1)), np.ones((1, 1))))
    with pytest.raises(InputError, match="folder not found"):
        model.save(tmp_path / "absent" / "model.npz")
    with pytest.raises(InputError, match="is a folder"):
        model.save(tmp_path)


@pytest.mark.parametrize("bins", [[], {}, -1, 1.5, True, 10**40, "fortnight", "week"])
def test_bins_that_are_none_are_refused(tmp_path: Path, bins: Any) -> None:
    days = np.array(["2024-01-02", "2024-01-03"], "datetime64[D]")  # no Mondays, and not whole periods of many seconds
    model = CPModel(factors=(np.ones((3, 1)), np.ones((2, 1))), modes=(Mode("user"), Mode("day", days, bins="day")))
    model.save(tmp_path / "model.npz")
    with zipfile.ZipFile(tmp_path / "model.npz") as full, zipfile.ZipFile(tmp_path / "other.npz", "w") as other:
        for name in full.namelist():
            content = full.read(name)
            if name == "header.json":
                header = json.loads(content)
                header["modes"][1]["bins"] = bins
                header.pop("members", None)
                content = json.dumps(header).encode()
            other.writestr(name, content)
    if bins is True:  # a second, as Python counts
        assert load_model(tmp_path / "other.npz").modes[1].bins == 1
        return
    with pytest.raises(InputError, match=r"bins|damaged|digest"):
        load_model(tmp_path / "other.npz")

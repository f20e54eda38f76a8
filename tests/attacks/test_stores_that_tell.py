"""What a store leaves elsewhere: a digest of private data in a checkpoint, exact numbers of users and entries in a log.

A checkpoint's folder was said to tell no more than the release. Whoever has all data but one user's made a store of
each guess, and compared its digest with the one there.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tensorveil as tv
from tensorveil.cli.main import run

SHAPE = (50, 12)
PROMISE: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "unit": "slice:user", "bounds": (1, 5), "shape": SHAPE}


def write_rows(path: Path, *, victim: bool) -> Path:
    users, films = np.divmod(np.arange(40 * 4), 4)
    users, films = np.append(users, 41)[: 160 + victim], np.append(films, 7)[: 160 + victim]
    pq.write_table(pa.table({"user": users, "film": films, "rating": 1.0 + (users + films) % 5}), path)
    return path


def store(folder: Path, name: str, *, victim: bool) -> tv.StoredTensor:
    rules: dict[str, Any] = {"unit": "slice:user", "bounds": (1, 5), "shape": SHAPE, "indices": True}
    rows = write_rows(folder / f"{name}.parquet", victim=victim)
    return tv.write_store(rows, folder / name, order="user", value="rating", **rules)


def begin(stored: tv.StoredTensor, checkpoint: Path) -> None:
    """Run one round more."""

    def stop(done: int, total: int) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        tv.UserLevelCP(1, **PROMISE).fit(stored, checkpoint=checkpoint, progress=stop)


def test_a_checkpoint_does_not_name_the_data(tmp_path: Path) -> None:
    stored = store(tmp_path, "stored", victim=True)
    begin(stored, tmp_path / "rounds")
    left = b"".join(path.read_bytes() for path in (tmp_path / "rounds").iterdir())
    guess = store(tmp_path, "guess", victim=True)
    manifest = json.loads((guess.folder / "manifest.json").read_text())
    known = [guess.digest, *(part["sha256"] for part in manifest["orders"]["user"])]
    assert not any(each.encode() in left for each in known)
    begin(stored, tmp_path / "rounds")  # the owner's store is known
    with pytest.raises(tv.InputError, match="other data"):
        tv.UserLevelCP(1, **PROMISE).fit(guess, checkpoint=tmp_path / "rounds")


def test_a_store_without_a_name_keeps_no_checkpoint(tmp_path: Path) -> None:
    from tensorveil.tensor.stored import digest_facts

    stored = store(tmp_path, "stored", victim=True)
    path = stored.folder / "manifest.json"
    facts = json.loads(path.read_text())
    del facts["name"], facts["digest"]
    path.write_text(json.dumps(facts | {"digest": digest_facts(facts)}))
    with pytest.raises(tv.InputError, match="Make it again"):
        tv.UserLevelCP(1, **PROMISE).fit(tv.StoredTensor.open(stored.folder), checkpoint=tmp_path / "rounds")


def test_what_is_printed_of_a_private_store_was_declared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = {}
    for victim in (True, False):
        rows = write_rows(tmp_path / "rows.parquet", victim=victim)
        asked = ["store", str(rows), "-o", str(tmp_path / "STORE"), "--order", "user", "--unit", "slice:user"]
        asked += ["--bounds", "1", "5", "--value", "rating", "--indices", "--private-shape", "50,12", "--force"]
        for more in ([], ["--json"]):
            assert run([*asked, *more]) == 0
            printed[victim, bool(more)] = capsys.readouterr()
    for as_json in (True, False):
        assert printed[True, as_json] == printed[False, as_json]
    assert json.loads(printed[True, True].out)["modes"] == ["user", "film"]


def test_a_private_store_in_the_place_of_an_open_one_is_closed(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.parquet", victim=True)
    tv.write_store(rows, tmp_path / "stored", order="user", value="rating", indices=True)
    for path in (tmp_path / "stored", *(tmp_path / "stored").rglob("*")):
        path.chmod(0o755)
    rules: dict[str, Any] = {"unit": "slice:user", "bounds": (1, 5), "shape": SHAPE, "indices": True}
    tv.write_store(rows, tmp_path / "stored", order="user", value="rating", force=True, **rules)
    for path in (tmp_path / "stored", *(tmp_path / "stored").rglob("*")):
        assert not path.stat().st_mode & 0o077

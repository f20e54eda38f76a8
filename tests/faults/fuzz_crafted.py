"""Read crafted files and messages one after the other, and say what went wrong: run as a process of its own.

    python -m tests.faults.fuzz_crafted FOLDER PER_SOURCE SEED [GIGABYTES [SOURCE ...]]

A file that is written elsewhere, such as by a new format, joins as one more `Source`: how it is changed, who reads it,
and the good file whose content, or nothing, must come back.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import sqlite3
import sys
import time
import traceback
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tensorveil as tv
from tests.faults import crafted, crafted_binary, havoc
from tests.faults.crafted import pick
from tests.faults.damage import damage, make_files
from tests.faults.judging import read_hdf5_here, same
from tests.memory import read_peak

SECONDS = 20  # of the processor's time: a machine may be busy with other things
Judge = Callable[[Path], Any]


@dataclass(frozen=True, kw_only=True)
class Source:
    """A kind of crafted file: how it is made, what it is called, who reads it, and what must come back if it is read.

    ``original`` is the good file whose content, or nothing, is to be read; or that of one of ``others``, of which the
    changed file may hold so much that it is that file.
    """

    make: Callable[[dict[str, bytes], Any], bytes]
    names: tuple[str, ...]
    judges: tuple[Judge, ...]
    original: Path | None = None
    others: tuple[Path, ...] = ()


class World:
    """Good files of every kind, to be changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        good = folder / "good"
        good.mkdir()
        self.files = {name: path.read_bytes() for name, path in make_files(good).items()}
        self.good = good
        self._shared(good / "s.npz")
        self._released(good / "release")
        self._stored(good / "store")
        self.corpus = havoc.write_corpus(folder / "corpus")
        self._reports(folder / "reports")
        self.ledger = self._ledger(good / "ledger")
        (folder / "at.csv").write_text("user,film,day\na,10,2024-01-01\n")

    def _shared(self, path: Path) -> None:
        from tensorveil.rounds import Recipe, run_recipe

        shape, modes = (30, 20, 6), ("user", "film", "day")
        data = tv.synthetic_cp(shape, 2, random_state=0).train.with_modes(modes)
        self.recipe = Recipe(shape=shape, modes=modes, protect="user", bounds=(0, 1), epsilon=1.0, delta=1e-5)
        self.recipe.finish(run_recipe(self.recipe, [data], None)).save(path)

    def _released(self, path: Path) -> None:
        data = tv.synthetic_cp((6, 5, 4), 2, random_state=0).train
        private = tv.PrivateCP(1, epsilon=3.0, delta=1e-6, unit="value", bounds=(-1, 2), method="mean").fit(data)
        tv.write_release(private, path)

    def _stored(self, path: Path) -> None:
        films = {"film": [f"film {j}" for j in range(5)]}
        rows = [(i, f"film {(i * j) % 5}", float(1 + (i + j) % 5)) for i in range(6) for j in range(4)]
        given = path.parent.parent / "rows.csv"
        given.write_text("user,film,value\n" + "".join(f"{i},{film},{value}\n" for i, film, value in rows))
        rules: Any = {"unit": "slice:user", "bounds": (1, 5), "shape": {"user": 6}, "indices": True, "labels": films}
        tv.write_store(given, path, order=("user", "film"), part_rows=5, **rules)

    def _reports(self, path: Path) -> None:
        from tensorveil.runs.perturb import PerturbRequest, perturb_file

        path.mkdir()
        np.save(path / "mine.npy", np.random.default_rng(1).random((8, 3)))
        request: Any = {"source": path / "mine.npy", "target": path / "r.npy", "unit": "tensor", "bounds": (0, 1)}
        perturb_file(PerturbRequest(epsilon=1.0, owners=True, **request))

    def _ledger(self, path: Path) -> Path:
        from tensorveil.privacy import Pure

        ledger = tv.Ledger.create(path, budget=tv.Budget(epsilon=5.0, delta=0.0), unit="value", name="data")
        for number in range(3):
            ledger.charge(Pure(0.5), "test", f"r{number}")
        return path


def sources(world: World) -> dict[str, Source]:
    """Return every kind of crafted file."""
    from tests.faults.crafted_messages import message_sources

    files, good = world.files, world.good
    private: Any = {
        "modes": ["user", "film", "day"], "value": "value", "labels": False, "shape": (6, 5, 4), "bounds": (0, 5),
        "missing": "drop", "out_of_bounds": "clip", "duplicates": "keep", "out_of_range": "drop",
    }  # fmt: skip
    tensor = (tv.read, lambda path: tv.read(path, **private))
    table = (*tensor, _read_table, _predict_at(world))
    array, model = (_read_array, _perturb(world)), (tv.load_model, _load_shared)

    def changed(change: Any, name: str) -> Any:
        return lambda originals, rng: change(originals[name], rng)

    def made(make: Any, names: tuple[str, ...], judges: Any) -> Source:
        return Source(make=make, names=names, judges=judges)

    archives = {
        name: Source(
            make=changed(crafted.change_archive, name),
            names=(name,),
            judges=(tv.read,) if name == "t.npz" else model,
            original=good / name,
        )
        for name in ("t.npz", "m.npz", "k.npz", "s.npz")
    }
    files["s.npz"] = (good / "s.npz").read_bytes()
    return {
        **archives,
        "npz arrays": made(changed(crafted.change_archive, "a.npz"), ("a.npz",), array),
        "npy": made(changed(crafted.change_npy, "a.npy"), ("a.npy",), array),
        "text": made(crafted.make_text, ("x.csv", "x.tsv", "x.csv", "x.tns"), table),
        "gzip": made(crafted.change_gzip, ("x.csv.gz", "x.tsv.gz", "x.tns.gz", "x.csv"), tensor),
        "png": made(crafted_binary.make_png, ("x.png",), (tv.read, *array)),
        "mat5": made(crafted_binary.make_mat5, ("x.mat",), (tv.read,)),
        "mat4": made(crafted_binary.make_mat4, ("x.mat",), (tv.read,)),
        "hdf5": made(crafted_binary.make_hdf5, ("x.mat",), (tv.read,)),
        "parquet": made(crafted_binary.make_parquet, ("x.parquet",), (*table, *array)),
        "t.parquet": Source(
            make=crafted_binary.change_our_parquet, names=("t.parquet",), judges=(tv.read,), original=good / "t.parquet"
        ),
        "chimera": made(_splice, tuple(files), (*tensor, _read_array, *model)),
        "release": made(_change_release(world), ("r",), (_load_release(world),)),
        "store": made(_change_store(world), ("s",), (_open_store(world),)),
        "reports": made(_change_reports(world), ("d.json",), (_aggregate(world),)),
        "ledger": made(_change_ledger(world), ("ledger",), (_open_ledger(world),)),
        **message_sources(world),
        **_havoc_sources(world, tensor, array, model),
    }


def _havoc_sources(world: World, tensor: Any, array: Any, model: Any) -> dict[str, Source]:
    """Return files that are changed without knowing what they mean: of every kind, and of ours in every variant."""
    plain = {path.name: path.read_bytes() for path in (world.folder / "good").iterdir() if path.is_file()}
    ours = {name: path.read_bytes() for name, path in world.corpus.items()}
    known = havoc.Dictionary.of(plain | ours)

    def changer(content: bytes) -> Any:
        return lambda _, rng: havoc.change_deeply(content, known, rng)

    def judges(name: str) -> Any:
        if name.startswith(("m.", "k.", "s.")):
            return model
        if name.startswith("a."):
            return array
        table = (_read_table, _predict_at(world), _read_list, _read_own(world))
        return (*tensor, *table) if name.endswith((".csv", ".tsv", ".parquet")) else tensor

    files = {
        f"havoc, {name}": Source(make=changer(content), names=(name,), judges=judges(name))
        for name, content in plain.items()
        if name not in ("ledger", "t.npz", "m.npz", "k.npz", "t.parquet")
    }
    sealed = {
        f"havoc, {name}": Source(
            make=changer(content),
            names=(f"x.{name.rpartition('.')[2]}",),
            judges=(tv.load_model,) if name.startswith("model") else (tv.read,),
            original=world.corpus[name],
            others=tuple(
                path
                for other, path in world.corpus.items()
                if other[-4:] == name[-4:] and other.startswith("model") == name.startswith("model")
            ),
        )
        for name, content in ours.items()
    }
    unsealed = {
        f"without digests, {name}": Source(
            make=_changer_of_both(crafted.unseal(content), known),
            names=("x.npz",),
            judges=model if name.startswith(("model", "s.")) else (tv.read,),
        )
        for name, content in {**ours, "s.npz": plain["s.npz"]}.items()
        if name.endswith(".npz") and not name.startswith(("one", "order 6"))
    }
    places = {
        "havoc, release": (_change_release(world, known), _load_release(world)),
        "havoc, store": (_change_store(world, known), _open_store(world)),
        "havoc, reports": (_change_reports(world, known), _aggregate(world)),
        "havoc, ledger": (changer(plain["ledger"]), _open_ledger(world)),
    }
    return {
        **files,
        **sealed,
        **unsealed,
        **{label: Source(make=make, names=("r",), judges=(judge,)) for label, (make, judge) in places.items()},
    }


def _changer_of_both(content: bytes, known: havoc.Dictionary) -> Any:
    return lambda _, rng: (
        crafted.change_archive(content, rng) if rng.integers(2) else havoc.change_deeply(content, known, rng)
    )


def _splice(originals: dict[str, bytes], rng: Any) -> bytes:
    """Put two formats into one file: one after the other, one within the other, the head of one on the other's body."""
    one, other = (originals[pick(rng, sorted(originals))] for _ in range(2))
    at, start = int(rng.integers(len(one))), int(rng.integers(len(other)))
    way = int(rng.integers(6))
    head = int(rng.choice([4, 8, 16, 128, 512]))
    return [
        one + other, one[:at] + other[start:], one[:head] + other[head:], one[:at] + other + one[at:],
        bytes(b if mix == 0 else a for a, b, mix in zip(one, other, rng.integers(0, 50, len(one)), strict=False)),
        other[:head] + one,
    ][way]  # fmt: skip


# Judges: each reads a file, and returns what it found.


def _read_table(path: Path) -> Any:
    from tensorveil.tensor.files.formats import read_table

    return read_table(path) if path.name.endswith((".csv", ".tsv", ".parquet")) else None


def _read_array(path: Path) -> Any:
    from tensorveil.tensor.files.formats import read_array

    return float(np.asarray(read_array(path).values, np.float64).sum())


def _load_shared(path: Path) -> Any:
    from tensorveil.rounds import SharedModel

    model = SharedModel.load(path)
    model.example()
    return model


def _predict_at(world: World) -> Judge:
    from tensorveil.runs.predict import PredictionRun, predict_cells

    def judge(path: Path) -> Any:
        if path.suffix in (".csv", ".tsv", ".parquet"):
            out = world.folder / "answers.csv"
            predict_cells(PredictionRun(model=world.good / "m.npz", at=path, output=out, force=True))

    return judge


def _read_list(path: Path) -> Any:
    from tensorveil.tensor.files.label_files import read_labels

    return len(read_labels(f"{path}:film", "film"))


def _read_own(world: World) -> Judge:
    from tensorveil.rounds import SharedModel
    from tensorveil.runs.people import read_own_table

    shared = SharedModel.load(world.good / "s.npz")
    return lambda path: shared.read_entries(read_own_table(path, shared)).n_entries


def _perturb(world: World) -> Judge:
    from tensorveil.runs.perturb import PerturbRequest, guarantee_path, perturb_file

    def judge(path: Path) -> Any:
        target = world.folder / "report.npy"
        asked: Any = {"epsilon": 1.0, "unit": "tensor", "bounds": (0, 1), "target": target}
        try:
            perturb_file(PerturbRequest(source=path, owners=bool(len(path.name) % 2), **asked))
        finally:
            target.unlink(missing_ok=True)
            guarantee_path(target).unlink(missing_ok=True)

    return judge


def _change_release(world: World, known: havoc.Dictionary | None = None) -> Any:
    parts = {path.name: path.read_bytes() for path in (world.good / "release").iterdir()}

    def make(originals: dict[str, bytes], rng: Any) -> bytes:
        """Return the name of a part, and what it is to hold."""
        from tensorveil.privacy.sealing import seal

        name = pick(rng, ["guarantee.json"] * 4 + sorted(parts))
        if known is not None:
            return bytes(name.encode()) + b"\n" + havoc.change_deeply(parts[name], known, rng)
        if name == "guarantee.json":
            tree = crafted.change_tree(json.loads(parts[name]), rng)
            resealed = rng.random() < 0.6 and isinstance(tree, dict)
            with contextlib.suppress(ValueError, TypeError, RecursionError):
                tree = seal(tree) if resealed else tree
            content: bytes = crafted.write_json(tree, rng)
            return b"+" * int(resealed) + bytes(name.encode()) + b"\n" + content
        change = crafted.change_archive if name == "model.npz" and rng.integers(2) else damage
        return bytes(name.encode()) + b"\n" + bytes(change(parts[name], rng))

    return make


def _load_release(world: World) -> Judge:
    model, guarantee = tv.load_release(world.good / "release")

    def judge(path: Path) -> Any:
        name, _, content = path.read_bytes().partition(b"\n")
        place = world.folder / "released"
        shutil.copytree(world.good / "release", place, dirs_exist_ok=True)
        (place / name.lstrip(b"+").decode()).write_bytes(content)
        found = tv.load_release(place)
        if not name.startswith(b"+") and not (same(found[0], model) and found[1] == guarantee):
            raise AssertionError("changed")

    return judge


def _change_store(world: World, known: havoc.Dictionary | None = None) -> Any:
    place = world.good / "store"
    parts = {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}

    def make(originals: dict[str, bytes], rng: Any) -> bytes:
        """Return the name of a part, and what it is to hold."""
        name: str = pick(rng, ["manifest.json"] * 4 + sorted(parts))
        if known is not None:
            return name.encode() + b"\n" + havoc.change_deeply(parts[name], known, rng)
        if name == "manifest.json":
            tree = crafted.change_tree(json.loads(parts[name]), rng)
            return name.encode() + b"\n" + bytes(crafted.write_json(tree, rng))
        return name.encode() + b"\n" + bytes(damage(parts[name], rng))

    return make


def _open_store(world: World) -> Judge:
    def read(place: Path) -> Any:
        stored = tv.StoredTensor.open(place)
        parts = [stored.read_part(mode, part) for mode in stored.orders for part in stored.parts(mode)]
        return stored.load(), parts, (stored.n_entries, stored.value_name, stored.digest)

    original = read(world.good / "store")

    def judge(path: Path) -> Any:
        name, _, content = path.read_bytes().partition(b"\n")
        place = world.folder / "stored"
        shutil.copytree(world.good / "store", place, dirs_exist_ok=True)
        (place / name.decode()).write_bytes(content)
        if not same(read(place), original):
            raise AssertionError("changed")

    return judge


def _change_reports(world: World, known: havoc.Dictionary | None = None) -> Any:
    text = (world.folder / "reports" / "r.npy.guarantee.json").read_bytes()
    good = json.loads(text)

    def make(originals: dict[str, bytes], rng: Any) -> bytes:
        from tensorveil.privacy.sealing import seal

        if known is not None:
            return havoc.havoc(text, known, rng)
        tree = crafted.change_tree(good, rng)
        with contextlib.suppress(ValueError, TypeError, LookupError, AttributeError, RecursionError):
            tree["guarantee"] = seal(tree["guarantee"])
        return crafted.write_json(tree, rng)

    return make


def _aggregate(world: World) -> Judge:
    from tensorveil.runs.aggregate import AggregateRequest, aggregate_files

    def judge(path: Path) -> Any:
        report, out = world.folder / "theirs.npy", world.folder / "mean.npz"
        shutil.copy(world.folder / "reports" / "r.npy", report)
        shutil.copy(path, world.folder / "theirs.npy.guarantee.json")
        out.unlink(missing_ok=True)
        aggregate_files(AggregateRequest(reports=[report], output=out))

    return judge


def _change_ledger(world: World) -> Any:
    columns = {
        "facts": ("name", "unit", "epsilon", "delta", "created", "identity", "composition", "charges", "head"),
        "charges": ("number", "release_id", "purpose", "event", "charged", "time", "digest", "confirmed"),
    }

    def make(originals: dict[str, bytes], rng: Any) -> bytes:
        """Change a ledger by statements, which may stay unnoticed only where they change nothing."""
        if rng.random() < 0.4:
            return damage(world.ledger.read_bytes(), rng)
        path = world.folder / "changing"
        shutil.copy(world.ledger, path)
        table = pick(rng, sorted(columns))
        column = pick(rng, columns[table])
        item = crafted.hostile(rng)
        if isinstance(item, int) and not -(2**63) <= item < 2**63:
            item = str(item)
        item = item if isinstance(item, int | float | str | None) else json.dumps(item)
        item = item.encode("utf-8", "replace").decode() if isinstance(item, str) else item
        statements: list[tuple[str, Any]] = [
            (f"UPDATE {table} SET {column} = ?", (item,)),
            (f"UPDATE {table} SET {column} = ? WHERE rowid = 1", (item,)),
            (f"UPDATE {table} SET {column} = CAST({column} AS BLOB)", ()), (f"DELETE FROM {table} WHERE rowid = 1", ()),
            (f"ALTER TABLE {table} RENAME COLUMN {column} TO other", ()), (f"DROP TABLE {table}", ()),
            (f"ALTER TABLE {table} RENAME TO t2", ()), (f"CREATE VIEW v AS SELECT * FROM {table}", ()),
            ("PRAGMA user_version = 99", ()), ("PRAGMA application_id = 7", ()), ("PRAGMA auto_vacuum = 2", ()),
            (f"INSERT INTO {table} SELECT * FROM {table}", ()), ("PRAGMA encoding = 'UTF-16'", ()),
            ("CREATE TRIGGER t AFTER INSERT ON charges BEGIN DELETE FROM charges; END", ()),
        ]  # fmt: skip
        with contextlib.closing(sqlite3.connect(path)) as connection, contextlib.suppress(sqlite3.Error):
            connection.execute(*pick(rng, statements))
            connection.commit()
        return path.read_bytes()

    return make


def _open_ledger(world: World) -> Judge:
    def state(ledger: Any) -> Any:
        return ledger.name, str(ledger.unit), ledger.budget, [(c.release_id, c.charged) for c in ledger.entries()]

    known = state(tv.Ledger.open(world.ledger))

    def judge(path: Path) -> Any:
        from tensorveil.privacy import Pure

        found = tv.Ledger.open(path)
        if state(found) != known:
            raise AssertionError("changed")
        found.charge(Pure(0.1), "more", "more")
        if len(tv.Ledger.open(path).entries()) != 4:
            raise AssertionError("a charge was lost")

    return judge


def run(folder: Path, per_source: int, seed: int, most: int, only: list[str]) -> dict[str, Any]:
    world = World(folder)
    made = sources(world)
    if most:  # from here on: what was compiled to make good files takes addresses too
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        most += pages * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    faults: list[str] = []
    counts: dict[str, Any] = {"files": 0, "reads": 0, "refused": 0, "read": 0, "slowest": 0.0, "sources": {}}
    for label, source in made.items():
        if only and label not in only:
            continue
        rng, before = np.random.default_rng([seed, zlib.crc32(label.encode())]), dict(counts)
        for number in range(per_source):
            path = folder / pick(rng, source.names)
            path.write_bytes(source.make(world.files, rng))
            counts["files"] += 1
            for judge in source.judges:
                what = f"{label} {number} {getattr(judge, '__qualname__', judge)}"
                print(what, file=sys.stderr, flush=True)
                fault = _try(judge, path, source, counts)
                if fault is not None:
                    faults.append(f"{what}: {fault}")
                    shutil.copy(path, folder / f"kept-{label}-{number}")
        counts["sources"][label] = {name: counts[name] - before[name] for name in ("files", "refused", "read")}
    return {**counts, "peak_bytes": read_peak(), "faults": faults}


def _try(judge: Judge, path: Path, source: Source, counts: dict[str, Any]) -> str | None:
    """Read a file; return what is wrong with what happened."""
    counts["reads"] += 1
    started = time.perf_counter()
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        found = judge(path)
        counts["read"] += 1
        if source.original is not None and not any(
            same(judge(known), found) for known in (source.original, *source.others)
        ):
            return "changed"
    except tv.TensorveilError:
        counts["refused"] += 1
    except BaseException as error:
        if os.environ.get("SHOW"):
            traceback.print_exc()
        return f"{type(error).__name__}: {str(error)[:80]!r}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        counts["slowest"] = max(counts["slowest"], time.perf_counter() - started)
    return None


def _too_slow(*_: Any) -> None:
    raise TimeoutError("too slow")


if __name__ == "__main__":
    signal.signal(signal.SIGPROF, _too_slow)
    read_hdf5_here()
    more = int(float(sys.argv[4]) * 1e9) if len(sys.argv) > 4 else 0
    print(json.dumps(run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), more, sys.argv[5:])))

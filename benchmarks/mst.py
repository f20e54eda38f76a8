"""Synthetic links by MST, for `benchmarks.private_counts tables --peer FOLDER`: `python benchmarks/mst.py FOLDER`.

Runs in an environment of its own, with smartnoise-synth (without its dependencies), mbi below 2, chex, optax, pandas
and disjoint-set. Only its MST (McKenna, Miklau and Sheldon 2021) is used, on the rows as they are: the number of rows
is public there, and delta is 1e-6.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
import types
from pathlib import Path
from typing import Any

import numpy as np

DATA = Path(os.environ.get("TENSORVEIL_DATA", "data"))


def load_mst() -> Any:
    """Import the synthesiser alone: what stands around it reads SQL and tables."""
    for name in ("snsynth", "snsynth.base", "snsynth.utils"):
        sys.modules.setdefault(name, types.ModuleType(name))
    found = importlib.util.find_spec("mbi")
    assert found is not None
    assert found.origin is not None
    folder = Path(found.origin).parents[1] / "snsynth"
    sys.modules["snsynth.base"].Synthesizer = object  # type: ignore[attr-defined]
    for name, file in (("snsynth.utils", "utils.py"), ("snsynth.mst.mst", "mst/mst.py")):
        spec = importlib.util.spec_from_file_location(name, folder / file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules["snsynth.mst.mst"]


def read(name: str) -> tuple[Any, tuple[int, ...]]:
    """Return head, relation and tail of the training links as numbers, as in `benchmarks.count_data`."""
    parts = [np.loadtxt(DATA / "relational" / name / f"{part}.txt", dtype=str, delimiter="\t")
             for part in ("train", "valid", "test")]  # fmt: skip
    every = np.concatenate(parts)
    people, relations = sorted({*every[:, 0], *every[:, 2]}), sorted(set(every[:, 1]))
    lists = (people, relations, people)
    coords = np.stack([np.searchsorted(labels, parts[0][:, m]) for m, labels in enumerate(lists)], 1)
    return coords, tuple(map(len, lists))


def main() -> None:
    """Draw for three budgets and seeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", default="nations")
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    given.folder.mkdir(exist_ok=True)
    mst = load_mst()
    from mbi import Dataset, Domain  # type: ignore[import-not-found]

    coords, shape = read(given.data)
    for epsilon in (1.0, 3.0, 10.0):
        for seed in range(given.seeds):
            np.random.seed(seed)  # noqa: NPY002 - the peer draws from it
            start = time.process_time()
            model = mst.MSTSynthesizer(epsilon=epsilon, delta=1e-6)
            names = [f"col{m}" for m in range(len(shape))]
            model.MST(Dataset(coords, domain=Domain(names, shape)), epsilon, 1e-6)
            drawn = model.undo_compress_fn(model.synthesizer.synthetic_data(rows=len(coords)))
            path = given.folder / f"{given.data}-MST-{epsilon:g}-{seed}.npz"
            np.savez(path, coords=np.asarray(drawn.df[names]))
            print(path.name, f"{time.process_time() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()

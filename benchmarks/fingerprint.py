"""Digests of fitted numbers for fixed seeds, over mechanisms, units and solvers.

Did a change of the code change a number?

    python -m benchmarks.fingerprint before.json
    ... change the code ...
    python -m benchmarks.fingerprint after.json before.json

With a second file the differences are listed, and the exit code is 1 if there are any. One thread, seeded noise.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tensorveil as tv
from tensorveil.noise import SeededSource

BUDGETS = ((1.0, 0.0), (5.0, 1e-5))
VALUE_METHODS = ("auto", "mean", "margins", "tables", "input", "staged", "output", "gradient")
MATRIX_SOLVERS = ("bayes", "als", "sgd", "dlnm_qr", "sor", "altmin")


def digest(*arrays: Any) -> str:
    """Return a digest of the exact bits of arrays, None included."""
    found = hashlib.sha256()
    for array in arrays:
        content = np.asarray([] if array is None else array, dtype=np.float64)
        found.update(str(content.shape).encode() + content.tobytes())
    return found.hexdigest()[:16]


def digest_model(model: Any) -> str:
    """Return the digest of what a model holds."""
    if hasattr(model, "factors") and hasattr(model, "offset"):
        biases = model.biases or ()
        return digest(*model.factors, getattr(model, "core", None), model.offset, *biases)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.npz"
        model.save(path)
        with np.load(path) as stored:
            names = sorted(name for name in stored.files if stored[name].dtype.kind in "fi")
            return digest(*(stored[name] for name in names))


def planted(order: int) -> tv.ObservedTensor:
    """Return a small planted tensor with named modes."""
    shape = {2: (60, 40), 3: (30, 20, 10), 4: (12, 10, 8, 6)}[order]
    problem = tv.synthetic_cp(shape, 2, random_state=order)
    train = problem.train
    names = ("user", "film", "day", "hour")[:order]
    return tv.ObservedTensor(train.coords, train.values, shape=shape, modes=names)


def open_fits() -> Iterator[tuple[str, Any]]:
    """Fit every model by every solver without privacy."""
    for order in (2, 3, 4):
        tensor = planted(order)
        for solver in ("bayes", "als", "sgd"):
            for baseline in ("mean", "biases", "none"):
                common: dict[str, Any] = {"solver": solver, "baseline": baseline, "random_state": 3, "threads": 1}
                common["sweeps"] = 8
                name = f"order {order}, {solver}, {baseline}"
                yield f"CP, {name}", tv.CP(3, **common).fit(tensor)
                yield f"Tucker, {name}", tv.Tucker(2, **common).fit(tensor)
    matrix = planted(2)
    for solver in MATRIX_SOLVERS:
        yield f"matrix, {solver}", tv.LowRankMatrix(3, solver=solver, random_state=3, threads=1, sweeps=8).fit(matrix)
    held = {"validation_fraction": 0.2, "restarts": 2, "random_state": 3, "threads": 1, "sweeps": 20}
    yield "CP with validation", tv.CP(3, **held).fit(planted(3))
    yield "matrix, rank auto", tv.LowRankMatrix("auto", random_state=3, threads=1).fit(matrix)


def private_fits() -> Iterator[tuple[str, Any]]:
    """Fit privately by every method of every unit, with seeded noise."""
    for order in (2, 3):
        tensor = planted(order)
        low, high = -1.0, 2.0
        for epsilon, delta in BUDGETS:
            common: dict[str, Any] = {
                "epsilon": epsilon, "delta": delta, "bounds": (low, high), "noise_seed": 7, "random_state": 3,
                "threads": 1, "shape": tensor.shape,
            }  # fmt: skip
            for model, user_level, rank in (
                (tv.PrivateCP, tv.UserLevelCP, 2),
                (tv.PrivateTucker, tv.UserLevelTucker, 2),
            ):
                name = f"{model.__name__}, order {order}, epsilon {epsilon}, delta {delta}"
                for method in VALUE_METHODS:
                    made = model(rank, unit="value", method=method, sweeps=20, **common)
                    yield f"{name}, {method}", made.fit(tensor)
                yield f"{name}, gram", model(rank, unit="entry", **common).fit(tensor)
                if delta:
                    for method in ("auto", "biases", "factors"):
                        yield (
                            f"{name}, slice {method}",
                            user_level(rank, unit="slice:user", method=method, **common).fit(tensor),
                        )
        if order == 2:
            for solver in ("bayes", "dlnm_qr", "sor", "altmin"):
                common = {"epsilon": 5.0, "delta": 0.0, "bounds": (low, high), "noise_seed": 7, "random_state": 3}
                made = tv.PrivateLowRankMatrix(2, unit="value", method="input", solver=solver, threads=1, **common)
                yield f"PrivateLowRankMatrix, {solver}", made.fit(tensor)
            made = tv.PrivateLowRankMatrix("auto", unit="value", threads=1, **common)
            yield "PrivateLowRankMatrix, rank auto", made.fit(tensor)


def local_reports() -> Iterator[tuple[str, str]]:
    """Perturb one tensor by every local mechanism."""
    from tensorveil import local

    x = np.linspace(-1, 1, 12).reshape(3, 4)
    for name, more in {
        "DTLDP": {"points": 17}, "RandomizedResponse": {}, "Staircase": {}, "Piecewise": {}, "Hybrid": {},
        "PrivUnit": {}, "PrivUnitG": {}, "ExactGaussian": {"delta": 1e-5},
    }.items():  # fmt: skip
        mechanism = getattr(local, name)(shape=(3, 4), epsilon=2.0, unit="tensor", bounds=(-1.0, 1.0), **more)
        yield f"local, {name}", digest(mechanism.perturb(x, source=SeededSource(5)), mechanism.worst_mse)
    for unit in ("tensor", "local entry"):
        choice = local.choose((6, 6), 3.0, unit, bounds=(-1, 1), delta=1e-6)
        found = [(candidate.name, candidate.worst_mse) for candidate in choice.candidates]
        yield f"local, choose {unit}", hashlib.sha256(repr(found).encode()).hexdigest()[:16]


def folded() -> Iterator[tuple[str, str]]:
    """Predict, fold in and rank with a fitted model."""
    tensor = planted(3)
    model = tv.CP(3, random_state=3, threads=1, sweeps=8).fit(tensor).model_
    yield "predict", digest(model.predict(tensor.coords))
    tucker = tv.Tucker(2, random_state=3, threads=1, sweeps=8).fit(tensor).model_
    yield "predict, Tucker", digest(tucker.predict(tensor.coords))
    yield "top", digest(model.top(5, given={"user": 1, "day": 2}, along="film").indices)
    yield "slice", digest(model.slice({"user": 1}), tucker.slice({"user": 1}))


def fingerprint() -> dict[str, str]:
    """Compute every digest."""
    found: dict[str, str] = {}
    for name, fitted in itertools.chain(open_fits(), private_fits()):
        found[name] = digest_model(fitted.model_)
        if hasattr(fitted, "guarantee_"):
            facts = fitted.guarantee_
            found[f"{name}: guarantee"] = hashlib.sha256(
                repr((facts.epsilon, facts.delta, [(p.name, p.event) for p in facts.composition])).encode()
            ).hexdigest()[:16]
        print(name, found[name], flush=True)
    found |= dict(local_reports())
    found |= dict(folded())
    return found


def main(arguments: list[str]) -> int:
    """Write the digests; compare with earlier ones."""
    found = fingerprint()
    Path(arguments[0]).write_text(json.dumps(found, indent=1) + "\n")
    if len(arguments) < 2:
        return 0
    before = json.loads(Path(arguments[1]).read_text())
    different = sorted(name for name in before.keys() | found.keys() if before.get(name) != found.get(name))
    print(f"{len(found)} digests, {len(different)} differ")
    for name in different:
        print(f"  {name}: {before.get(name)} -> {found.get(name)}")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

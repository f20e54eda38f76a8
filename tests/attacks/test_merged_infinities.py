"""Entries of one cell whose sum leaves the range of floats: a warning, or after the charge an error, told of them.

Values beyond the bounds are clipped without a word, infinities too. Merged before they are clipped, large ones of
opposite sign summed up to something that is no number.
"""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.cli.main import run
from tensorveil.mechanisms.names import BY_UNIT

# Sums are made in eight parts, each of every eighth number: two of these parts overflow, to either side.
WILD = [0.0, *([1.7e308, -1.7e308] + [0.0] * 6) * 2]
INFINITE = [value if value == 0 else np.copysign(np.inf, value) for value in WILD]
CELLS = [[i, j] for i in range(8) for j in range(6)]
METHODS = BY_UNIT["value"]


def merge(several: Any, duplicates: Any, dtype: Any = np.float64) -> tv.ObservedTensor:
    values = np.array([*several, *np.linspace(1, 5, len(CELLS) - 1)]).astype(dtype)
    cells = [CELLS[0]] * len(several) + CELLS[1:]
    return tv.ObservedTensor(cells, values, (8, 6), (1, 5), duplicates=duplicates, out_of_bounds="clip")


@pytest.mark.parametrize("duplicates", ["mean", "sum"])
@pytest.mark.parametrize("several", [WILD, INFINITE, [1.7e308] * 3, [-np.inf] * 2, [np.inf, -np.inf]])
def test_merging_is_silent_and_gives_numbers(several: Any, duplicates: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", tv.NoLedgerWarning)
        tensor = merge(several, duplicates)
        assert np.isfinite(tensor.values).all()
        for method in METHODS:
            promise: dict[str, Any] = {"epsilon": 1.0, "delta": 0.0, "unit": "value", "bounds": (1, 5)}
            assert tv.PrivateCP(1, method=method, sweeps=2, **promise).fit(tensor).guarantee_.private


def test_short_floats_too() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tensor = merge([3e38, 3e38], "sum", np.float32)
    assert tensor.values.max() == 5.0


def test_ordinary_sums_keep_every_digit() -> None:
    numbers = np.random.default_rng(0).normal(size=(200, 7)) * 10.0 ** np.arange(-100, 100)[:, None]
    cells = [[i, 0] for i in range(200) for _ in range(7)]
    merged = tv.ObservedTensor(cells, numbers.ravel(), duplicates="sum").values
    assert merged.tolist() == np.add.reduceat(numbers.ravel(), np.arange(0, 1400, 7)).tolist()


def test_the_command_says_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = set()
    for name, several in (("plain", [3.0] * len(WILD)), ("wild", WILD)):
        rows = [f"0,0,{value}" for value in several] + [f"{i},{j},{1 + (i + j) % 5}" for i, j in CELLS[1:]]
        (tmp_path / "ratings.csv").write_text("\n".join(["user,film,rating", *rows]) + "\n")
        given = ["--value", "rating", "--duplicates", "mean", "--unit", "value", "--bounds", "1", "5", "--epsilon", "1"]
        release = tmp_path / name
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            code = run(["complete", str(tmp_path / "ratings.csv"), *given, "--rank", "1", "-o", str(release)])
        assert not told
        shown = capsys.readouterr()
        said.add((code, shown.out.replace(str(release), "release"), shown.err))
    assert len(said) == 1

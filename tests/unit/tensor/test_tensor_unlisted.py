"""What cells without an entry hold: kept by every way to change, write and read a tensor."""

from typing import Any

import numpy as np
import pytest

import tensorveil as tv


def small() -> tv.ObservedTensor:
    return tv.ObservedTensor([[0, 1], [2, 0]], [3.0, 1.0], shape=(3, 2), unlisted="zero")


def test_unlisted_is_unknown_unless_declared() -> None:
    plain = tv.ObservedTensor([[0, 1]], [3.0])
    assert plain.unlisted == "unknown"
    assert plain.with_unlisted("zero").with_unlisted("unknown").unlisted == "unknown"
    assert np.isnan(plain.to_dense()).sum() == 1
    assert small().to_dense().tolist() == [[0.0, 3.0], [0.0, 0.0], [1.0, 0.0]]
    assert "unlisted=zero" in repr(small())
    with pytest.raises(tv.InputError, match="unlisted must be one of 'unknown', 'zero'; got 'none'"):
        plain.with_unlisted("none")  # type: ignore[arg-type]


def test_it_survives_changes() -> None:
    tensor = small()
    parts = tv.random_split(tensor, 0.5, random_state=0)
    others = [
        tensor.take([0]),
        tensor.with_values([1.0, 1.0]),
        tensor.with_bounds((0, 5)),
        tensor.with_modes(["a", "b"]),
    ]
    assert all(each.unlisted == "zero" for each in (*parts, *others))


@pytest.mark.parametrize("name", ["t.npz", "t.parquet"])
def test_files_of_ours_remember_it(tmp_path: Any, name: Any) -> None:
    small().write(tmp_path / name)
    assert tv.read(tmp_path / name).unlisted == "zero"
    assert tv.read(tmp_path / name, unlisted="unknown").unlisted == "unknown"


def test_other_files_are_told(tmp_path: Any) -> None:
    (tmp_path / "t.csv").write_text("a,b,value\nx,u,1\ny,v,2\n")
    assert tv.read(tmp_path / "t.csv").unlisted == "unknown"
    assert tv.read(tmp_path / "t.csv", unlisted="zero").unlisted == "zero"
    frame = tv.ObservedTensor.from_frame(small().to_arrow())
    assert frame.unlisted == "zero"

"""PNG pictures in and out."""

import builtins
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import tensorveil as tv
from tensorveil.tensor.files import images
from tests.unit.tensor.tensor_cases import labels_of


@pytest.fixture
def grey() -> Any:
    return np.random.default_rng(0).integers(0, 256, (7, 5)).astype(float)


@pytest.fixture
def colour() -> Any:
    return np.random.default_rng(1).integers(0, 256, (6, 4, 3)).astype(float)


@pytest.mark.parametrize("kind", ["grey", "colour"])
def test_round_trip_keeps_values_and_holes(kind: Any, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    picture = request.getfixturevalue(kind)
    mask = np.random.default_rng(2).random(picture.shape[:2]) < 0.5
    whole = mask if picture.ndim == 2 else np.repeat(mask[:, :, None], 3, axis=2)
    tensor = tv.ObservedTensor.from_dense(picture, mask=whole)
    tensor.write(tmp_path / "holes.png")
    again = tv.read(tmp_path / "holes.png")
    np.testing.assert_array_equal(again.to_dense(), tensor.to_dense())
    assert again.bounds == (0.0, 255.0)
    assert [mode.name for mode in again.modes] == ["row", "column", "channel"][: picture.ndim]
    if picture.ndim == 3:
        assert labels_of(again.modes[2]) == ["red", "green", "blue"]


def test_dense_arrays_are_rounded_and_clipped(tmp_path: Path) -> None:
    images.write_image(np.array([[-3.0, 0.4, 254.6, 300.0, np.nan]]), tmp_path / "x.png")
    np.testing.assert_array_equal(tv.read(tmp_path / "x.png").to_dense(), [[0, 0, 255, 255, np.nan]])
    images.write_image(np.zeros((2, 2)), tmp_path / "opaque.png")
    with Image.open(tmp_path / "opaque.png") as opaque:
        assert opaque.mode == "L"


@pytest.mark.parametrize(("mode", "order"), [("L", 2), ("1", 2), ("RGB", 3), ("P", 3), ("RGBA", 3), ("LA", 2)])
def test_kinds_of_pictures(mode: Any, order: int, tmp_path: Path) -> None:
    Image.new(mode, (5, 3), 0 if mode in ("L", "1", "P") else None).save(tmp_path / "x.png")
    if mode in ("RGBA", "LA"):
        with pytest.raises(tv.InputError, match="all of this picture is transparent"):
            tv.read(tmp_path / "x.png")
    else:
        assert tv.read(tmp_path / "x.png").shape == (3, 5, 3)[:order]


def test_options_and_names(grey: Any, tmp_path: Path) -> None:
    images.write_image(grey, tmp_path / "x.png")
    tensor = tv.read(tmp_path / "x.png", modes=["y", "x"], bounds=(-1, 300))
    assert tensor.bounds == (-1.0, 300.0)
    assert tensor.modes[0].name == "y"


def test_what_is_no_picture(tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(b"not a picture")
    with pytest.raises(tv.InputError, match="path must be a readable PNG file"):
        tv.read(tmp_path / "x.png")
    Image.new("I;16", (4, 4)).save(tmp_path / "deep.png")
    with pytest.raises(tv.InputError, match="path must be a PNG picture of 8 bits"):
        tv.read(tmp_path / "deep.png")
    for shape in ((3, 3, 2), (2, 2, 2, 2)):
        with pytest.raises(tv.InputError, match="a picture is a matrix"):
            tv.ObservedTensor.from_dense(np.ones(shape)).write(tmp_path / "y.png")
    assert not (tmp_path / "y.png").exists()


def test_without_pillow(grey: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images.write_image(grey, tmp_path / "x.png")
    real = builtins.__import__

    def missing(name: str, *arguments: Any, **options: Any) -> Any:
        if name == "PIL":
            raise ImportError
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(tv.MissingDependencyError, match=r"pip install \"tensorveil\[images\]\""):
        tv.read(tmp_path / "x.png")

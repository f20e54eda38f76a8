"""PNG pictures as tensors: grey ones are matrices, colour is a third mode, transparent pixels are missing.

Values are 0 to 255, whatever the picture shows: these bounds are a fact of the format.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError, MissingDependencyError
from tensorveil.tensor.arrays import dense_to_tensor
from tensorveil.tensor.files.atomic import replace_file
from tensorveil.tensor.files.file_format import DenseFile, Format, Layout
from tensorveil.tensor.files.png import SIGNATURE, check_png
from tensorveil.tensor.modes import Mode
from tensorveil.tensor.observed import ObservedTensor

BOUNDS = (0.0, 255.0)
COLOURS = ("red", "green", "blue")
_GREY, _COLOUR = ("1", "L", "LA"), ("RGB", "RGBA", "P", "PA")


def read_tensor(path: Path, layout: Layout, options: dict[str, Any]) -> ObservedTensor:
    """Read a picture of 8 bits; pixels that are wholly transparent are missing."""
    pixels, seen = _read_pixels(path)
    grey = pixels.ndim == 2
    modes = layout.modes or ["row", "column", *([] if grey else [Mode("channel", list(COLOURS))])]
    mask = seen if grey else np.repeat(seen[:, :, None], 3, axis=2)
    if not mask.any():
        raise InputError("path must show at least one pixel; all of this picture is transparent.")
    given = {"bounds": BOUNDS, **{name: item for name, item in options.items() if item is not None}}
    given.pop("missing", None)  # no pixel that is seen lacks a value
    return dense_to_tensor(pixels.astype(np.float64), mask, np.nan, modes=modes, **given)


def write_tensor(tensor: ObservedTensor, path: Path, name: str) -> None:
    """Write the entries as a picture, transparent where there is none."""
    _save(tensor.to_dense(np.nan), path)


def write_image(array: NDArray[Any], path: str | Path) -> None:
    """Write a dense array as a PNG picture: (rows, columns), or (rows, columns, 3) for colour.

    Numbers are rounded and clipped to 0 to 255; NaN becomes transparent. The file appears complete or not at all.

    >>> import numpy as np, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "ramp.png"
    >>> write_image(np.linspace(0, 255, 12).reshape(3, 4), path)
    >>> path.read_bytes()[1:4]
    b'PNG'
    """
    with replace_file(Path(path)) as temporary:
        _save(np.asarray(array, dtype=np.float64), temporary)


def check_picture(shape: Sequence[int]) -> None:
    """Refuse shapes that no picture has."""
    if len(shape) not in (2, 3) or (len(shape) == 3 and shape[2] != len(COLOURS)) or 0 in shape:
        raise InputError("a picture is a matrix, or a tensor (rows, columns, 3) of colours; this tensor is neither.")


def _save(array: NDArray[Any], path: Path) -> None:
    check_picture(array.shape)
    seen = ~np.isnan(array) if array.ndim == 2 else ~np.isnan(array).any(axis=2)
    values = np.clip(np.rint(np.where(np.isnan(array), 0.0, array)), *BOUNDS).astype(np.uint8)
    if not seen.all():
        alpha = np.where(seen, 255, 0).astype(np.uint8)
        values = np.dstack([values, alpha])
    _pillow().fromarray(values).save(path, format="PNG")


def _read_pixels(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Return grey (rows, columns) or colour (rows, columns, 3) values, and which pixels are not transparent."""
    found: NDArray[np.uint8] | None = None
    with _open(path) as picture:
        if picture.mode in _GREY:
            found = np.asarray(picture.convert("LA"))
        elif picture.mode in _COLOUR:
            found = np.asarray(picture.convert("RGBA"))
    if found is None:
        raise InputError(
            "path must be a PNG picture of 8 bits, grey or in colour. The file is damaged, or another kind."
        )
    seen = found[..., -1] > 0
    return (found[..., 0] if found.shape[-1] == 2 else found[..., :3]), seen


def read_array(path: Path, variable: str | None) -> DenseFile:
    """Read the pixels of a picture, grey or in colour; transparency is dropped."""
    with _open(path) as opened:
        wanted = opened if opened.mode in ("L", "RGB") else opened.convert("RGB" if "RGB" in opened.mode else "L")
        found = np.array(wanted)
    return DenseFile(values=found)


def check_array(shape: tuple[int, ...]) -> None:
    """Refuse shapes that no picture has."""
    if len(shape) not in (2, 3) or (len(shape) == 3 and shape[2] != 3) or 0 in shape:
        raise InputError("a PNG holds one image, (rows, columns) or (rows, columns, 3). Write .npy instead.")


def write_array(values: NDArray[Any], path: Path, columns: Sequence[str] | None) -> None:
    """Write an array as one picture; numbers are rounded and cut to 0 to 255."""
    check_array(values.shape)
    _pillow().fromarray(np.clip(np.rint(values), *BOUNDS).astype(np.uint8)).save(path, format="PNG")


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    """Open a picture that has been checked: the library decodes no other kind, and nothing larger than it says."""
    pillow = _pillow()
    check_png(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pillow warns of large pictures; there is one limit here
        before, pillow.MAX_IMAGE_PIXELS = pillow.MAX_IMAGE_PIXELS, None
        try:
            with pillow.open(path, formats=["PNG"]) as picture:
                picture.load()
                yield picture
        finally:
            pillow.MAX_IMAGE_PIXELS = before


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise MissingDependencyError(
            'PNG pictures need Pillow, which is not installed. Run: pip install "tensorveil[images]"'
        ) from None
    return Image


FORMAT = Format(
    name="png",
    endings=(".png",),
    magic=(SIGNATURE,),
    read=read_tensor,
    write=write_tensor,
    read_array=read_array,
    write_array=write_array,
    check_array=check_array,
    exact=False,
)

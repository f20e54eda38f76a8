"""Recover a photograph of which most pixels are missing: not private, and privately at three budgets.

    python examples/image_recovery.py --output pictures             # a photograph that scikit-learn ships
    python examples/image_recovery.py photo.png --output pictures   # your own; transparent pixels are missing too

A photograph is hardly of low rank as it stands, but its patches are alike: it is cut into squares, and the matrix has a
row per square and a column per position within. Every pixel is one cell of that matrix, so what is said of values holds
for pixels. In colour, the channel is a third mode and the model is CP.

The privacy unit is `value`: one number, one channel of one pixel. That hides a pixel, not what the picture shows: a
face that fills a thousand pixels is not hidden by noise for one of them.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import tensorveil as tv
from tensorveil.tensor.files.images import BOUNDS, write_image

BUDGETS = (1.0, 5.0, 20.0)


def main() -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photo", nargs="?", type=Path, help="a PNG file; by default flower.jpg of scikit-learn")
    parser.add_argument("--output", type=Path, default=Path("pictures"), help="folder for the pictures")
    parser.add_argument("--missing", type=float, default=0.7, help="share of pixels to take away")
    parser.add_argument("--patch", type=int, default=8, help="side of the squares")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    colour = photograph(options.photo)
    grey = colour @ [0.299, 0.587, 0.114]
    rng = np.random.default_rng(0)
    seen = (rng.random(grey.shape) >= options.missing) & ~np.isnan(grey)
    for name, picture in (("grey", grey), ("colour", colour)):
        recover(name, picture, seen, options.patch, options.output)


def photograph(path: Path | None) -> np.ndarray:
    """Read a picture in colour, NaN where it is transparent."""
    if path is not None:
        tensor = tv.read(path)
        array = tensor.to_dense()
        return array if array.ndim == 3 else np.repeat(array[:, :, None], 3, axis=2)
    from sklearn.datasets import load_sample_image

    return load_sample_image("flower.jpg").astype(float)


def recover(name: str, picture: np.ndarray, seen: np.ndarray, side: int, folder: Path) -> None:
    """Write the picture, what is left of it, and what is made of that; print how near it comes."""
    picture = picture[: len(picture) // side * side, : picture.shape[1] // side * side]
    seen = seen[: picture.shape[0], : picture.shape[1]]
    mask = seen if picture.ndim == 2 else np.repeat(seen[:, :, None], 3, axis=2)
    left = np.where(mask, picture, np.nan)
    write_image(picture, folder / f"{name}-0-whole.png")
    write_image(left, folder / f"{name}-1-left.png")
    observed = tv.ObservedTensor.from_dense(cut(left, side), bounds=BOUNDS)
    mean = np.full(picture.shape, observed.values.mean())
    print(f"\n{name}: {' x '.join(map(str, picture.shape))}, {observed.n_entries:,} numbers left")
    print(f"  constant{'':22} {distance(mean, picture):5.2f} dB")
    if picture.ndim == 2:
        plain = tv.LowRankMatrix("auto", random_state=0)
        private = [tv.PrivateLowRankMatrix("auto", **promise(e)) for e in BUDGETS]
    else:
        plain = tv.CP(24, random_state=0)
        private = [tv.PrivateCP(8, **promise(e)) for e in BUDGETS]
    show("not private", plain.fit(observed), picture, side, folder / f"{name}-2-recovered.png")
    for number, (epsilon, estimator) in enumerate(zip(BUDGETS[::-1], private[::-1], strict=True), start=3):
        estimator.fit(observed)
        title = f"epsilon {epsilon:g}, {estimator.plan_.method}"
        show(title, estimator, picture, side, folder / f"{name}-{number}-epsilon-{epsilon:g}.png")


def promise(epsilon: float) -> dict[str, object]:
    """The privacy settings: a pure epsilon for every number; bounds are those of the format."""
    return {"epsilon": epsilon, "delta": 0.0, "unit": "value", "bounds": BOUNDS, "restarts": 1, "random_state": 0}


def show(title: str, fitted: object, picture: np.ndarray, side: int, path: Path) -> None:
    """Write what a model makes of every pixel, seen or not."""
    estimate = join(fitted.dense(), picture.shape, side)
    write_image(estimate, path)
    print(f"  {title:30} {distance(estimate, picture):5.2f} dB   {path.name}")


def cut(picture: np.ndarray, side: int) -> np.ndarray:
    """Cut a picture into squares: (squares, pixels of a square), with a third axis of colours."""
    rows, columns = picture.shape[0] // side, picture.shape[1] // side
    squares = picture.reshape(rows, side, columns, side, *picture.shape[2:]).swapaxes(1, 2)
    return squares.reshape(rows * columns, side * side, *picture.shape[2:])


def join(squares: np.ndarray, shape: tuple[int, ...], side: int) -> np.ndarray:
    """Put squares together again."""
    rows, columns = shape[0] // side, shape[1] // side
    return squares.reshape(rows, columns, side, side, *shape[2:]).swapaxes(1, 2).reshape(shape)


def distance(estimate: np.ndarray, picture: np.ndarray) -> float:
    """Peak signal-to-noise ratio in decibels: higher is nearer."""
    return 20 * np.log10(255 / np.sqrt(np.nanmean((estimate - picture) ** 2)))


if __name__ == "__main__":
    main()

"""MobileNetV2 trained on ImageNet, as a public extractor of features: the 8-bit weights in the data folder.

The paper takes torchvision's float weights and puts tanh in place of ReLU6 so that features lie in (-1, 1). Here it is
Google's network for TensorFlow Lite, run by ai-edge-litert; its features, the mean of ReLU6 over an image, are brought
from their declared range (0, 6) to (-1, 1) by a straight line.
"""

from __future__ import annotations

import warnings
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import DataNotFoundError, MissingDependencyError
from tensorveil.tensor.datasets.places import VARIABLE, data_folder

PLACE = ("mobilenet-v2", "mobilenet_v2_1.0_224_quant.tflite")
SIZE, SIDE, LARGEST = 1280, 224, 6.0


NO_RUNTIME = "MobileNet's 8-bit weights need ai-edge-litert. Install it: pip install 'tensorveil[mobilenet]'"
NO_WEIGHTS = (
    f"MobileNet's weights are expected at {'/'.join(PLACE)} in the data folder. Put the file there, and set {VARIABLE}."
)


def explain_missing() -> str | None:
    """Say what is missing to run the network; None if nothing is."""
    if find_spec("ai_edge_litert") is None:
        return NO_RUNTIME
    return NO_WEIGHTS if find_weights() is None else None


@cache
def open_network() -> Any:
    """Open the network once per process, with all its layers kept."""
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError as error:
        raise MissingDependencyError(NO_RUNTIME) from error
    path = find_weights()
    if path is None:
        raise DataNotFoundError(NO_WEIGHTS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that layers are kept takes memory: a few megabytes here
        network = Interpreter(model_path=str(path), num_threads=1, experimental_preserve_all_tensors=True)
    network.allocate_tensors()
    return network


def find_weights() -> Path | None:
    """Return the place of the weights in the data folder, if they are there."""
    folder = data_folder(None)
    path = None if folder is None else folder.joinpath(*PLACE)
    return path if path is not None and path.is_file() else None


def extract_features(images: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Return the features (n, 1280) in [-1, 1] of colour images (n, 3, 32, 32); every pixel becomes 7 x 7."""
    codes = np.stack([_run_network(image.tobytes(), image.shape) for image in images])
    scale, zero = _find_pooled()["quantization"]
    return np.asarray(np.clip(2.0 * (codes.astype(np.float64) - zero) * scale / LARGEST - 1.0, -1.0, 1.0))


@cache
def _run_network(image: bytes, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Return one image's features as the network holds them; every image is run once per process."""
    network, fold = open_network(), SIDE // shape[-1]
    pixels = np.moveaxis(np.frombuffer(image, dtype=np.uint8).reshape(shape), 0, -1)
    large = pixels.repeat(fold, axis=0).repeat(fold, axis=1)
    network.set_tensor(network.get_input_details()[0]["index"], large[None])
    network.invoke()
    codes: NDArray[np.uint8] = network.get_tensor(_find_pooled()["index"]).reshape(-1)
    return codes


@cache
def _find_pooled() -> dict[str, Any]:
    """Return what the network says of its pooled features."""
    (pooled,) = [
        detail for detail in open_network().get_tensor_details() if tuple(detail["shape"]) == (1, 1, 1, SIZE)
    ]  # fmt: skip
    found: dict[str, Any] = pooled
    return found

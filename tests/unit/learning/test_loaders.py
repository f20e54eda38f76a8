"""Loaders: small files of the official formats, made here; the real ones where the data folder has them."""

import csv
import gzip
import io
import lzma
import os
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensorveil.errors import DataNotFoundError, InputError
from tensorveil.learning.loaders import load_samples, samples_present
from tensorveil.learning.loaders.imdb import LENGTH, WORDS, word_numbers

RNG = np.random.default_rng(0)


def idx(array: Any) -> Any:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def write_mnist(folder: Path, packed: Any) -> Any:
    folder.mkdir()
    images = {name: RNG.integers(0, 256, (n, 28, 28), dtype=np.uint8) for name, n in (("train", 6), ("t10k", 3))}
    for name, array in images.items():
        labels = np.arange(len(array), dtype=np.uint8)
        for kind, content in (("images-idx3", idx(array)), ("labels-idx1", idx(labels))):
            path = folder / f"{name}-{kind}-ubyte"
            if packed:
                path.with_name(path.name + ".gz").write_bytes(gzip.compress(content))
            else:
                path.write_bytes(content)
    return images


@pytest.mark.parametrize("packed", [True, False])
def test_mnist(tmp_path: Path, packed: Any) -> None:
    images = write_mnist(tmp_path / "mnist", packed)
    if not packed:
        (tmp_path / "mnist" / "train-images-idx3-ubyte.gz").write_bytes(b"")  # the plain file comes first
    parts = load_samples("mnist", folder=tmp_path)
    assert np.array_equal(parts.train.x, images["train"])
    assert parts.test.y.tolist() == [0, 1, 2]
    assert parts.bounds == (0.0, 255.0)


def test_a_damaged_idx_file_is_refused(tmp_path: Path) -> None:
    write_mnist(tmp_path / "mnist", True)
    path = tmp_path / "mnist" / "train-images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes())[:-1]))
    with pytest.raises(InputError, match="damaged or has another format"):
        load_samples("mnist", folder=tmp_path)


def test_cifar10_binary(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    records = RNG.integers(0, 256, (4, 3073), dtype=np.uint8)
    records[:, 0] = [6, 9, 0, 3]
    (folder / "data_batch_1.bin").write_bytes(records[:3].tobytes())
    (folder / "test_batch.bin").write_bytes(records[3:].tobytes())
    parts = load_samples("cifar10", folder=tmp_path)
    assert parts.train.shape == (3, 32, 32)
    assert parts.train.y.tolist() == [6, 9, 0]
    # The first byte after the label is the upper left pixel's red, 1024 bytes on its green.
    assert parts.train.x[1, 1, 0, 0] == records[1, 1 + 1024]
    (folder / "test_batch.bin").write_bytes(records[3:].tobytes()[:-5])
    with pytest.raises(InputError, match=r"test_batch\.bin is damaged"):
        load_samples("cifar10", folder=tmp_path)


def test_cifar10_subset(tmp_path: Path) -> None:
    from PIL import Image

    folder = tmp_path / "cifar10-subset"
    folder.mkdir()
    with zipfile.ZipFile(folder / "cifar10_jpeg_12000.zip", "w") as archive:
        for part, kind, level in (("train", "cat", 200), ("train", "truck", 30), ("test", "airplane", 90)):
            stream = io.BytesIO()
            Image.fromarray(np.full((32, 32, 3), level, dtype=np.uint8)).save(stream, "jpeg")
            archive.writestr(f"{part}/{kind}/0001.jpg", stream.getvalue())
    parts = load_samples("cifar10-subset", folder=tmp_path)
    assert parts.train.y.tolist() == [3, 9]
    assert parts.test.y.tolist() == [0]
    assert abs(int(parts.train.x[0].mean()) - 200) <= 2


def test_svhn(tmp_path: Path) -> None:
    from scipy.io import savemat

    folder = tmp_path / "svhn"
    folder.mkdir()
    images = RNG.integers(0, 256, (32, 32, 3, 5), dtype=np.uint8)
    for name in ("train", "test"):
        savemat(folder / f"{name}_32x32.mat", {"X": images, "y": np.array([[1], [10], [2], [3], [9]], dtype=np.uint8)})
    parts = load_samples("svhn", folder=tmp_path)
    assert parts.train.y.tolist() == [1, 0, 2, 3, 9]
    assert np.array_equal(parts.train.x[2, 1], images[:, :, 1, 2])


REVIEWS = [("train", 0, "Dull<br />dull!"), ("train", 1, "A good film"), ("test", 1, "Good, good, good")]


def test_imdb_packed_and_in_folders_are_the_same(tmp_path: Path) -> None:
    (tmp_path / "one" / "imdb").mkdir(parents=True)
    with lzma.open(tmp_path / "one" / "imdb" / "imdb_50k.csv.xz", "wt", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["split", "label", "review_no", "stars", "text"])
        writer.writerows([[part, label, 0, 1, text] for part, label, text in REVIEWS])
    home = tmp_path / "two" / "aclImdb"
    for k, (part, label, text) in enumerate(REVIEWS):
        folder = home / part / ("neg", "pos")[label]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{k}_1.txt").write_text(text, encoding="utf-8")
    (home / "imdb.vocab").write_text("")
    first = load_samples("imdb", folder=tmp_path / "one")
    second = load_samples("imdb", folder=tmp_path / "two")
    assert np.array_equal(first.train.x, second.train.x)
    assert np.array_equal(first.test.y, second.test.y)
    assert first.train.shape == (LENGTH,)
    row = first.train.x[0]
    assert row[0] == row[1] != row[2]
    assert row[3:].max() == 0
    assert first.test.x[0, 0] == word_numbers("good")[0] != 0
    assert first.train.x.max() < WORDS


def test_darknet(tmp_path: Path) -> None:
    folder = tmp_path / "darknet"
    folder.mkdir()
    lines = ["Flow ID,Src IP,Src Port,Dst IP,Timestamp,Flow Duration,Flow Bytes/s,Label,Label.1"]
    kinds = ["Non-Tor", "NonVPN", "Tor", "VPN", "Tor"]
    for k, kind in enumerate(kinds):
        lines.append(f"a-{k},10.0.0.1,{k},10.0.0.2,24/07/2015,{1000 * k},{'Infinity' if k == 1 else -k},{kind},P2P")
    (folder / "Darknet.CSV").write_text("\n".join(lines) + "\n")
    parts = load_samples("darknet", folder=tmp_path)
    assert parts.train.y.tolist() == [0, 1, 2, 3]
    assert parts.test.y.tolist() == [2]
    np.testing.assert_allclose(parts.train.x[2], [np.log(3), np.log(2001), -np.log(3)])
    assert parts.train.x[1, 2] == parts.bounds[1]


def test_flows_of_a_file_sorted_by_kind_have_every_kind_in_both_parts(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    kinds = ["Tor"] * 300 + ["VPN"] * 900 + ["NonVPN"] * 800
    table = pa.table({"duration": np.arange(2000), "rate": np.linspace(-5, 5, 2000), "label": kinds,
                      "application": ["x"] * 2000})  # fmt: skip
    path = tmp_path / "tor-vpn-flows" / "iscx_tor_vpn_2016_15s.parquet"
    path.parent.mkdir()
    parquet.write_table(table, path)
    parts = load_samples("tor-vpn", folder=tmp_path)
    assert (len(parts.train), len(parts.test), parts.train.classes) == (1600, 400, 3)
    for part in (parts.train, parts.test):
        np.testing.assert_allclose(np.bincount(part.y) / len(part), [0.4, 0.15, 0.45], atol=0.05)
    seen = np.concatenate([parts.train.x[:, 0], parts.test.x[:, 0]])
    np.testing.assert_allclose(np.sort(seen), np.log1p(np.arange(2000)))
    path.write_bytes(b"nothing")
    with pytest.raises(InputError, match="damaged"):
        load_samples("tor-vpn", folder=tmp_path)


@pytest.mark.parametrize("name", ["svhn-11k", "cifar10-12k"])
def test_images_in_one_archive(tmp_path: Path, name: str) -> None:
    file = {"svhn-11k": "svhn_8000_3000.npz", "cifar10-12k": "cifar10_10000_2000.npz"}[name]
    (tmp_path / name).mkdir()
    images = RNG.integers(0, 256, (5, 32, 32, 3), dtype=np.uint8)
    arrays = {"x_train": images, "y_train": np.arange(5), "x_test": images[:2], "y_test": np.array([9, 0])}
    np.savez(tmp_path / name / file, **arrays)  # type: ignore[arg-type]
    parts = load_samples(name, folder=tmp_path)
    assert parts.train.shape == (3, 32, 32)
    assert np.array_equal(parts.train.x[3, 2], images[3, :, :, 2])
    assert parts.test.y.tolist() == [9, 0]
    for broken in ({"y_test": np.array([9, 10])}, {"x_train": images[:4]}, {"x_test": images[:2].astype(float)}):
        np.savez(tmp_path / name / file, **{**arrays, **broken})  # type: ignore[arg-type]
        with pytest.raises(InputError, match="damaged"):
            load_samples(name, folder=tmp_path)


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TENSORVEIL_DATA", raising=False)
    assert not samples_present("svhn", tmp_path)
    assert samples_present("digits")
    with pytest.raises(DataNotFoundError, match=r"svhn/train_32x32\.mat"):
        load_samples("svhn", folder=tmp_path)
    with pytest.raises(InputError, match="name must be one of"):
        load_samples("faces")


REAL = {
    "mnist": (60_000, 10_000, (28, 28)),
    "cifar10-subset": (10_000, 2_000, (3, 32, 32)),
    "cifar10-12k": (10_000, 2_000, (3, 32, 32)),
    "svhn-11k": (8_000, 3_000, (3, 32, 32)),
    "tor-vpn": (17_658, 4_414, (23,)),
    "imdb": (25_000, 25_000, (500,)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_the_real_files(name: str) -> None:
    if not os.environ.get("TENSORVEIL_DATA") or not samples_present(name):
        pytest.skip(f"{name} is not in the data folder")
    parts = load_samples(name)
    assert (len(parts.train), len(parts.test), parts.train.shape) == REAL[name]

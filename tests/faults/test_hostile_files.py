"""Files that crashed readers, filled the memory, reached other files or were taken for what they are not."""

from __future__ import annotations

import base64
import gzip
import json
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.io
from PIL import Image

import tensorveil as tv
from tensorveil.cli.main import run
from tensorveil.errors import FileTooLargeError
from tensorveil.memory import limit_memory, memory_limit, parse_size
from tensorveil.rounds import Recipe, SharedModel, run_recipe
from tests.faults.damage import make_tensor

h5py = pytest.importorskip("h5py")


def refused(path: Path, words: str, **options: Any) -> None:
    with pytest.raises(tv.InputError, match=words) as caught:
        tv.read(path, **options)
    assert caught.value.__context__ is None  # whose text may quote the file


# MATLAB.


def write_mat(path: Path, version: str = "5", **variables: Any) -> bytes:
    scipy.io.savemat(path, variables or {"x": np.arange(24.0).reshape(4, 6)}, format=version)
    return path.read_bytes()


@pytest.mark.parametrize("version", ["4", "5"])
def test_every_bit_of_a_matlab_file_may_be_wrong(tmp_path: Path, version: str) -> None:
    """One bit in the kind of an element made the library that read them index a table out of its bounds."""
    path = tmp_path / "x.mat"
    content, good = write_mat(path, version), tv.read(path)
    bits = range(8 * 120, 8 * 216) if version == "5" else range(8 * 40)  # tags and headers
    for bit in bits:
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        try:
            found = tv.read(path)
        except tv.InputError:
            continue
        assert found.n_entries <= good.n_entries


def test_matlab_files_are_read_as_the_reference_reads_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    kinds = ("f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?")
    arrays = {f"v{k}": (rng.random((3, 4, 2)) * 100).astype(kind) for k, kind in enumerate(kinds)}
    others = {"text": "abc", "cell": np.array(["a", 1], object), "complex": np.ones((2, 2)) * 1j}
    from tensorveil.tensor.files.matlab import load_arrays, load_variables

    for packed in (False, True):
        scipy.io.savemat(tmp_path / "x.mat", {**arrays, **others}, do_compression=packed)
        found = load_arrays(tmp_path / "x.mat")
        assert found.keys() == arrays.keys()
        for name, array in arrays.items():
            assert found[name].dtype == array.dtype
            np.testing.assert_array_equal(found[name], array)
        assert load_variables(tmp_path / "x.mat").keys() >= others.keys()
    scipy.io.savemat(tmp_path / "old.mat", {"x": arrays["v0"][:, :, 0]}, format="4")
    np.testing.assert_array_equal(load_arrays(tmp_path / "old.mat")["x"], arrays["v0"][:, :, 0])


@pytest.mark.parametrize("content", [b"", bytes(200), b"MATLAB 5.0" + bytes(50)])
def test_empty_matlab_files(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.mat").write_bytes(content)
    refused(tmp_path / "x.mat", "readable MATLAB|exactly one numeric")


def test_indices_are_not_taken_for_the_data(tmp_path: Path) -> None:
    write_mat(tmp_path / "x.mat", subs=np.array([[1.0, 2], [2, 1]]), vals=np.array([[1j], [2j]]))
    refused(tmp_path / "x.mat", "must hold real numbers")
    write_mat(tmp_path / "y.mat", subs=np.array([[1.0, 2], [2, 1]]), vals=np.array([[1.0]]))
    refused(tmp_path / "y.mat", "lengths differ")


def test_a_matlab_file_reads_no_other_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(range(16)))
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = np.ones((2, 2))
    with h5py.File(tmp_path / "external.mat", "w") as file:
        file.create_dataset("x", (4, 4), dtype="u1", external=[(str(secret), 0, 16)])
    with h5py.File(tmp_path / "link.mat", "w") as file:
        file["x"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "/x")
    with h5py.File(tmp_path / "virtual.mat", "w") as file:
        layout = h5py.VirtualLayout((2, 2), dtype="f8")
        layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "x", (2, 2))
        file.create_virtual_dataset("x", layout)
    for name in ("external", "link", "virtual"):
        refused(tmp_path / f"{name}.mat", "must hold its data itself")


def test_a_small_matlab_file_is_not_large(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.mat", "w") as file:
        file.create_dataset("x", (30_000, 30_000), dtype="f8", chunks=(100, 100))
    refused(tmp_path / "x.mat", "readable MATLAB")


READERS = {
    "dies": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "says nothing": "",
    "says anything": "print('x' * 100_000)",
    "announces too much": 'print(\'{"arrays": {"x": ["<f8", [1000000, 1000000]]}}\')',
    "sends too little": 'print(\'{"arrays": {"x": ["<f8", [10, 10]]}}\\n12345678\')',
    "sends objects": 'print(\'{"arrays": {"x": ["|O", [1]]}}\\n12345678\')',
    "sends a shape that is none": 'print(\'{"arrays": {"x": ["<f8", [-1, "a"]]}}\')',
    "does not know why": "print('{\"refused\": [1]}')",
}


@pytest.mark.parametrize("script", list(READERS.values()), ids=list(READERS))
def test_a_reader_of_hdf5_may_die_or_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """The library that it uses has holes; a file that takes the reader over gets no further."""
    from tensorveil.tensor.files import hdf5_reader

    with h5py.File(tmp_path / "x.mat", "w") as file:
        file["x"] = np.ones((2, 2))
    (tmp_path / "reader.py").write_text(script)
    monkeypatch.setattr(hdf5_reader, "__file__", str(tmp_path / "reader.py"))
    with limit_memory("1 GB"):
        refused(tmp_path / "x.mat", "readable MATLAB|fit into memory")


def test_a_reader_of_hdf5_writes_no_file_and_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorveil.tensor.files import hdf5, hdf5_reader

    with h5py.File(tmp_path / "x.mat", "w") as file:
        file["x"] = np.arange(6.0).reshape(2, 3)
        file["text"] = "abc"
    assert hdf5.read_hdf5(tmp_path / "x.mat").keys() == {"x", "text"}
    np.testing.assert_array_equal(hdf5.read_hdf5(tmp_path / "x.mat")["x"], np.arange(6.0).reshape(2, 3).T)
    source, written = Path(hdf5_reader.__file__).read_text(encoding="utf-8"), tmp_path / "written"
    attack = f"    Path({str(written)!r}).write_text('x')\n    try:\n        write_arrays"
    source = source.replace("    try:\n        write_arrays", attack)
    assert str(written) in source
    (tmp_path / "reader.py").write_text(source)
    monkeypatch.setattr(hdf5_reader, "__file__", str(tmp_path / "reader.py"))
    refused(tmp_path / "x.mat", "readable MATLAB")
    assert not written.exists() or written.stat().st_size == 0


# Pictures.


def write_png(path: Path, array: Any) -> bytes:
    Image.fromarray(array).save(path)
    return path.read_bytes()


def with_header(content: bytes, width: int, height: int) -> bytes:
    head = b"IHDR" + struct.pack(">II", width, height) + content[24:29]
    return content[:12] + head + zlib.crc32(head).to_bytes(4) + content[33:]


def test_a_picture_is_as_large_as_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "x.png"
    content = write_png(path, np.full((12, 15, 3), 200, np.uint8))
    path.write_bytes(with_header(content, 15, 8_388_620))
    with limit_memory("100 GB"):
        refused(path, "PNG picture of 8 bits")
    with limit_memory("1 GB"), pytest.raises(FileTooLargeError):
        tv.read(path)


def test_a_picture_that_fits_its_file_may_not_fit_into_memory(tmp_path: Path) -> None:
    write_png(tmp_path / "x.png", np.zeros((2000, 2000, 3), np.uint8))
    with limit_memory("100 MB"), pytest.raises(FileTooLargeError, match="max_memory"):
        tv.read(tmp_path / "x.png")


def test_damaged_pixels_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "x.png"
    content = write_png(path, np.random.default_rng(0).integers(0, 256, (12, 15), dtype=np.uint8))
    for place in range(60, len(content) - 16, 7):
        changed = bytearray(content)
        changed[place] ^= 4
        path.write_bytes(changed)
        refused(path, "PNG picture of 8 bits")


@pytest.mark.parametrize("kind", ["JPEG", "GIF", "TIFF", "BMP", "WEBP"])
def test_other_pictures_are_not_decoded(tmp_path: Path, kind: str) -> None:
    Image.fromarray(np.zeros((4, 4), np.uint8)).save(tmp_path / "x.png", format=kind)
    refused(tmp_path / "x.png", "readable PNG")


def test_sixteen_bits_are_not_cut_to_eight(tmp_path: Path) -> None:
    write_png(tmp_path / "x.png", np.full((4, 4), 40_000, np.uint16))
    refused(tmp_path / "x.png", "16")


def test_interlaced_pictures_can_be_read(tmp_path: Path) -> None:
    passes = [(1, 1), (1, 1), (2, 1), (1, 2), (3, 1), (2, 3), (5, 2)]
    rows = b"".join((b"\0" + bytes(wide)) * high for wide, high in passes)
    head = b"IHDR" + struct.pack(">IIBBBBB", 5, 5, 8, 0, 0, 0, 1)
    out = b"\x89PNG\r\n\x1a\n"
    for chunk in (head, b"IDAT" + zlib.compress(rows), b"IEND"):
        out += (len(chunk) - 4).to_bytes(4) + chunk + zlib.crc32(chunk).to_bytes(4)
    (tmp_path / "x.png").write_bytes(out)
    assert tv.read(tmp_path / "x.png").shape == (5, 5)


# Archives.


def rewrite(path: Path, **changes: Any) -> None:
    """Write members of an archive anew, whose digests are left out."""
    with np.load(path) as archive:
        arrays = dict(archive)
    about = json.loads(arrays["about"].tobytes())
    del about["members"]
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    np.savez(path, **(arrays | changes))


@pytest.mark.parametrize(
    "indices",
    [
        np.full(40, 2**32, np.int64),
        np.full(40, 0.5),
        np.int64(0),
        np.zeros(39, np.int64),
        np.full(40, "1"),
        np.full(40, 1, "M8[D]"),
        np.full(40, 1j),
        np.full(40, -1),
        np.zeros((40, 1), np.int64),
    ],
    ids=["wraps", "fractions", "scalar", "short", "text", "dates", "complex", "negative", "matrix"],
)
def test_indices_are_never_bent_to_fit(tmp_path: Path, indices: Any) -> None:
    make_tensor(labels=False).write(tmp_path / "x.npz")
    rewrite(tmp_path / "x.npz", index_1=indices)
    refused(tmp_path / "x.npz", "indices|coords|tensorveil .npz")


def test_files_of_an_early_version_can_be_read(tmp_path: Path) -> None:
    make_tensor(labels=True).write(tmp_path / "x.npz")
    rewrite(tmp_path / "x.npz")
    assert tv.read(tmp_path / "x.npz").n_entries == 40


def test_labels_do_not_vanish_with_their_name(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    make_tensor(labels=True).write(path)
    path.write_bytes(path.read_bytes().replace(b"labels_1.npy", b"lobels_1.npy"))
    refused(path, "damaged|changed")


def write_member(path: Path, name: str, header: bytes, content: bytes = b"") -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + content)


@pytest.mark.parametrize(
    "header",
    [
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }\n",
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }\n",
        b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n",
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (((((((((\n",
        b"{'descr': '<f8'" + b"," * 50_000 + b"\n",
    ],
)
def test_arrays_are_as_long_as_they_say(tmp_path: Path, header: bytes) -> None:
    from tensorveil.tensor.files.formats import read_array

    write_member(tmp_path / "x.npz", "values.npy", header, bytes(16))
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x01\x00" + min(len(header), 65535).to_bytes(2, "little") + header)
    for name in ("x.npz", "x.npy"):
        with pytest.raises(tv.InputError):
            read_array(tmp_path / name)
    with pytest.raises(tv.InputError):
        tv.load_model(tmp_path / "x.npz")


@pytest.mark.parametrize("place", [60, 160, -60, -20], ids=["name", "data", "directory", "end"])
def test_a_damaged_archive_is_not_perturbed(tmp_path: Path, capsys: pytest.CaptureFixture[str], place: int) -> None:
    """An archive was opened, and a member of it failed its checksum when it was read."""
    np.savez(tmp_path / "x.npz", values=np.full((8, 3), 0.5))
    content = bytearray((tmp_path / "x.npz").read_bytes())
    promise = ["--owners", "--epsilon", "1", "--unit", "tensor", "--bounds", "0", "1"]
    assert run(["perturb", str(tmp_path / "x.npz"), str(tmp_path / "good.npz"), *promise]) == 0
    content[place] ^= 0x41
    (tmp_path / "x.npz").write_bytes(content)
    assert run(["perturb", str(tmp_path / "x.npz"), str(tmp_path / "out.npz"), *promise]) == 2
    assert "damaged" in capsys.readouterr().err
    assert not list(tmp_path.glob("out*"))


def test_compressed_files_are_not_read_beyond_the_limit(tmp_path: Path) -> None:
    lines = b"user,film,value\n" + b"a,b,1\n" * 4_000_000
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(lines, 1))
    (tmp_path / "x.tns.gz").write_bytes(gzip.compress(b"1 1 1\n" * 4_000_000, 1))
    np.savez_compressed(tmp_path / "x.npz", values=np.zeros(5_000_000))
    for name in ("x.csv.gz", "x.tns.gz", "x.npz"):
        with limit_memory("20 MB"), pytest.raises(FileTooLargeError, match="max_memory"):
            tv.read(tmp_path / name)
    assert run(["info", str(tmp_path / "x.csv.gz"), "--max-memory", "20MB"]) == 2
    assert memory_limit() == 20_000_000
    assert run(["info", str(tmp_path / "x.csv.gz"), "--max-memory", "lots"]) == 2
    assert run(["budget", "--help"]) == 0
    tv.memory.set_memory_limit(None)
    assert parse_size("1.5G") == 1_500_000_000


def test_a_mode_may_be_longer_than_the_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.tns").write_text("2147483647 1 1\n1 1 2\n")
    assert run(["info", str(tmp_path / "x.tns"), "--json"]) == 0
    mode = json.loads(capsys.readouterr().out)["modes"][0]
    assert mode["size"] == 2147483647
    assert mode["empty"] == 2147483645
    assert mode["entries_per_index"] == {"min": 0, "median": 0.0, "max": 1}


# Parquet.


def with_labels(path: Path, change: Any) -> None:
    """Write a table of ours whose labels were changed in its description."""
    table = make_tensor(labels=True).to_arrow()
    facts = json.loads(table.schema.metadata[b"tensorveil"])
    facts["labels"][0] = base64.b64encode(change(base64.b64decode(facts["labels"][0]))).decode()
    pq.write_table(table.replace_schema_metadata({b"tensorveil": json.dumps(facts).encode()}), path)


def test_labels_that_point_elsewhere_are_not_followed(tmp_path: Path) -> None:
    """Offsets of a text column were believed: they read whatever was in the memory there."""
    column = pa.array(list("abcdéf"))
    offsets = np.frombuffer(column.buffers()[1], np.int32).copy()
    offsets[3] = 2**30
    wrong = pa.Array.from_buffers(pa.string(), 6, [None, pa.py_buffer(offsets), column.buffers()[2]])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("labels", pa.string())])) as writer:
        writer.write_batch(pa.record_batch([wrong], names=["labels"]))
    with_labels(tmp_path / "x.parquet", lambda _: sink.getvalue().to_pybytes())
    refused(tmp_path / "x.parquet", "description is damaged")
    with_labels(tmp_path / "y.parquet", lambda content: content[:-40] + bytes(40))
    refused(tmp_path / "y.parquet", "description is damaged")


def test_changed_pages_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    tensor = make_tensor(labels=True)
    tensor.write(path)
    content = path.read_bytes()
    for place in range(4, len(content) - 8, 17):
        changed = bytearray(content)
        changed[place] ^= 16
        path.write_bytes(changed)
        try:
            found = tv.read(path)
        except tv.InputError:
            continue
        assert found.bounds == tensor.bounds, place
        np.testing.assert_array_equal(found.values, tensor.values)
        np.testing.assert_array_equal(found.columns, tensor.columns)


def test_a_table_of_ours_may_be_filtered_in_memory(tmp_path: Path) -> None:
    table = make_tensor(labels=True).to_arrow()
    assert tv.ObservedTensor.from_frame(table.slice(0, 7)).n_entries == 7


def test_a_parquet_file_that_declares_too_much(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"a": [0] * 2_000_000, "b": [0] * 2_000_000, "value": [1.0] * 2_000_000}), tmp_path / "x.parquet"
    )
    assert (tmp_path / "x.parquet").stat().st_size < 100_000
    with limit_memory("20 MB"), pytest.raises(FileTooLargeError):
        tv.read(tmp_path / "x.parquet")


# Text, and names that lie.


def test_a_header_in_another_encoding(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes("pays,été,value\na,b,1\n".encode("latin-1"))
    with pytest.warns(tv.GuessWarning, match="Windows-1252"):
        assert [mode.name for mode in tv.read(tmp_path / "x.csv").modes] == ["pays", "été"]
    with pytest.raises(tv.InputError, match="encoding: the line of names"):
        tv.read_privately(tmp_path / "x.csv", unit="value", bounds=(1, 5), value="value")
    tv.CP(1, solver="als", sweeps=1).fit(make_tensor(labels=True)).model_.save(tmp_path / "m.npz")
    asked = ["--at", str(tmp_path / "x.csv"), "-o", str(tmp_path / "out.csv")]
    assert run(["predict", str(tmp_path / "m.npz"), *asked]) == 2


def test_a_file_is_what_it_holds(tmp_path: Path) -> None:
    make_tensor(labels=False).write(tmp_path / "x.parquet")
    for name in ("x.csv", "x.tns", "x.npz", "x.mat"):
        (tmp_path / name).write_bytes((tmp_path / "x.parquet").read_bytes())
        refused(tmp_path / name, "holds parquet|readable NPZ")
    assert tv.read(tmp_path / "x.csv", format="parquet").n_entries == 40


@pytest.mark.parametrize("path", ["/proc/self/mem", "/dev/null", "/proc/1/environ"])
def test_files_of_the_system(path: str) -> None:
    with pytest.raises(tv.InputError):
        tv.read(path, format="csv")


def test_float16_labels(tmp_path: Path) -> None:
    table = pa.table({"a": pa.array(np.array([1, 2], np.float16)), "b": [1, 2], "value": [1.0, 2.0]})
    assert tv.ObservedTensor.from_frame(table).shape == (2, 2)


def test_options_are_not_mistaken_for_damage(tmp_path: Path) -> None:
    make_tensor(labels=False).write(tmp_path / "x.npz")
    with pytest.raises(TypeError, match="colour"):
        tv.read(tmp_path / "x.npz", colour="red")  # type: ignore[call-arg]


# The model that users share.


@pytest.fixture(scope="module")
def shared() -> SharedModel:
    ratings = tv.synthetic_cp((30, 20, 6), 2, random_state=0).train.with_modes(("user", "film", "day"))
    recipe = Recipe(
        shape=(30, 20, 6), modes=("user", "film", "day"), protect="user", bounds=(0, 1), epsilon=1.0, delta=1e-5
    )
    return recipe.finish(run_recipe(recipe, [ratings], None))


@pytest.mark.parametrize(
    "change",
    [
        {"protect": 3},
        {"protect": -1},
        {"shape": (30, 20)},
        {"shape": (30, 21, 6)},
        {"spread": 0.0},
        {"spread": float("nan")},
        {"n_traits": 99},
        {"n_traits": -1},
        {"taste_mean": "integers"},
        {"taste_covariance": "short"},
        {"factors": "transposed"},
        {"biases": "infinite"},
    ],
    ids=str,
)
def test_a_shared_model_that_does_not_fit_together(tmp_path: Path, shared: SharedModel, change: Any) -> None:
    from dataclasses import replace

    made: dict[Any, Any] = {
        "integers": shared.taste_mean.astype(np.int64),
        "short": shared.taste_covariance[:-1],
        "transposed": tuple(factor.T for factor in shared.factors),
        "infinite": tuple(bias + np.inf for bias in shared.biases),
    }
    changes = {name: made.get(item, item) if isinstance(item, str) else item for name, item in change.items()}
    shared.save(tmp_path / "good.npz")
    assert SharedModel.load(tmp_path / "good.npz").shape == shared.shape
    replace(shared, **changes).save(tmp_path / "bad.npz")
    with pytest.raises(tv.InputError, match="do not fit together"):
        SharedModel.load(tmp_path / "bad.npz")

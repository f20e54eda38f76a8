"""Named datasets: official formats on small files made here, and the real files where they are present."""

import gzip
import os
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import scipy.io

from tensorveil.errors import DataNotFoundError, InputError
from tensorveil.tensor import list_datasets, load_dataset, load_side_data
from tensorveil.tensor.datasets.catalogue import ENTRIES
from tests.unit.tensor.tensor_cases import labels_of

DAY = 86_400
# Four ratings on three days; the item ids leave gaps, as the official files do.
ROWS = [(1, 10, 5, 5 * DAY + 3), (1, 30, 3, 5 * DAY + 9), (2, 10, 1, 6 * DAY), (3, 20, 4, 9 * DAY + 1)]


def lines(rows: Any, separator: Any) -> Any:
    return "".join(separator.join(map(str, row)) + "\n" for row in rows)


def write_100k(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "u.data").write_text(lines(ROWS, "\t"))
    for split in ("ua", "ub", "u1", "u2", "u3", "u4", "u5"):
        (folder / f"{split}.base").write_text(lines(ROWS[:3], "\t"))
        (folder / f"{split}.test").write_text(lines(ROWS[3:], "\t"))


def test_covid19_needs_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TENSORVEIL_DATA", raising=False)
    tensor = load_dataset("covid19-serology")
    assert tensor.shape == (438, 6, 11)
    assert tensor.n_entries == 438 * 6 * 11
    assert [mode.name for mode in tensor.modes] == ["patient", "antigen", "receptor"]
    assert labels_of(tensor.modes[0])[:2] == ["P001", "P002"]
    assert labels_of(tensor.modes[1]) == ["S", "RBD", "N", "S1", "S2", "S1 Trimer"]
    status = load_side_data("covid19-serology")["status"].tolist()
    assert {name: status.count(name) for name in set(status)} == {
        "Severe": 196,
        "Moderate": 122,
        "Deceased": 74,
        "Negative": 39,
        "Mild": 7,
    }


def test_datasets_say_where_they_can_be_had() -> None:
    homes = {info.name: info.home for info in list_datasets()}
    assert homes["covid19-serology"] is None  # it ships with us
    for name in ("ml-100k", "ml-1m", "ml-10m"):
        assert "grouplens.org" in (homes[name] or "")
    assert all(home is None or home.startswith("https://") for home in homes.values())


def test_covid19_is_small_and_has_its_licence() -> None:
    folder = Path(ENTRIES[0].load.__code__.co_filename).parent / "data"
    assert sum(file.stat().st_size for file in folder.iterdir()) < 300_000
    text = (folder / "LICENSE-covid19-serology.txt").read_text()
    for part in ("Regents of the University of California", "Tan, Z. C.", "Zohar, T.", "Permission is hereby granted"):
        assert part in text


def test_records_are_counts_of_made_up_patients() -> None:
    tensor = load_dataset("synthea-records")
    assert tensor.shape == (970, 91, 98)
    assert tensor.unlisted == "zero"
    assert tensor.values.sum() == 11_159
    assert [mode.labels is not None for mode in tensor.modes] == [False, True, True]
    folder = Path(ENTRIES[0].load.__code__.co_filename).parent / "data"
    text = (folder / "LICENSE-synthea-records.txt").read_text()
    for part in ("Apache License, Version 2.0", "Walonoski, J.", "describe no person"):
        assert part in text


def test_covid19_equals_its_source() -> None:
    tensorly = pytest.importorskip("tensorly.datasets")
    source = tensorly.load_covid19_serology()
    assert np.array_equal(load_dataset("covid19-serology").to_dense(), np.asarray(source.tensor))
    assert load_side_data("covid19-serology")["status"].tolist() == [str(name) for name in source.ticks[0]]


def test_the_list_says_what_is_present(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORVEIL_DATA", str(tmp_path))
    present = {info.name: info.present for info in list_datasets()}
    assert {name for name, there in present.items() if there} == {"covid19-serology", "synthea-records"}
    write_100k(tmp_path / "ml-100k")
    assert {info.name: info.present for info in list_datasets()}["ml-100k"]
    assert {info.name: info.present for info in list_datasets(tmp_path)}["ml-100k"]
    for info in list_datasets():
        assert info.licence
        assert info.citation
        assert "\n" not in info.description


@pytest.mark.parametrize("layout", ["folder", "zip", "zip in folder"])
def test_100k_layouts(tmp_path: Path, layout: Any) -> None:
    write_100k(tmp_path / "ml-100k")
    if layout != "folder":
        archive = tmp_path / ("ml-100k.zip" if layout == "zip" else "ml-100k/ml-100k.zip")
        with zipfile.ZipFile(archive, "w") as file:
            for path in sorted((tmp_path / "ml-100k").glob("u*")):
                file.write(path, f"ml-100k/{path.name}")
        for path in (tmp_path / "ml-100k").glob("u*"):
            path.unlink()
    whole = load_dataset("ml-100k", folder=tmp_path)
    assert whole.shape == (3, 3)
    assert whole.bounds == (1.0, 5.0)
    assert whole.coords.tolist() == [[0, 0], [0, 2], [1, 0], [2, 1]]
    assert whole.values.tolist() == [5.0, 3.0, 1.0, 4.0]
    test = load_dataset("ml-100k", folder=tmp_path, part="ua.test", time="day")
    assert test.shape == (3, 3, 3)  # numbered over all of u.data, not over the part
    assert test.coords.tolist() == [[2, 1, 2]]
    assert labels_of(test.modes[2]) == [np.datetime64(day, "D").astype(object) for day in (5, 6, 9)]
    sliced = load_dataset("ml-100k", folder=tmp_path, time=2)
    assert sliced.shape == (3, 3, 2)
    assert sliced.columns[2].tolist() == [0, 0, 0, 1]


def test_100k_options(tmp_path: Path) -> None:
    write_100k(tmp_path / "ml-100k")
    refused: list[tuple[dict[str, Any], str]] = [
        ({"part": "u6.base"}, "part must be one of"),
        ({"time": "week"}, "time must be None, 'day'"),
        ({"time": 0}, "time must be None, 'day'"),
    ]
    for options, message in refused:
        with pytest.raises(InputError, match=message):
            load_dataset("ml-100k", folder=tmp_path, **options)
    (tmp_path / "ml-100k" / "ua.base").unlink()
    with pytest.raises(DataNotFoundError, match=r"ua\.base is expected beside u\.data"):
        load_dataset("ml-100k", folder=tmp_path, part="ua.base")
    (tmp_path / "ml-100k" / "u.data").write_text("1\t2\tprivate\t4\n")
    with pytest.raises(InputError, match="lines of user, item, rating and time") as caught:
        load_dataset("ml-100k", folder=tmp_path)
    assert "private" not in str(caught.value)


def test_damaged_archive(tmp_path: Path) -> None:
    (tmp_path / "ml-100k.zip").write_text("no archive")
    with pytest.raises(DataNotFoundError, match=r"ml-100k/u\.data is expected inside ml-100k\.zip"):
        load_dataset("ml-100k", folder=tmp_path)


@pytest.mark.parametrize(
    ("name", "path", "bounds"),
    [
        ("ml-1m", "ml-1m/ratings.dat", (1.0, 5.0)),
        ("ml-10m", "ml-10m/ratings.dat", (0.5, 5.0)),
        ("ml-10m", "ml-10M100K/ratings.dat", (0.5, 5.0)),
    ],
)
def test_official_ratings(tmp_path: Path, name: str, path: Path, bounds: Any) -> None:
    file = tmp_path / path
    file.parent.mkdir()
    file.write_text(lines(ROWS, "::"))
    tensor = load_dataset(name, folder=tmp_path, time="day")
    assert tensor.shape == (3, 3, 3)
    assert tensor.bounds == bounds
    assert labels_of(tensor.modes[1]) == [10, 20, 30]
    assert load_dataset(name, folder=tmp_path).values.tolist() == [5.0, 3.0, 1.0, 4.0]


def test_half_stars_in_a_zip(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "ml-10m.zip", "w") as file:
        file.writestr("ml-10M100K/ratings.dat", "1::122::0.5::838985046\n1::185::4.5::838983525\n")
    assert load_dataset("ml-10m", folder=tmp_path).values.tolist() == [0.5, 4.5]


def test_1m_arrays(tmp_path: Path) -> None:
    (tmp_path / "ml-1m").mkdir()
    file = tmp_path / "ml-1m" / "ratings.npz"
    user, movie, rating = (np.array(column, np.int16) for column in list(zip(*ROWS, strict=True))[:3])
    np.savez(file, user=user, movie=movie, rating=rating.astype(np.int8))
    assert load_dataset("ml-1m", folder=tmp_path).values.tolist() == [5.0, 3.0, 1.0, 4.0]
    with pytest.raises(InputError, match="holds no times"):
        load_dataset("ml-1m", folder=tmp_path, time="day")
    np.savez(file, user=user)
    with pytest.raises(InputError, match="must hold an array called movie"):
        load_dataset("ml-1m", folder=tmp_path)
    file.write_text("no archive")
    with pytest.raises(InputError, match=r"ratings\.npz is damaged"):
        load_dataset("ml-1m", folder=tmp_path)


CUBE = np.array([[[1.0, 0.0], [2.0, 3.0]], [[4.0, 0.0], [5.0, 6.0]]])


@pytest.mark.parametrize(
    ("name", "file", "variable", "observed"),
    [
        ("guangzhou", "tuckerapp_Guangzhou_7days.mat", "dense_tensor", 6),
        ("guangzhou-50", "tensorlib_guangzhou_speed.npz", "tensor", 6),
        ("portland", "tensorlib_portland_volume.npz", "tensor", 8),
        ("nyc-taxi", "transdim_NYC.mat", "tensor", 8),
        ("nyc-yellow", "lrtc-tidt_nyctaxiyellow202160.mat", "nyctaxiyellow202160", 8),
        ("pacific", "lrtc-tidt_Pacific.mat", "Pacific", 8),
    ],
)
def test_traffic_formats(tmp_path: Path, name: str, file: Any, variable: Any, observed: Any) -> None:
    folder = tmp_path / "traffic-tensors"
    folder.mkdir()
    if file.startswith("lrtc"):
        with h5py.File(folder / file, "w", userblock_size=512) as target:
            target[variable] = CUBE.T
    elif file.endswith(".mat"):
        scipy.io.savemat(folder / file, {variable: CUBE})
    else:
        arrays: dict[str, Any] = {variable: CUBE}
        np.savez(folder / file, **arrays)
    tensor = load_dataset(name, folder=tmp_path)
    assert tensor.n_entries == observed
    assert np.array_equal(tensor.to_dense(0.0), CUBE)
    assert load_dataset(name, folder=tmp_path, zeros="missing").n_entries == 6
    assert load_dataset(name, folder=tmp_path, zeros="observed").n_entries == 8
    with pytest.raises(InputError, match="zeros must be one of"):
        load_dataset(name, folder=tmp_path, zeros="maybe")


def test_traffic_official_npy(tmp_path: Path) -> None:
    (tmp_path / "tensorlib" / "Datasets").mkdir(parents=True)
    np.save(tmp_path / "tensorlib" / "Datasets" / "portland_volume.npy", CUBE)
    assert load_dataset("portland", folder=tmp_path).n_entries == 8


def test_nyc_taxi_2023(tmp_path: Path) -> None:
    folder = tmp_path / "nyc-taxi-2023-01"
    folder.mkdir()
    pu, do = np.array([1, 265], np.uint16), np.array([2, 1], np.uint16)
    day, hour = np.array([1, 31], np.uint8), np.array([0, 23], np.uint8)
    np.savez(folder / "od_day_hour_counts.npz", pu=pu, do=do, day=day, hour=hour, count=np.array([3, 4], np.uint16))
    counts = load_dataset("nyc-taxi-2023-01-counts", folder=tmp_path)
    assert counts.shape == (265, 265, 31, 24)
    assert counts.coords.tolist() == [[0, 1, 0, 0], [264, 0, 30, 23]]
    assert str(counts.decode(counts.coords)[2][1]) == "2023-01-31"
    means = {"mean_minutes": 1, "mean_fare": 2, "mean_miles": 3, "n": 4}
    arrays: dict[str, Any] = {key: np.array([value, value], np.float32) for key, value in means.items()}
    np.savez(folder / "od_hour_means.npz", pu=np.minimum(pu, 263), do=do, hour=hour, **arrays)
    for measure, value in means.items():
        tensor = load_dataset("nyc-taxi-2023-01-means", folder=tmp_path, measure=measure)
        assert tensor.shape == (263, 263, 24)
        assert tensor.values.tolist() == [value, value]
    with pytest.raises(InputError, match="measure must be one of"):
        load_dataset("nyc-taxi-2023-01-means", folder=tmp_path, measure="tips")


def bike_arrays() -> Any:
    return {
        "trips": np.arange(2 * 2 * 2 * 2 * 2).reshape(2, 2, 2, 2, 2),
        "station": np.array(["Adamstuen", "Blåsen"]),
        "year": np.array([2020, 2021]),
        "month": np.array([1, 2]),
        "day_of_week": np.array([0, 1]),
        "hour": np.array([0, 1]),
        "lat": np.array([59.9, 59.8]),
        "lon": np.array([10.7, 10.8]),
    }


def write_bikes(folder: Path, arrays: Any, netcdf: Any) -> None:
    folder.mkdir()
    if not netcdf:
        np.savez(folder / "oslo_bike.npz", **arrays)
        return
    names = {
        "trips": "Bike trips",
        "station": "End station name",
        "year": "Year",
        "month": "Month",
        "day_of_week": "Day of week",
        "hour": "Hour",
    }
    plain = folder / "plain.nc"
    with scipy.io.netcdf_file(plain, "w") as file:
        axes = ("End station name", "Year", "Month", "Day of week", "Hour")
        for axis in axes:
            file.createDimension(axis, 2)
        file.createDimension("string", 12)
        for key, array in arrays.items():
            name = names.get(key, key)
            if key == "station":
                text = np.array([list(label.encode().ljust(12, b"\0")) for label in array.tolist()], np.uint8)
                file.createVariable(name, "S1", (name, "string"))[:] = text.view("S1")
            elif key == "trips":
                file.createVariable(name, "f8", axes)[:] = array
            else:
                axis = name if key in names else "End station name"
                file.createVariable(name, "f8" if key in ("lat", "lon") else "i4", (axis,))[:] = array
    (folder / "oslo_bike.nc4.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()


@pytest.mark.parametrize("netcdf", [False, True])
def test_oslo_bike(tmp_path: Path, netcdf: Any) -> None:
    arrays = bike_arrays()
    write_bikes(tmp_path / "oslo-bike", arrays, netcdf)
    tensor = load_dataset("oslo-bike", folder=tmp_path)
    assert np.array_equal(tensor.to_dense(), arrays["trips"])
    assert labels_of(tensor.modes[0]) == ["Adamstuen", "Blåsen"]
    assert load_side_data("oslo-bike", folder=tmp_path)["lat"].tolist() == [59.9, 59.8]


def test_damaged_netcdf(tmp_path: Path) -> None:
    (tmp_path / "oslo-bike").mkdir()
    (tmp_path / "oslo-bike" / "oslo_bike.nc4.gz").write_bytes(gzip.compress(b"nothing"))
    with pytest.raises(InputError, match="damaged or has another format"):
        load_dataset("oslo-bike", folder=tmp_path)


def test_tensorly_files(tmp_path: Path) -> None:
    folder = tmp_path / "tensorly-datasets"
    folder.mkdir()
    response = np.full((13, 4, 12, 8), 0.5)
    response[0, 0, 0, 0] = np.nan
    np.savez(folder / "tensorly_small.npz", IL2_Response_Tensor=response)
    tensor = load_dataset("il2-response", folder=tmp_path)
    assert tensor.n_entries == response.size - 1
    assert labels_of(tensor.modes[3])[-1] == "NK"
    kinetic = np.arange(16.0).reshape(2, 2, 2, 2)
    np.savez(folder / "tensorly_kinetic.npz", Kinetic=kinetic, Kinetic_missing=kinetic > 13)
    assert load_dataset("kinetic", folder=tmp_path).n_entries == 14
    np.savez(folder / "tensorly_indian_pines.npz", Indian_pines_corrected=CUBE, Indian_pines_gt=np.eye(2))
    assert load_dataset("indian-pines", folder=tmp_path).n_entries == 8
    assert load_side_data("indian-pines", folder=tmp_path)["class"].shape == (2, 2)


def test_side_data_of_a_dataset_without_any() -> None:
    with pytest.raises(InputError, match="has no side data; these have: covid19-serology"):
        load_side_data("ml-100k")


FOLDER = Path(os.environ.get("TENSORVEIL_DATA", ""))
REAL = {
    "ml-100k": ((943, 1682), 100_000),
    "ml-1m": ((6040, 3706), 1_000_209),
    "guangzhou": ((214, 144, 7), 210_672),
    "guangzhou-50": ((144, 50, 15), 105_840),
    "portland": ((96, 80, 15), 115_200),
    "nyc-taxi": ((30, 30, 1464), 1_317_600),
    "nyc-yellow": ((60, 69, 69), 285_660),
    "pacific": ((60, 30, 84), 151_200),
    "nyc-taxi-2023-01-counts": ((265, 265, 31, 24), 1_157_035),
    "nyc-taxi-2023-01-means": ((263, 263, 24), 149_562),
    "oslo-bike": ((270, 2, 12, 7, 24), 1_088_640),
    "il2-response": ((13, 4, 12, 8), 4_800),
    "kinetic": ((64, 12, 10, 60), 459_046),
    "indian-pines": ((145, 145, 200), 4_205_000),
}


def need(name: str) -> None:
    if not os.environ.get("TENSORVEIL_DATA"):
        pytest.skip("TENSORVEIL_DATA is not set: no real data here")
    if not {info.name: info.present for info in list_datasets()}[name]:
        pytest.skip(f"the file of {name} is not in the data folder")


@pytest.mark.parametrize("name", REAL)
def test_real_files(name: str) -> None:
    need(name)
    tensor = load_dataset(name)
    assert (tensor.shape, tensor.n_entries) == REAL[name]


def test_real_100k_splits_and_days() -> None:
    need("ml-100k")
    whole = load_dataset("ml-100k", time="day")
    # Ratings fall on 213 UTC days; no other 24-hour grid gives fewer, so 212 needs an equal cut.
    assert whole.shape == (943, 1682, 213)
    assert load_dataset("ml-100k", time=212).shape == (943, 1682, 212)
    counts = np.bincount(whole.values.astype(int))[1:]
    assert counts.tolist() == [6110, 11370, 27145, 34174, 21201]
    keys = {}
    for part in ("ua.base", "ua.test", "ub.test", "u1.test"):
        tensor = load_dataset("ml-100k", part=part, time="day")
        assert tensor.shape == whole.shape
        keys[part] = set(map(tuple, tensor.coords.tolist()))
    assert {part: len(key) for part, key in keys.items()} == {
        "ua.base": 90_570,
        "ua.test": 9_430,
        "ub.test": 9_430,
        "u1.test": 20_000,
    }
    assert keys["ua.base"] | keys["ua.test"] == set(map(tuple, whole.coords.tolist()))
    assert not keys["ua.test"] & keys["ub.test"]
    assert len(np.unique(load_dataset("ml-100k", part="ua.test", time="day").columns[2])) == 212


def test_real_guangzhou_files_agree() -> None:
    need("guangzhou")
    need("guangzhou-50")
    week = load_dataset("guangzhou").to_dense()
    roads = load_dataset("guangzhou-50").to_dense()
    assert np.array_equal(week[:50], roads[:, :, :7].transpose(1, 0, 2), equal_nan=True)


def test_real_1m_mean() -> None:
    need("ml-1m")
    assert load_dataset("ml-1m").values.mean() == pytest.approx(3.581564453029317)


def test_real_oslo_netcdf_equals_arrays(tmp_path: Path) -> None:
    need("oslo-bike")
    original = FOLDER / "oslo-bike" / "oslo_bike.nc4.gz"
    if not original.is_file():
        pytest.skip("the netCDF file of oslo-bike is not in the data folder")
    (tmp_path / "oslo-bike").mkdir()
    (tmp_path / "oslo-bike" / original.name).write_bytes(original.read_bytes())
    one, other = load_dataset("oslo-bike"), load_dataset("oslo-bike", folder=tmp_path)
    assert np.array_equal(one.values, other.values)
    assert one.modes[0] == other.modes[0]


def test_real_1m_official_lines_if_present() -> None:
    need("ml-1m")
    if not (FOLDER / "ml-1m" / "ratings.dat").is_file():
        pytest.skip("ratings.dat of ml-1m is not in the data folder")
    assert load_dataset("ml-1m", time="day").order == 3

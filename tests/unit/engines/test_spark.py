"""Spark: here, on a cluster of processes, and through Spark Connect; the same bytes as in memory."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.engines.spark_run import OPEN
from tests.unit.engines.store_cases import (
    by_entry,
    by_value,
    digest,
    estimator,
    in_memory,
    make_store,
    make_value_store,
    open_fit,
    open_store,
    planted,
    ratings,
    single_ratings,
    values_in_memory,
)

pytest.importorskip("pyspark", reason="the extra spark is not installed")
if shutil.which("java") is None:
    pytest.skip("Spark needs Java, which is not installed", allow_module_level=True)

ROOT = Path(__file__).parents[3]


def spark_environment() -> dict[str, str]:
    import pyspark

    paths = os.pathsep.join([str(ROOT), *sys.path])
    return os.environ | {
        "SPARK_HOME": str(Path(pyspark.__file__).parent), "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": paths,
        "PYSPARK_PYTHON": sys.executable, "NUMBA_NUM_THREADS": "1",
    }  # fmt: skip


def start(master: str, folder: Path, method: str = "biases") -> Any:
    words = [sys.executable, "-m", "tests.unit.engines.spark_run", master, str(folder), method]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(words, cwd=ROOT, env=spark_environment(), **pipes)


def finish(process: Any) -> str:
    out, err = process.communicate(timeout=400)
    assert process.returncode == 0, err[-3000:]
    return str(out.split()[-1])


@pytest.fixture
def whole(tmp_path: Path) -> Any:
    """What a fit must give, by method, once the store is there."""
    make_store(tmp_path, ratings())
    return lambda method: digest(
        (by_entry if method in ("crosstabs", "gram") else estimator)(method=method).fit(in_memory(tmp_path)), tmp_path
    )


@contextmanager
def standalone(folder: Path) -> Iterator[tuple[str, list[Any]]]:
    """A master and two workers as processes, on loopback, who prove who they are and encrypt what they send."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = folder / "spark.conf"
    settings.write_text(
        "spark.authenticate true\nspark.authenticate.secret for-this-test-alone\nspark.network.crypto.enabled true\n"
        "spark.io.encryption.enabled true\n"
    )
    environment = spark_environment()
    command = [f"{environment['SPARK_HOME']}/bin/spark-class"]
    here = ["--host", "127.0.0.1", "--webui-port", "0", "--properties-file", str(settings)]
    address = f"spark://127.0.0.1:{port}"
    started = []
    with (folder / "spark.log").open("w") as log:

        def launch(kind: str, *rest: str) -> None:
            words = [*command, f"org.apache.spark.deploy.{kind}", *here, *rest]
            started.append(subprocess.Popen(words, env=environment, stdout=log, stderr=log))

        try:
            launch("master.Master", "--port", str(port))
            for number in range(2):
                launch("worker.Worker", "--cores", "1", "--memory", "1g", "-d", str(folder / f"w{number}"), address)
            yield address, started
        finally:
            for process in started:
                process.kill()
                process.wait()


def kill_executors(worker: Any) -> int:
    """Kill the executors of a worker, which starts new ones; return how many there were."""
    import psutil

    killed = 0
    for each in psutil.Process(worker.pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):  # some end by themselves meanwhile
            if "CoarseGrainedExecutorBackend" in " ".join(each.cmdline()):
                os.kill(each.pid, signal.SIGKILL)
                killed += 1
    return killed


@pytest.mark.slow
@pytest.mark.parametrize("method", ["factors", "crosstabs", "gram"])
def test_on_this_machine(tmp_path: Path, whole: Any, method: str) -> None:
    assert finish(start("local[2]", tmp_path, method)) == whole(method)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["margins", "staged"])
def test_single_values_on_this_machine(tmp_path: Path, method: str) -> None:
    make_value_store(tmp_path, single_ratings())
    expected = digest(by_value(method=method).fit(values_in_memory(tmp_path)), tmp_path)
    assert finish(start("local[2]", tmp_path, method)) == expected


@pytest.mark.slow
@pytest.mark.parametrize("master", ["local[2]", "connect:local[2]"])
def test_open_fits_agree_with_those_in_memory(tmp_path: Path, master: str) -> None:
    if master.startswith("connect"):
        pytest.importorskip("grpc", reason="pyspark[connect] is not installed")
    open_store(tmp_path)
    finish(start(master, tmp_path, "als"))
    expected = open_fit(dtype="float64").fit(planted()).predict(planted().coords)
    np.testing.assert_allclose(np.load(tmp_path / "als.npy"), expected, atol=1e-7)
    for name, fit in OPEN.items():
        expected = fit.fit(planted()).predict(planted().coords)
        np.testing.assert_allclose(np.load(tmp_path / f"{name}.npy"), expected, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["biases", "crosstabs"])
def test_through_spark_connect(tmp_path: Path, whole: Any, method: str) -> None:
    pytest.importorskip("grpc", reason="pyspark[connect] is not installed")
    assert finish(start("connect:local[2]", tmp_path, method)) == whole(method)


@pytest.mark.slow
def test_on_a_cluster_that_loses_executors_in_its_rounds(
    tmp_path: Path, whole: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))
    (tmp_path / "conf").mkdir()
    with standalone(tmp_path) as (address, (_, *workers)):
        shutil.copy(tmp_path / "spark.conf", tmp_path / "conf" / "spark-defaults.conf")
        run = start(address, tmp_path)
        killed, seen = 0, -1
        while run.poll() is None and killed < 4:
            done = len(list((tmp_path / "c").glob("*.state")))
            if (tmp_path / "c").exists() and done > seen:
                seen = done
                killed += kill_executors(workers[done % 2])
            time.sleep(0.02)
        assert finish(run) == whole("biases")
        assert killed >= 2


def test_a_cluster_beyond_this_machine_must_prove_who_it_is_and_encrypt() -> None:
    from tensorveil.engines.spark import SparkEngine
    from tensorveil.errors import InputError

    class Session:
        def __init__(self, **settings: str) -> None:
            self.settings = {name.replace("_", "."): each for name, each in settings.items()}
            self.conf = self

        def get(self, name: str, default: str) -> str:
            return self.settings.get(name, default)

    def open_engine(trust: bool = False, **settings: str) -> Any:
        session: Any = Session(**settings)
        return SparkEngine(session, trust_network=trust)

    assert open_engine(spark_master="local[3]").workers == 3
    open_engine(spark_master="spark://127.0.0.1:7077")
    for master in ("spark://head:7077", "yarn", "k8s://https://head:443", ""):
        half: list[dict[str, Any]] = [{}, {"spark_authenticate": "true"}]
        for settings in half:
            with pytest.raises(InputError, match="trust_network"):
                open_engine(spark_master=master, **settings)
        open_engine(spark_master=master, trust=True)
        open_engine(spark_master=master, spark_authenticate="true", spark_network_crypto_enabled="true")


@pytest.mark.filterwarnings("ignore")
def test_spark_connect_beyond_this_machine_needs_tls() -> None:
    pytest.importorskip("grpc", reason="pyspark[connect] is not installed")
    from pyspark.sql.connect.client.core import DefaultChannelBuilder

    from tensorveil.engines.spark import SparkEngine
    from tensorveil.errors import InputError

    def connect(address: str) -> Any:
        remote: Any = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
        remote.client = type("Client", (), {"_builder": DefaultChannelBuilder(address)})()
        remote.conf = type(
            "Conf", (), {"get": lambda _, name, default: {"spark.master": "local[2]"}.get(name, default)}
        )()
        return remote

    for fine in ("sc://localhost", "sc://127.0.0.1:15002", "sc://[::1]:15002", "sc://head:15002/;use_ssl=true"):
        assert SparkEngine(connect(fine)).workers == 2
    for wild in ("sc://head:15002", "sc://10.0.0.5", "sc://127.evil.example"):
        with pytest.raises(InputError, match="use_ssl=true"):
            SparkEngine(connect(wild))
        SparkEngine(connect(wild), trust_network=True)


def test_sums_are_cut_into_blocks_and_added() -> None:
    import pyarrow as pa

    from tensorveil.engines import spark

    rng = np.random.default_rng(0)
    totals = [rng.integers(-(2**60), 2**60, 2 * spark._BLOCK + 5) for _ in range(2)]
    cut = [spark._cut(bytes(9) + total.astype("<i8").tobytes()) for total in totals]
    assert [len(each) for each in cut] == [3, 3]
    added = b""
    for block in range(3):
        table = pa.table({"block": [block] * 2, "answer": pa.array([each[block] for each in cut], pa.binary())})
        (row,) = spark._add(table).to_pylist()
        assert row["block"] == block
        added += row["answer"][9:]
    assert added == (totals[0] + totals[1]).astype("<i8").tobytes()

"""Dask: two processes, the same bytes, also when one of them is killed in the middle of a round."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("distributed", reason="the extra dask is not installed")

from dask.distributed import Client, LocalCluster

import tensorveil as tv
from tensorveil.engines import find_engine
from tensorveil.engines.dask import DaskEngine, _check_address
from tensorveil.errors import InputError
from tensorveil.tensor.stored import StoreError
from tests.unit.engines.store_cases import (
    by_entry,
    by_value,
    digest,
    estimator,
    in_memory,
    make_store,
    make_value_store,
    new_ledger,
    open_fit,
    open_store,
    planted,
    ratings,
    single_ratings,
    values_in_memory,
)

# Dask's own threads and sockets end when they end.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    ) as made:
        yield made


@pytest.fixture
def stored(tmp_path: Path) -> Any:
    return make_store(tmp_path, ratings())


class Killing(DaskEngine):
    """Kills a worker, with all that it holds, in the middle of every round."""

    killed, killed_in_answers = 0, False

    def find_two(self) -> list[int]:
        """Wait until two workers answer: one that was killed may still be listed, and its heir not yet there."""
        end = time.monotonic() + 20
        while True:
            pids = list(self._client.run(os.getpid, on_error="ignore").values())
            if len(pids) == 2 or time.monotonic() > end:
                return pids
            time.sleep(0.1)

    def run(self, tasks: Any, public: Any) -> bytes:
        return bytes(self.kill_meanwhile(lambda: super(Killing, self).run(tasks, public)))

    def gather(self, function: Any, tasks: Any, public: Any) -> Iterator[bytes]:
        before = self.killed
        answers = self.kill_meanwhile(lambda: list(super(Killing, self).gather(function, tasks, public)))
        self.killed_in_answers |= self.killed > before
        return iter(answers)

    def kill_meanwhile(self, work: Any) -> Any:
        from threading import Timer

        pids = self.find_two()
        if len(pids) < 2:  # whoever is killed while it starts again may stay away
            return work()
        timer = Timer(0.03, lambda: os.kill(pids[0], signal.SIGKILL))
        timer.start()
        try:
            return work()
        finally:
            timer.join()
            self.killed += 1
            with contextlib.suppress(Exception):
                self._client.wait_for_workers(2, timeout=20)


def test_two_processes_give_the_bytes_of_one(tmp_path: Path, stored: Any, cluster: Any) -> None:
    whole = digest(estimator().fit(in_memory(tmp_path)), tmp_path)
    with Client(cluster) as client:
        assert digest(estimator().fit(stored, engine=client), tmp_path) == whole
    assert digest(estimator().fit(stored, engine=f"dask:{cluster.scheduler_address}"), tmp_path) == whole


@pytest.mark.parametrize("changes", [{"epsilon": 60.0}, {"method": "gram"}])
def test_two_processes_give_the_bytes_of_one_for_single_entries(
    tmp_path: Path, stored: Any, cluster: Any, changes: Any
) -> None:
    whole = digest(by_entry(**changes).fit(in_memory(tmp_path)), tmp_path)
    with Client(cluster) as client:
        assert digest(by_entry(**changes).fit(stored, engine=client), tmp_path) == whole


def test_open_fits_agree_with_those_in_memory(tmp_path: Path, cluster: Any) -> None:
    expected = open_fit(dtype="float64").fit(planted()).predict(planted().coords)
    with Client(cluster) as client:
        found = open_fit(dtype="float64").fit(open_store(tmp_path), engine=client).predict(planted().coords)
    np.testing.assert_allclose(found, expected, atol=1e-7)


@pytest.mark.parametrize("changes", [{"method": "margins"}, {"epsilon": 4000.0}])
def test_two_processes_give_the_bytes_of_one_for_single_values(tmp_path: Path, cluster: Any, changes: Any) -> None:
    stored = make_value_store(tmp_path, single_ratings())
    whole = digest(by_value(**changes).fit(values_in_memory(tmp_path)), tmp_path)
    with Client(cluster) as client:
        assert digest(by_value(**changes).fit(stored, engine=client), tmp_path) == whole


@pytest.mark.parametrize(
    "fit",
    [tv.CP(3, sweeps=15, random_state=0, threads=1), tv.Tucker((3, 2, 2), solver="als", sweeps=8, dtype="float64")],
)
def test_bayes_and_cores_agree_with_those_in_memory(tmp_path: Path, cluster: Any, fit: Any) -> None:
    fit.random_state = 0
    expected = fit.fit(planted()).predict(planted().coords)
    with Client(cluster) as client:
        found = fit.fit(open_store(tmp_path), engine=client).predict(planted().coords)
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.slow
def test_a_worker_that_is_killed_while_values_are_perturbed_changes_nothing(tmp_path: Path, cluster: Any) -> None:
    stored = make_value_store(tmp_path, single_ratings())
    whole = digest(by_value(method="input").fit(stored), tmp_path)
    with Client(cluster) as client:
        engine = Killing(client)
        assert digest(by_value(method="input").fit(stored, engine=engine), tmp_path) == whole
        assert engine.killed >= 3
        assert engine.killed_in_answers


@pytest.mark.slow
def test_a_worker_that_is_killed_changes_nothing_for_single_entries(tmp_path: Path, stored: Any, cluster: Any) -> None:
    whole = digest(by_entry(method="gram").fit(in_memory(tmp_path)), tmp_path)
    with Client(cluster) as client:
        engine = Killing(client)
        assert digest(by_entry(method="gram").fit(stored, engine=engine), tmp_path) == whole
        assert engine.killed >= 3  # a worker that was killed may stay away for a round


def test_a_worker_that_is_killed_in_a_round_changes_nothing(tmp_path: Path, stored: Any, cluster: Any) -> None:
    changes = {"method": "biases"}
    whole = digest(estimator(**changes).fit(stored), tmp_path)
    with Client(cluster) as client:
        engine = Killing(client)
        assert digest(estimator(**changes).fit(stored, engine=engine), tmp_path) == whole
    assert engine.killed >= 4  # the parts were looked at first, then came four rounds


def test_damage_is_found_before_the_charge_and_told_without_data(tmp_path: Path, stored: Any, cluster: Any) -> None:
    ledger = new_ledger(tmp_path)
    (stored.folder / stored.parts("user")[3].file).unlink()
    with Client(cluster) as client, pytest.raises(StoreError, match="under the same path") as caught:
        estimator(noise_seed=None, ledger=ledger).fit(stored, engine=client)
    assert caught.value.__cause__ is None
    assert not ledger.entries()


def test_plain_connections_beyond_this_machine_are_refused() -> None:
    for fine in ("127.0.0.1:8786", "tcp://localhost:1", "tls://head:8786", "inproc://10.0.0.1/3/1", "tcp://[::1]:3"):
        _check_address(fine, False)
    for wild in ("10.0.0.5:8786", "tcp://head:8786", "ws://head:80", "ucx://head:3", "tcp://127.evil.example:3"):
        with pytest.raises(InputError, match="not encrypted"):
            _check_address(wild, False)
        with pytest.raises(InputError, match="not encrypted"):
            find_engine(f"dask:{wild}")
        _check_address(wild, True)


def test_a_cluster_whose_workers_are_elsewhere_is_refused() -> None:
    class Elsewhere:
        def scheduler_info(self, **_: Any) -> Any:
            return {"address": "tcp://127.0.0.1:8786", "workers": {"tcp://10.0.0.7:4": {"nthreads": 8}}}

    client: Any = Elsewhere()
    with pytest.raises(InputError, match="not encrypted"):
        DaskEngine(client)
    assert DaskEngine(client, trust_network=True).workers == 8


def test_nobody_there(tmp_path: Path) -> None:
    import dask

    with dask.config.set({"distributed.comm.timeouts.connect": "1s"}), pytest.raises(InputError, match="answers"):
        find_engine("dask:127.0.0.1:9")


@pytest.mark.slow
def test_tls_both_ways(tmp_path: Path, stored: Any) -> None:
    """Encrypted, and closed to whoever has another certificate."""
    from distributed.security import Security

    own, other = Security.temporary(), Security.temporary()
    whole = digest(estimator().fit(stored), tmp_path)
    settings: Any = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "security": own}
    with LocalCluster(**settings) as made, Client(made, security=own) as client:
        assert made.scheduler_address.startswith("tls://")
        assert digest(estimator().fit(stored, engine=client), tmp_path) == whole
        with pytest.raises(OSError):  # noqa: PT011 - as Dask has it
            Client(made.scheduler_address, security=other, timeout="3s")


@pytest.mark.slow
def test_a_worker_killed_in_every_round_of_a_fit_with_features(tmp_path: Path, stored: Any, cluster: Any) -> None:
    whole = digest(estimator(tv.UserLevelTucker).fit(stored), tmp_path)
    with Client(cluster) as client:
        engine = Killing(client)
        assert digest(estimator(tv.UserLevelTucker).fit(stored, engine=engine), tmp_path) == whole
    assert engine.killed > 5

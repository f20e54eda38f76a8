"""Federated runs from command to release: in one process, and as processes that talk over Flower."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensorveil.cli.main import run as run_here
from tensorveil.errors import DataNotFoundError
from tensorveil.federated.agreement import Agreement
from tensorveil.privacy import Budget, Ledger
from tensorveil.release.release import load_release
from tensorveil.rounds import run_recipe
from tensorveil.tensor import load_dataset
from tests.flows.federated_parties import DECLARED, PROMISE, Parties, ratings, run, write_certificates


def create_ledger(path: Path) -> Any:
    Ledger.create(path, budget=Budget(epsilon=5.0, delta=1e-5), unit="slice:user", name="ratings")
    return path


@pytest.fixture
def parties(tmp_path: Path) -> Iterator[Any]:
    """Make parties on demand, and end their processes whatever happens."""
    made = []

    def make(*arguments: Any, **options: Any) -> Any:
        made.append(Parties(tmp_path, *arguments, **options))
        return made[-1]

    yield make
    for each in made:
        each.end()


def same_factors(model: Any, agreement: Any) -> Any:
    central = agreement.recipe.finish(run_recipe(agreement.recipe, [ratings()], None))
    pairs = zip((*model.factors, *model.biases), (*central.factors, *central.biases), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("trust", ["aggregator", "secure", "local"])
def test_simulation_in_one_process(tmp_path: Path, trust: Any, capsys: pytest.CaptureFixture[str]) -> None:
    ratings().write(tmp_path / "ratings.npz")
    ledger = [] if trust == "local" else ["--ledger", str(create_ledger(tmp_path / "ratings.ledger"))]
    code = run_here(
        ["federate", "simulate", str(tmp_path / "ratings.npz"), *DECLARED, *PROMISE, "--trust", trust, *ledger,
         "--held-out", "0.1", "--workdir", str(tmp_path / "parties"), "-o", str(tmp_path / "release"), "--json"]
    )  # fmt: skip
    assert code == 0
    facts = json.loads(capsys.readouterr().out)
    _, guarantee = load_release(tmp_path / "release")
    assert guarantee.private
    assert (guarantee.epsilon, guarantee.delta, str(guarantee.unit)) == (5.0, 1e-5, "slice:user")
    assert facts["incidents"] == []
    assert facts["diagnostics"]["RMSE"] > 0
    books = [tmp_path / "ratings.ledger"]
    if trust == "local":
        books = sorted((tmp_path / "parties").glob("client-*/own.ledger"))
        assert len(books) == 3
    for book in books:
        (charge,) = Ledger.open(book).entries()
        assert charge.event == Agreement.load(tmp_path / "parties" / "agreement.json").event


def test_a_comparison_without_noise_is_equal_and_marked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ratings().write(tmp_path / "ratings.npz")
    code = run_here(
        ["federate", "simulate", str(tmp_path / "ratings.npz"), *DECLARED, *PROMISE, "--trust", "secure",
         "--drop-outs", "1", "--noise-off", "--held-out", "0.2", "--compare", "-o", str(tmp_path / "release"), "--json"]
    )  # fmt: skip
    assert code == 0
    diagnostics = json.loads(capsys.readouterr().out)["diagnostics"]
    assert diagnostics["largest difference of factors"] == 0.0
    assert diagnostics["RMSE"] == diagnostics["RMSE, central"]
    assert all(path.name.startswith("NOT-PRIVATE-") for path in (tmp_path / "release").iterdir())


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "federated.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "federated.md", "exec"), {})
    assert "against the server, and any one other client" in capsys.readouterr().out
    assert load_release(tmp_path / "federated-release")[1].private


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--trust", "secure", "--drop-outs", "2"], "too many drop_outs"),
        (["--trust", "local", "--drop-outs", "1"], "for kind='secure' only"),
        (["--trust", "secure", "--clients", "1"], "at least 2 clients"),
    ],
)
def test_what_cannot_be_promised_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: Any, reason: Any
) -> None:
    ratings().write(tmp_path / "ratings.npz")
    target = tmp_path / "release"
    code = run_here(
        ["federate", "simulate", str(tmp_path / "ratings.npz"), *DECLARED, *PROMISE, *words, "-o", str(target)]
    )
    assert code == 2
    assert reason in capsys.readouterr().err
    assert not target.exists()


def test_a_network_without_tls_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_here(["federate", "keys", str(tmp_path / "a")])
    run_here(["federate", "keys", str(tmp_path / "b")])
    server, client = capsys.readouterr().out.split()
    code = run_here(
        ["federate", "agree", "--server-key", server, "--client-key", client, "--shape", "30,6,4", "--modes",
         "user,film,day", *PROMISE, "--trust", "aggregator", "-o", str(tmp_path / "agreement.json")]
    )  # fmt: skip
    assert code == 0
    assert "epsilon = 5" in capsys.readouterr().out
    code = run_here(
        ["federate", "server", str(tmp_path / "agreement.json"), "--home", str(tmp_path / "a"), "--listen",
         "192.0.2.1:18000", "-o", str(tmp_path / "release")]
    )  # fmt: skip
    assert code == 2
    assert "messages need TLS" in capsys.readouterr().err


def check_equal_to_central(tmp_path: Path, *words: Any) -> None:
    """Simulate without noise in some way, and compare with the central run bit by bit."""
    ratings().write(tmp_path / "ratings.npz")
    places = ["--workdir", tmp_path / "parties", "-o", tmp_path / "release"]
    facts = json.loads(
        run(
            "federate",
            "simulate",
            tmp_path / "ratings.npz",
            *DECLARED,
            *PROMISE,
            "--noise-off",
            *words,
            *places,
            "--json",
        )
    )
    assert facts["incidents"] == []
    model, _ = load_release(tmp_path / "release")
    assert same_factors(model, Agreement.load(tmp_path / "parties" / "agreement.json"))


def test_one_command_runs_a_server_and_clients_as_processes(tmp_path: Path) -> None:
    pytest.importorskip("flwr")
    check_equal_to_central(tmp_path, "--trust", "aggregator", "--clients", "2", "--processes")


@pytest.mark.slow
@pytest.mark.parametrize("sweeps", ["0", "2"])
def test_real_ratings_by_user_film_and_day(tmp_path: Path, capsys: pytest.CaptureFixture[str], sweeps: Any) -> None:
    """All parties in one process, users of ML-100K split over them: the central factors, to the last bit."""
    try:
        load_dataset("ml-100k")
    except DataNotFoundError:
        pytest.skip("needs the dataset ml-100k")
    code = run_here(
        ["federate", "simulate", "--dataset", "ml-100k", "--time", "day", "--bounds", "1", "5", "--epsilon", "5",
         "--delta", "1e-5", "--sweeps", sweeps, "--trust", "secure", "--drop-outs", "1", "--noise-off",
         "--held-out", "0.1", "--compare", "-o", str(tmp_path / "release"), "--json"]
    )  # fmt: skip
    assert code == 0
    diagnostics = json.loads(capsys.readouterr().out)["diagnostics"]
    assert diagnostics["largest difference of factors"] == 0.0
    assert diagnostics["RMSE"] < 1.05


@pytest.mark.slow
def test_clients_as_workers_of_the_simulation_engine(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    check_equal_to_central(tmp_path, "--trust", "secure", "--drop-outs", "1", "--ray")


@pytest.mark.slow
def test_a_client_is_killed_in_the_middle_of_a_round(parties: Any) -> None:
    here = parties(3, "--trust", "secure", "--drop-outs", "1")
    ledger = create_ledger(here.folder / "ratings.ledger")
    here.start_server("--ledger", ledger, "--json")
    for k in range(3):
        here.start_client(k)
    here.wait_for("client-2", "answered: sum")
    here.processes["client-2"].kill()
    code, said = here.finish("server")
    assert code == 0, said
    (charge,) = Ledger.open(ledger).entries()
    assert charge.status == "released"
    assert charge.event == Agreement.load(here.agreement).event
    assert "client 2: no answer" in here.log("server")
    assert load_release(here.folder / "release")[1].private
    assert here.finish("client-0")[0] == 0


@pytest.mark.slow
def test_a_run_over_tls(parties: Any, tmp_path: Path) -> None:
    """The server proves who it is by a certificate that the clients' authority vouches for."""
    write_certificates(tmp_path)
    here = parties(2, "--trust", "secure", "--noise-off", tls=("ca", "certificate", "key"))
    here.start_server()
    for k in range(2):
        here.start_client(k, "--noise-off")
    code, said = here.finish("server")
    assert code == 0, said
    assert same_factors(load_release(here.folder / "release")[0], Agreement.load(here.agreement))

"""From a table of visits to released phenotypes and synthetic patients, by the command and in Python."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.cli.main import run
from tensorveil.federated.recipes import make_recipe, name_of, read_state
from tensorveil.rounds import RecordsRecipe, State
from tests.flows.private_cases import names

PATIENTS, CODES, DRUGS = 3000, [f"code {k} <b>" for k in range(8)], [f"drug {k}" for k in range(6)]
PROMISE = ["--epsilon", "2", "--delta", "1e-6", "--unit", "slice:patient", "--bounds", "0", "9", "--value", "times"]


def visits() -> tuple[Any, Any]:
    """Two phenotypes, each at home in a half of the codes and of the drugs; most patients have one of them."""
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, PATIENTS)
    owner = np.repeat(np.arange(PATIENTS), rng.integers(1, 6, PATIENTS))
    rare = np.where(rng.random(len(owner)) < 0.05, 1 - kind[owner], kind[owner])
    cells = np.stack([owner, 4 * rare + rng.integers(0, 4, len(owner)), 3 * rare + rng.integers(0, 3, len(owner))], 1)
    return np.unique(cells, axis=0, return_counts=True)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    cells, times = visits()
    rows = (f"p{p},{CODES[c]},{DRUGS[d]},{n}\n" for (p, c, d), n in zip(cells, times, strict=True))
    path = tmp_path / "visits.csv"
    path.write_text("patient,code,drug,times\n" + "".join(rows))
    for name, labels in (("codes", CODES), ("drugs", DRUGS)):
        (tmp_path / f"{name}.csv").write_text("label\n" + "".join(f"{label}\n" for label in labels))
    return path


def complete(table: Path, *more: str) -> int:
    place = table.parent
    lists = ["--labels", f"code={place / 'codes.csv'}", "--labels", f"drug={place / 'drugs.csv'}"]
    public = ["--private-shape", "patient=4000", "--rank", "2", "--unlisted", "zero", "-o", str(place / "release")]
    return run(["complete", str(table), *PROMISE, *lists, *public, *more])


def test_visits_become_phenotypes_and_synthetic_patients(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger, place = str(table.parent / "visits.ledger"), table.parent
    unit = ["--unit", "slice:patient", "--name", "visits"]
    assert run(["budget", "create", ledger, "--epsilon", "2", "--delta", "1e-6", *unit]) == 0
    assert complete(table, "--ledger", ledger, "--diagnostics", str(place / "aside")) == 0
    told = capsys.readouterr().out
    assert "2 of 2 components stand out of the noise" in told.replace("\n", " ")
    folder = place / "release"
    assert names(folder) == ["MODEL_CARD.md", "guarantee.json", "model.npz", "report.html"]
    model, guarantee = tv.load_release(folder)
    assert isinstance(model, tv.CPModel)
    assert guarantee.private
    assert guarantee.proof.startswith("docs/guarantees.md#records")
    assert model.shape == (1, 8, 6)
    assert [mode.labels is None for mode in model.modes] == [True, False, False]
    for component in tv.list_components(model, most=3):
        home = {label in CODES[:4] for label, _ in component.indices["code"]}
        assert home == {component.indices["drug"][0][0] in DRUGS[:3]}
    page = (folder / "report.html").read_text()
    assert "Component 1:" in page
    assert "code 0 &lt;b&gt;" in page
    assert "<b>" not in page
    assert "p17" not in page + (folder / "MODEL_CARD.md").read_text() + told
    assert complete(table, "--ledger", ledger, "--output", str(place / "again")) == 2  # the budget is spent
    capsys.readouterr()
    drawn = place / "patients.csv"
    assert run(["synthesise", str(folder), "--rows", "patient=500", "-o", str(drawn), "--seed", "1", "--json"]) == 0
    said: Any = json.loads(capsys.readouterr().out)
    beside = json.loads(Path(said["guarantee_file"]).read_text())
    assert beside["epsilon"] == guarantee.epsilon
    assert list(beside["files"]) == ["patients.csv"]
    mean = np.bincount(visits()[0][:, 0], visits()[1]).mean()
    assert abs(said["total"] / 500 - mean) < 0.5 * mean


def test_python_does_the_same_and_parties_can_share_the_round(tmp_path: Path) -> None:
    cells, times = visits()
    modes = ("patient", "code", "drug")
    shape = (PATIENTS, 8, 6)
    tensor = tv.ObservedTensor(cells, times.astype(float), shape, modes=modes, unlisted="zero")
    promise: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-6, "bounds": (0, 9), "shape": shape}
    fitted = tv.UserLevelCounts(2, unit="slice:patient", **promise).fit(tensor)
    assert fitted.guarantee_.private
    tv.write_release(fitted, tmp_path / "release")
    own = fitted.personalise(tensor)  # for these patients alone
    assert own.shape == shape
    kind = np.bincount(cells[:, 0], (cells[:, 2] >= 3) * 1.0, PATIENTS) > np.bincount(cells[:, 0]) / 2
    guess = own.factors[0].argmax(axis=1) == fitted.model_.factors[2][3:].sum(axis=0).argmax()
    assert np.mean(guess == kind) > 0.9
    recipe = RecordsRecipe(modes=modes, protect="patient", rank=2, **{**promise, "bounds": (0.0, 9.0)})
    assert make_recipe(name_of(recipe), json.loads(json.dumps(recipe.to_json()))) == recipe
    recipe = replace(recipe, refinements=0)
    halves = [tensor.take(cells[:, 0] % 2 == half) for half in (0, 1)]
    first, second = (recipe.contribute(recipe.start(), half) for half in halves)
    total = first + second
    np.testing.assert_array_equal(total, recipe.contribute(recipe.start(), tensor))
    state = recipe.advance(recipe.start(), total)
    assert isinstance(read_state(recipe, state.to_bytes(), 1), State)
    assert recipe.finish(state).shape == (1, 8, 6)


def test_what_is_refused(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for changed, message in (
        (["--bounds", "1", "5"], "bounds must begin at 0"),
        (["--model", "tucker"], "fits --model cp alone"),
        (["--method", "factors"], 'method must be "auto" or "records" for counts'),
        (["--delta", "0"], "--unit slice needs --delta above 0"),
        (["--rank", "9"], "rank must be a whole number from 1 to the size of the longest released mode"),
    ):
        assert complete(table, *changed) == 2
        assert message in " ".join(capsys.readouterr().err.split()), message
    assert not (table.parent / "release").exists()
    tensor = tv.ObservedTensor([[0, 1, 2]], [1.0], (4, 3, 3), modes=("patient", "code", "drug"))
    promise: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "unit": "slice:patient", "bounds": (0, 9)}
    promise |= {"shape": (4, 3, 3), "accept_delta": True}
    with pytest.raises(tv.InputError, match="cells without an entry must be zero for UserLevelCounts"):
        tv.UserLevelCounts(2, **promise).fit(tensor)
    with pytest.raises(tv.InputError, match="Try UserLevelCounts"):
        tv.UserLevelCP(2, **promise).fit(tensor.with_unlisted("zero"))
    with pytest.raises(tv.InputError, match="at most 4,194,304 cells together"):
        tv.UserLevelCounts(2, **{**promise, "shape": (4, 4000, 4000)}).fit(tensor.with_unlisted("zero"))
    with pytest.raises(tv.InputError, match='unit must be "slice" here'):
        tv.UserLevelCounts(2, **{**promise, "unit": "entry"}).fit(tensor.with_unlisted("zero"))
    with pytest.raises(tv.InputError, match="rows must give a whole number of at least 1"):
        tv.synthesise(tv.CPModel(factors=(np.ones((1, 1)), np.ones((1, 1))), loss="poisson"), rows={"mode_0": 0})
    with pytest.raises(tv.InputError, match="model must be a sum of components that are not negative"):
        tv.list_components(tv.CPModel(factors=(np.ones((1, 1)), -np.ones((1, 1)))))

"""From a table of events to a model of counts or links, its report, and its measures on held-out cells."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import tensorveil as tv
from tensorveil.cli.main import cli


@pytest.fixture(scope="module")
def folder(tmp_path_factory: Any) -> Path:
    place: Path = tmp_path_factory.mktemp("losses")
    rng = np.random.default_rng(0)
    linear = np.einsum("ir,jr,kr->ijk", *(rng.normal(size=(size, 2)) for size in (12, 5, 12))) - 1
    lines = [f"p{i},r{j},p{k},1" for i, j, k in np.argwhere(rng.random(linear.shape) < 1 / (1 + np.exp(-2 * linear)))]
    kept = rng.random(len(lines)) < 0.9
    for name, part in (("train", kept), ("test", ~kept)):
        rows = [line for line, chosen in zip(lines, part, strict=True) if chosen]
        (place / f"{name}.csv").write_text("head,relation,tail,known\n" + "\n".join(rows) + "\n")
    return place


def run(*words: Any) -> Any:
    return CliRunner().invoke(cli, [str(word) for word in words])


def test_links_from_table_to_measures(folder: Path) -> None:
    out = folder / "result"
    done = run(
        "complete", folder / "train.csv", "--value", "known", "--loss", "bernoulli", "--unlisted", "zero", "--rank", 3,
        "--same", "head,tail", "--validation", 0.1, "--no-fill", "-o", out,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "mean deviance on the held-out part" in done.output
    fit = json.loads((out / "summary.json").read_text())["fit"]
    assert (fit["loss"], fit["measure"], fit["validation_rmse"]) == ("bernoulli", "mean deviance", None)
    assert fit["validation_error"] < 1.4
    page = (out / "report.html").read_text()
    assert "Measures that fit the values" in page
    assert "average precision" in page
    judged = run(
        "evaluate", out / "model.npz", "--at", folder / "test.csv", "--value", "known", "--unlisted", "zero",
        "--exclude", folder / "train.csv", "--along", "tail", "-k", 5, "--json",
    )  # fmt: skip
    assert judged.exit_code == 0, judged.output
    found = json.loads(judged.output)
    assert found["auc"] > 0.6
    assert 0 < found["ranking"]["mrr"] <= 1
    model = tv.load_model(out / "model.npz")
    modes = model.modes
    held, known = (
        tv.read(folder / f"{name}.csv", modes=modes, value="known", unlisted="zero") for name in ("test", "train")
    )
    assert tv.evaluate(model, held, exclude=known).auc == found["auc"]
    (folder / "new.csv").write_text((folder / "test.csv").read_text() + "somebody,r1,p2,1\n")
    more = run(
        "evaluate", out / "model.npz", "--at", folder / "new.csv", "--value", "known", "--unlisted", "zero",
        "--exclude", folder / "train.csv", "--json",
    )  # fmt: skip
    assert more.exit_code == 0, more.output
    assert (json.loads(more.output)["left_out"], json.loads(more.output)["auc"]) == (1, found["auc"])
    told = run("evaluate", out / "model.npz", "--at", folder / "test.csv", "--value", "known", "--along", "tail")
    assert "MRR" in told.output


@pytest.mark.parametrize("option", [["--nonnegative"], ["--same", "a,b"]])
def test_private_runs_refuse_them(folder: Path, option: Any) -> None:
    done = run(
        "complete", folder / "train.csv", "--value", "known", "--epsilon", 1, "--unit", "value", "--bounds", 0, 1,
        *option, "-o", folder / "private",
    )  # fmt: skip
    assert done.exit_code == 2
    assert f"{option[0]} cannot be used with --epsilon" in done.output


def test_a_table_without_values_is_told_what_to_do(folder: Path) -> None:
    (folder / "pairs.csv").write_text("who,where\nx,u\ny,v\n")
    done = run("complete", folder / "pairs.csv", "--loss", "bernoulli", "--unlisted", "zero", "-o", folder / "pairs")
    assert "If every row is an event or a link, add a column of ones." in str(done.exception)


def test_values_that_do_not_fit_are_refused(folder: Path) -> None:
    (folder / "stars.csv").write_text("a,b,value\nx,u,4\ny,v,2\n")
    done = run("complete", folder / "stars.csv", "--loss", "bernoulli", "-o", folder / "stars")
    assert isinstance(done.exception, tv.InputError)
    assert 'values must be 0 or 1 for loss="bernoulli"' in str(done.exception)

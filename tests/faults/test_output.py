"""Names and labels that are more than text: no terminal obeys them, no page runs them, no spreadsheet computes them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet
import pytest

import tensorveil as tv
from tensorveil.cli.main import run
from tensorveil.markup import clean

HOSTILE = ["\x1b]0;title\x07", "\x1b[2J", "\x9b31m", "\u202egnp", "[bold]x[/bold]", "=1+1", "@SUM(A1)"]


def write(path: Path, name: str = "fi\x1b[31mlm") -> Path:
    rows = [f'"{label}",f{k},{k % 3}' for k, label in enumerate(HOSTILE)]
    rows += [f'"{label}",f0,1' for label in HOSTILE[1:]]
    path.write_text(f"user,{name},value\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return path


def test_a_terminal_obeys_no_label(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "x.csv")
    for options in ([], ["--json"]):
        assert run(["info", str(path), *options]) == 0
        printed = capsys.readouterr().out
        assert not set(printed) & {"\x1b", "\x07", "\x9b", "\u202e"}
    assert run(["info", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["modes"][1]["name"] == "fi\x1b[31mlm"
    assert run(["complete", str(path), "-o", str(tmp_path / "out"), "--modes", "user,\x1b[2J"]) == 2
    assert "\x1b" not in capsys.readouterr().err


def test_clean_keeps_what_is_printed() -> None:
    assert clean("Zürich → 東京 \n\t") == "Zürich → 東京 \n\t"
    assert clean("a\x1bb\x9bc\u202ed") == "a\\x1bb\\x9bc\\u202ed"


@pytest.mark.parametrize("name", ["<img src=x onerror=alert(1)>", "[x](javascript:alert(1))", "a`b|c\x1b[2J"])
def test_a_card_holds_names_as_text(tmp_path: Path, name: str) -> None:
    tensor: Any = tv.synthetic_cp((6, 5), 1, random_state=0).train.with_modes((name, "film"))
    private = tv.PrivateCP(1, epsilon=5.0, delta=0.0, unit="value", bounds=(-1, 2)).fit(tensor)
    tv.write_release(private, tmp_path / "release")
    card = (tmp_path / "release" / "MODEL_CARD.md").read_text(encoding="utf-8")
    for part in ("<img", "[x](javascript", "\x1b", "a`b"):
        assert part not in card
    assert tv.load_release(tmp_path / "release")[0].modes[0].name == name


def test_formulas_are_defused_on_request(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", "=film")
    fit = ["complete", str(path), "--solver", "als", "--rank", "1", "--filled-format", "csv", "--no-report"]
    assert run([*fit, "-o", str(tmp_path / "plain")]) == 0
    assert run([*fit, "-o", str(tmp_path / "safe"), "--safe-csv"]) == 0
    plain = pyarrow.csv.read_csv(tmp_path / "plain" / "filled.csv")
    safe = pyarrow.csv.read_csv(tmp_path / "safe" / "filled.csv")
    assert plain.column_names[1] == "=film"
    assert safe.column_names == ["user", "'=film", "value"]
    assert {"=1+1", "@SUM(A1)"} <= set(plain.column("user").to_pylist())
    assert {"'=1+1", "'@SUM(A1)", "[bold]x[/bold]"} <= set(safe.column("user").to_pylist())
    assert all(not label.startswith(("=", "+", "-", "@")) for label in safe.column("user").to_pylist())
    asked = tmp_path / "asked.parquet"
    pyarrow.parquet.write_table(plain.select(["user", "=film"]), asked)
    ask = ["predict", str(tmp_path / "plain" / "model.npz"), "--at", str(asked), "-o", str(tmp_path / "out.csv")]
    assert run([*ask, "--safe-csv"]) == 0
    assert "'=1+1" in (tmp_path / "out.csv").read_text()


def test_a_terminal_obeys_no_ledger_and_no_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever writes a ledger or an agreement by other means can put anything into its texts."""
    from tensorveil.privacy.ledger_file import create_file
    from tensorveil.runs.federate import keep_log, logger

    hostile = "".join(HOSTILE)
    stated = {"name": hostile, "unit": "value", "epsilon": "5.0", "delta": "0.0", "created": hostile}
    create_file(tmp_path / "ledger", stated, None)
    assert run(["budget", str(tmp_path / "ledger")]) == 0
    with keep_log(tmp_path) as path:
        logger.warning("the mode %s", hostile)
    printed = capsys.readouterr()
    for text in (printed.out, printed.err, path.read_text(encoding="utf-8")):
        assert "[bold]x[/bold]" in text
        assert not set(text) & {"\x1b", "\x07", "\x9b", "\u202e"}


def test_a_terminal_that_lacks_letters_gets_their_numbers(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("user,été,value\nÅsa,東京,1\nbob,東京,2\n", encoding="utf-8")
    plain = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    command = [sys.executable, "-m", "tensorveil", "info", str(tmp_path / "x.csv")]
    done = subprocess.run(command, capture_output=True, env=plain, check=False)
    assert done.returncode == 0, done.stderr
    assert b"\\xe9t\\xe9" in done.stdout

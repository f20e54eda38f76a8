"""A plan costs nothing because it looks at no value; but a value that is infinite had the file refused."""

from pathlib import Path

import pytest

from tensorveil.cli.main import run


@pytest.mark.parametrize("value", ["inf", "-inf", "1e999", "7", "-3"])
def test_a_plan_does_not_depend_on_values(tmp_path: Path, capsys: pytest.CaptureFixture[str], value: str) -> None:
    said = set()
    for entry in ("3", value):
        (tmp_path / "ratings.csv").write_text(f"user,film,rating\nann,x,{entry}\nbob,x,4\nbob,y,2\n")
        code = run(["plan", str(tmp_path / "ratings.csv"), "--bounds", "1", "5", "--epsilon", "1"])
        shown = capsys.readouterr()
        said.add((code, shown.out, shown.err))
    assert len(said) == 1
    assert said.pop()[0] == 0

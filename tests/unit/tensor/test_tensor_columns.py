"""Columns that are not there: which one may have been meant, and where nothing may be said of the header."""

from pathlib import Path

import pytest

import tensorveil as tv
from tensorveil.cli.main import run


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_column_that_is_spelt_alike_is_named(tmp_path: Path, ending: str) -> None:
    tensor = tv.ObservedTensor([[0, 1], [1, 0]], [1.0, 2.0], modes=["user", "film"])
    tensor.write(tmp_path / f"ratings.{ending}")
    for wrong, said in ((["user", "fillm"], "Did you mean 'film'"), (["user", "Film "], "Did you mean 'film'"),
                        (["user", "city"], "Check its spelling")):  # fmt: skip
        with pytest.raises(tv.InputError, match=said):
            tv.read(tmp_path / f"ratings.{ending}", modes=wrong)
    with pytest.raises(tv.InputError, match="Did you mean 'value'"):
        tv.read(tmp_path / f"ratings.{ending}", value="valu")
    # The header may be the first person's row.
    for unit in ("value", "entry"):
        with pytest.raises(tv.InputError) as refused:
            tv.read_privately(tmp_path / f"ratings.{ending}", unit=unit, bounds=(1, 5), value="valu", indices=True)
        assert "Did you mean" not in str(refused.value)


def test_the_next_command_reads_the_file_as_this_one_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "my ratings.csv"
    path.write_text("user,film,stars,note\nann,x,3,a\nann,x,4,b\nbob,y,,c\n")
    assert run(["info", str(path), "--modes", "user,film", "--value", "stars"]) == 0
    then = capsys.readouterr().out.replace("\n", " ")
    assert f"next: tensorveil complete '{path}' --modes user,film --value stars" in then
    assert "--duplicates mean --missing drop --output result" in then

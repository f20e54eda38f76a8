"""Files that are replaced, and files that must be new."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tensorveil.errors import InputError
from tensorveil.tensor.files.atomic import new_file, replace_file


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.parametrize("known", [0o600, 0o640, 0o444])
def test_a_replaced_file_keeps_its_permissions(tmp_path: Path, known: int) -> None:
    path = tmp_path / "answers.csv"
    path.write_text("old")
    path.chmod(known)
    with replace_file(path) as temporary:
        assert mode(temporary) == 0o600  # nobody else reads it while it is written
        temporary.write_text("new")
    assert (mode(path), path.read_text()) == (known, "new")


def test_a_new_file_follows_the_mask_unless_it_is_private(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        for name, private in (("all", False), ("mine", True)):
            with replace_file(tmp_path / name, private=private) as temporary:
                temporary.write_text("new")
    finally:
        os.umask(before)
    assert (mode(tmp_path / "all"), mode(tmp_path / "mine")) == (0o644, 0o600)


def test_a_new_file_never_replaces_another(tmp_path: Path) -> None:
    path = tmp_path / "report.npy"
    with pytest.raises(InputError, match="exists by now"), new_file(path):
        path.write_text("theirs")
    assert path.read_text() == "theirs"
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_is_written_by_one_run_alone(tmp_path: Path) -> None:
    path = tmp_path / "report.npy"
    with new_file(path) as temporary:
        temporary.write_text("mine")
        with pytest.raises(InputError, match="another run is writing"), new_file(path):
            pytest.fail("the same file twice")
    assert path.read_text() == "mine"


def test_names_may_be_long(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 250)
    with replace_file(path) as temporary:
        temporary.write_text("new")
    assert path.read_text() == "new"

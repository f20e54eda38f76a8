from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tensorveil.errors import InputError
from tensorveil.release.folder import check_folder, find_leftovers, write_folder
from tensorveil.release.names import RESULT_FILES


def fill(folder: Path, text: str = "new") -> None:
    (folder / "model.npz").write_text(text)


def fill_and_fail(folder: Path, error: Any) -> None:
    fill(folder)
    raise error


def test_a_folder_appears_when_everything_is_written(tmp_path: Path) -> None:
    target = tmp_path / "result"
    with write_folder(target, ours=RESULT_FILES, force=False) as folder:
        fill(folder)
        assert not target.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["result"]
    assert (target / "model.npz").read_text() == "new"


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_a_failure_leaves_nothing(tmp_path: Path, error: Any) -> None:
    with pytest.raises(error), write_folder(tmp_path / "result", ours=RESULT_FILES, force=False) as folder:
        fill_and_fail(folder, error)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_keeps_what_was_to_be_replaced(tmp_path: Path) -> None:
    target = tmp_path / "result"
    target.mkdir()
    fill(target, "old")
    with pytest.raises(RuntimeError), write_folder(target, ours=RESULT_FILES, force=True) as folder:
        fill_and_fail(folder, RuntimeError)
    assert (target / "model.npz").read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_force_replaces_the_whole_result(tmp_path: Path) -> None:
    target = tmp_path / "result"
    target.mkdir()
    (target / "filled.csv").write_text("old")
    with write_folder(target, ours=RESULT_FILES, force=True) as folder:
        fill(folder)
    assert [path.name for path in target.iterdir()] == ["model.npz"]
    assert list(tmp_path.iterdir()) == [target]


def test_an_empty_folder_may_be_used(tmp_path: Path) -> None:
    (tmp_path / "result").mkdir()
    with write_folder(tmp_path / "result", ours=RESULT_FILES, force=False) as folder:
        fill(folder)
    assert (tmp_path / "result" / "model.npz").exists()


def test_targets_that_must_not_be_replaced_are_refused(tmp_path: Path) -> None:
    target = tmp_path / "result"
    target.mkdir()
    fill(target)
    with pytest.raises(InputError, match="force=True"):
        check_folder(target, ours=RESULT_FILES, force=False)
    (target / "thesis.docx").write_text("precious")
    with pytest.raises(InputError, match="other files"):
        check_folder(target, ours=RESULT_FILES, force=True)
    with pytest.raises(InputError, match="not a folder"):
        check_folder(target / "thesis.docx", ours=RESULT_FILES, force=True)
    with pytest.raises(InputError, match="does not exist"):
        check_folder(tmp_path / "absent" / "result", ours=RESULT_FILES, force=True)
    (tmp_path / "link").symlink_to(target)
    with pytest.raises(InputError, match="not a folder"):
        check_folder(tmp_path / "link", ours=RESULT_FILES, force=True)


def test_a_failed_swap_restores_the_old_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "result"
    target.mkdir()
    fill(target, "old")
    real = type(target).rename

    def rename(self: Any, other: Any) -> Any:
        if self.name.endswith(".part"):
            raise OSError("no")
        return real(self, other)

    monkeypatch.setattr(type(target), "rename", rename)
    monkeypatch.setattr("tensorveil.release.folder.exchange_names", lambda one, other: False)
    with pytest.raises(OSError, match="no"), write_folder(target, ours=RESULT_FILES, force=True) as folder:
        fill(folder)
    assert (target / "model.npz").read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_verb_may_write_folders_and_replaces_only_its_own(tmp_path: Path) -> None:
    target, ours = tmp_path / "result", ("a.ledger", "inner/*.npz")
    (target / "inner").mkdir(parents=True)
    (target / "a.ledger").write_text("")
    (target / "inner" / "x.npz").write_text("")
    check_folder(target, force=True, ours=ours)
    with pytest.raises(InputError, match="other files"):
        check_folder(target, ours=RESULT_FILES, force=True)
    for foreign in ("x.npz", "inner/a.ledger", "inner/deeper/x.npz", "other/x.npz"):
        path = target / foreign
        path.parent.mkdir(exist_ok=True)
        path.write_text("precious")
        with pytest.raises(InputError, match="other files"):
            check_folder(target, force=True, ours=ours)
        path.unlink()
        if path.parent.name in ("deeper", "other"):
            path.parent.rmdir()
    (target / "inner" / "link.npz").symlink_to(tmp_path)
    with pytest.raises(InputError, match="other files"):
        check_folder(target, force=True, ours=ours)


def test_folders_that_are_never_overwritten(tmp_path: Path) -> None:
    target = tmp_path / "release"
    with write_folder(target) as folder:
        fill(folder)
    for force in (False, True):
        with pytest.raises(InputError, match="never overwritten"), write_folder(target, force=force):
            pass
    assert [path.name for path in tmp_path.iterdir()] == ["release"]


def test_everything_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed, real, target = [], os.fsync, tmp_path / "result"

    def spy(descriptor: Any) -> None:
        flushed.append((os.fstat(descriptor).st_ino, target.exists()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", spy)
    with write_folder(target) as folder:
        (folder / "inner").mkdir()
        fill(folder / "inner")
    inside = {path.stat().st_ino for path in (target, target / "inner", target / "inner" / "model.npz")}
    assert {number for number, named in flushed if not named} == inside
    assert [number for number, named in flushed if named] == [tmp_path.stat().st_ino]


def test_a_forced_result_is_swapped_at_one_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At no moment is the name without a folder: a kill finds the old result there, or the new one."""
    target = tmp_path / "result"
    target.mkdir()
    fill(target, "old")
    monkeypatch.setattr(type(target), "rename", lambda self, other: pytest.fail("a rename leaves a gap"))
    with write_folder(target, ours=RESULT_FILES, force=True) as folder:
        fill(folder)
    assert (target / "model.npz").read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


def test_an_earlier_result_gets_its_name_back(tmp_path: Path) -> None:
    """Where names cannot be exchanged, a kill may leave the earlier result under a hidden name."""
    target, hidden = tmp_path / "result", tmp_path / ".result.0123456789abcdef.old"
    hidden.mkdir()
    fill(hidden, "old")
    with pytest.raises(InputError, match="already exists"):
        check_folder(target, ours=RESULT_FILES)
    assert (target / "model.npz").read_text() == "old"
    assert not hidden.exists()


def test_a_folder_is_reserved_from_the_first_moment_on(tmp_path: Path) -> None:
    with write_folder(tmp_path / "result") as folder:
        assert find_leftovers(tmp_path / "result") == ()
        with pytest.raises(InputError, match="another run is writing"), write_folder(tmp_path / "result"):
            pytest.fail("the same folder twice")
        fill(folder)
    assert (tmp_path / "result" / "model.npz").exists()


def test_what_a_killed_run_left_is_told_from_what_is_being_written(tmp_path: Path) -> None:
    left = tmp_path / ".result.0123456789abcdef.part"
    left.mkdir()
    (tmp_path / ".result.notes.part").mkdir()  # not a name of ours
    assert find_leftovers(tmp_path / "result") == (left,)
    with write_folder(tmp_path / "result") as folder:
        fill(folder)
    assert left.is_dir()  # it may hold an earlier result, so it is named, not removed


@pytest.mark.parametrize("name", ["x" * 250, "ü" * 120])
def test_long_names_have_room_for_the_hidden_ones(tmp_path: Path, name: str) -> None:
    with write_folder(tmp_path / name) as folder:
        fill(folder)
    assert (tmp_path / name / "model.npz").exists()


def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be used"), write_folder(tmp_path / ("x" * 300)):
        pytest.fail("no such folder can be made")


def test_a_place_that_cannot_be_written_is_refused() -> None:
    with pytest.raises(InputError, match="cannot be made"), write_folder("/proc/release"):
        pytest.fail("nothing can be made there")


def modes(folder: Path) -> dict[str, str]:
    return {path.name: oct(path.stat().st_mode & 0o777) for path in (folder, *folder.iterdir())}


def test_private_folders_are_for_their_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with write_folder(tmp_path / "mine", private=True) as folder:
            assert oct(folder.stat().st_mode & 0o777) == "0o700"
            fill(folder)
        with write_folder(tmp_path / "all") as folder:
            fill(folder)
    finally:
        os.umask(before)
    assert modes(tmp_path / "mine") == {"mine": "0o700", "model.npz": "0o600"}
    assert modes(tmp_path / "all") == {"all": "0o755", "model.npz": "0o644"}


def test_a_forced_result_keeps_permissions(tmp_path: Path) -> None:
    target = tmp_path / "result"
    target.mkdir(mode=0o700)
    fill(target, "old")
    (target / "model.npz").chmod(0o640)
    with write_folder(target, ours=RESULT_FILES, force=True) as folder:
        fill(folder)
    assert modes(target) == {"result": "0o700", "model.npz": "0o640"}

from __future__ import annotations

import pytest

from tensorveil.errors import InputError
from tensorveil.release.folder import check_target, staged_folder


def fill(folder, text="new"):
    (folder / "model.npz").write_text(text)


def fill_and_fail(folder, error):
    fill(folder)
    raise error


def test_a_folder_appears_when_everything_is_written(tmp_path):
    target = tmp_path / "result"
    with staged_folder(target, force=False) as folder:
        fill(folder)
        assert not target.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["result"]
    assert (target / "model.npz").read_text() == "new"


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_a_failure_leaves_nothing(tmp_path, error):
    with pytest.raises(error), staged_folder(tmp_path / "result", force=False) as folder:
        fill_and_fail(folder, error)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_keeps_what_was_to_be_replaced(tmp_path):
    target = tmp_path / "result"
    target.mkdir()
    fill(target, "old")
    with pytest.raises(RuntimeError), staged_folder(target, force=True) as folder:
        fill_and_fail(folder, RuntimeError)
    assert (target / "model.npz").read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_force_replaces_the_whole_result(tmp_path):
    target = tmp_path / "result"
    target.mkdir()
    (target / "filled.csv").write_text("old")
    with staged_folder(target, force=True) as folder:
        fill(folder)
    assert [path.name for path in target.iterdir()] == ["model.npz"]
    assert list(tmp_path.iterdir()) == [target]


def test_an_empty_folder_may_be_used(tmp_path):
    (tmp_path / "result").mkdir()
    with staged_folder(tmp_path / "result", force=False) as folder:
        fill(folder)
    assert (tmp_path / "result" / "model.npz").exists()


def test_targets_that_must_not_be_replaced_are_refused(tmp_path):
    target = tmp_path / "result"
    target.mkdir()
    fill(target)
    with pytest.raises(InputError, match="--force"):
        check_target(target, force=False)
    (target / "thesis.docx").write_text("precious")
    with pytest.raises(InputError, match="other files"):
        check_target(target, force=True)
    with pytest.raises(InputError, match="not a folder"):
        check_target(target / "thesis.docx", force=True)
    with pytest.raises(InputError, match="does not exist"):
        check_target(tmp_path / "absent" / "result", force=True)
    (tmp_path / "link").symlink_to(target)
    with pytest.raises(InputError, match="not a folder"):
        check_target(tmp_path / "link", force=True)


def test_a_failed_swap_restores_the_old_result(tmp_path, monkeypatch):
    target = tmp_path / "result"
    target.mkdir()
    fill(target, "old")
    real = type(target).rename

    def rename(self, other):
        if self.name.endswith(".part"):
            raise OSError("no")
        return real(self, other)

    monkeypatch.setattr(type(target), "rename", rename)
    with pytest.raises(OSError, match="no"), staged_folder(target, force=True) as folder:
        fill(folder)
    assert (target / "model.npz").read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_verb_may_write_folders_and_replaces_only_its_own(tmp_path):
    target, ours = tmp_path / "result", ("a.ledger", "inner/*.npz")
    (target / "inner").mkdir(parents=True)
    (target / "a.ledger").write_text("")
    (target / "inner" / "x.npz").write_text("")
    check_target(target, force=True, ours=ours)
    with pytest.raises(InputError, match="other files"):
        check_target(target, force=True)
    for foreign in ("x.npz", "inner/a.ledger", "inner/deeper/x.npz", "other/x.npz"):
        path = target / foreign
        path.parent.mkdir(exist_ok=True)
        path.write_text("precious")
        with pytest.raises(InputError, match="other files"):
            check_target(target, force=True, ours=ours)
        path.unlink()
        if path.parent.name in ("deeper", "other"):
            path.parent.rmdir()
    (target / "inner" / "link.npz").symlink_to(tmp_path)
    with pytest.raises(InputError, match="other files"):
        check_target(target, force=True, ours=ours)

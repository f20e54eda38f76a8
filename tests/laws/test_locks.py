"""What is installed is what was looked at: everything by hash, but for the one package that has several builds."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-docs.lock"])
def test_locks_pin_by_hash(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    pinned = re.findall(r"^[A-Za-z0-9._-]+(?:\[[^\]]*\])?==[^ \\\n]+(.*)\n( *)(.*)", text, flags=re.MULTILINE)
    assert len(pinned) == len(re.findall(r"^[^ #\n]", text, flags=re.MULTILINE)) > 30
    assert all(rest == " \\" and more.startswith("--hash=sha256:") for rest, _, more in pinned)
    assert "torch==" not in text
    assert "://" not in text


def test_torch_alone_has_no_hash() -> None:
    text = (ROOT / "requirements-torch.lock").read_text(encoding="utf-8")
    assert re.findall(r"^[^#\n].*", text, flags=re.MULTILINE) == ["torch==2.13.0"]
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'learning = ["torch==2.13.0"]' in project


def test_the_lock_is_complete() -> None:
    """It is installed without looking at what packages ask for, so whatever they ask for must be in it, and fit."""
    lock = read_lock("requirements.lock") | read_lock("requirements-torch.lock")
    extras = re.findall(r"--extra (\w+)", re.findall(r"^lock:.*\n.*", (ROOT / "Makefile").read_text(), re.MULTILINE)[0])
    assert len(extras) > 5
    wanted = [("tensorveil", set(extras)), *((name, pin.extras) for name, pin in lock.items())]
    faults = []
    for name, chosen in wanted:
        for text in importlib.metadata.requires(name) or []:
            asked = Requirement(text)
            if asked.marker is not None and not any(asked.marker.evaluate({"extra": e}) for e in ("", *chosen)):
                continue
            pin = lock.get(canonicalize_name(asked.name))
            fits = pin is not None and all(asked.specifier.contains(p.version, prereleases=True) for p in pin.specifier)
            if pin is None or not fits or asked.extras - pin.extras:
                faults.append(f"{name} asks for {asked}, and the lock has {pin}")
    assert faults == []


def read_lock(name: str) -> dict[str, Requirement]:
    """Return what a lock pins, by the normal form of its name."""
    lines = re.findall(r"^[A-Za-z0-9][^ \\\n]*", (ROOT / name).read_text(encoding="utf-8"), flags=re.MULTILINE)
    pins = [Requirement(line) for line in lines]
    return {canonicalize_name(pin.name): pin for pin in pins}

"""Models with awkward labels, and a reader that knows whether a page is well formed."""

from __future__ import annotations

from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

import numpy as np

from tensorveil.models import CPModel, TuckerModel
from tensorveil.privacy import Guarantee, Part, Pure, Unit
from tensorveil.tensor import Mode, ObservedTensor

NASTY = "</script><script>alert(1)</script>\"'&<b onclick=x>"
VOID = {"meta", "input", "br", "img"}


class Reader(HTMLParser):
    """Checks nesting; collects elements, ids and text."""

    def __init__(self, text: Any) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.ids: list[str] = []
        self.elements: list[tuple[str, dict[str, Any]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == [], self.open
        assert len(self.ids) == len(set(self.ids)), "an id occurs twice"

    def handle_starttag(self, tag: Any, attrs: Any) -> None:
        facts = dict(attrs)
        self.elements.append((tag, facts))
        if "id" in facts:
            self.ids.append(facts["id"])
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: Any) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: Any) -> None:
        if not self.open or self.open[-1] not in ("style", "script"):
            self.words.append(data)

    @property
    def text(self) -> Any:
        return " ".join(" ".join(self.words).split())

    def all(self, tag: Any, **facts: Any) -> Any:
        return [a for t, a in self.elements if t == tag and all(a.get(k) == v for k, v in facts.items())]


def guarantee(unit: str = "value", *, secure: bool = True, epsilon: float = 2.0) -> Any:
    event = Pure(epsilon)
    return Guarantee.prove(
        unit=Unit.parse(unit),
        event=event,
        epsilon=epsilon,
        delta=0.0,
        composition=[Part(name="values", statistic="every value", event=event)],
        released=["factors of every mode", "offset"],
        proof="docs/guarantees.md#input",
        secure_noise=secure,
        bounds=(1.0, 5.0),
        mechanism="input perturbation",
    )


@dataclass(frozen=True, kw_only=True)
class Fit:
    """Stands for a fitted private estimator."""

    model_: Any
    guarantee_: Any
    plan_: Any = None
    notes_: tuple[str, ...] = ()

    def confirm(self) -> None:
        """Do nothing: there is no ledger."""


def labels(kind: Any, size: Any) -> Any:
    if kind == "text":
        return [f"{NASTY} {k}" for k in range(size)]
    if kind == "numbers":
        return np.arange(size) * 10
    if kind == "dates":
        return np.datetime64("2024-01-01") + np.arange(size)
    return None


def cp_model(
    shape: tuple[int, ...],
    rank: int = 2,
    *,
    seed: int = 0,
    kinds: Any = ("text",),
    scale: float = 1.0,
    biases: bool = False,
) -> Any:
    rng = np.random.default_rng(seed)
    modes = tuple(Mode(f"mode {k} <i>", labels(kinds[k % len(kinds)], size)) for k, size in enumerate(shape))
    return CPModel(
        factors=tuple(scale * rng.normal(size=(size, rank)) for size in shape),
        offset=3.0,
        biases=tuple(rng.normal(size=size) for size in shape) if biases else None,
        modes=modes,
        bounds=(1.0, 5.0),
    )


def tucker_model(shape: tuple[int, ...], ranks: Any, *, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    factors = tuple(rng.normal(size=(size, rank)) for size, rank in zip(shape, ranks, strict=True))
    return TuckerModel(core=rng.normal(size=ranks), factors=factors, offset=3.0, bounds=(1.0, 5.0))


def observed(model: Any, share: float = 0.5, *, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    cells = np.argwhere(rng.random(model.shape) < share)
    values = np.clip(model.predict(cells) + 0.3 * rng.normal(size=len(cells)), 1.0, 5.0)
    return ObservedTensor(cells, values, shape=model.shape, modes=model.modes)

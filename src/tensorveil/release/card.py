"""The model card: the guarantee and the facts of a release, for people; of the data, only what the release holds."""

from __future__ import annotations

import html
from collections.abc import Sequence

from tensorveil.completion.releasable import Releasable, check_releasable
from tensorveil.models import CPModel, TuckerModel
from tensorveil.privacy import Guarantee
from tensorveil.privacy.events import describe_event
from tensorveil.privacy.exact import show_at_least, show_exactly
from tensorveil.privacy.limits import list_limits
from tensorveil.rounds import SharedModel
from tensorveil.tensor import Mode
from tensorveil.tensor.bins import name_width

# Links, pictures and code; the rest does no harm.
_MARKUP = str.maketrans({"[": "\\[", "]": "\\]", "`": "'"})

CardModel = CPModel | TuckerModel | SharedModel


def make_card(fitted: Releasable, files: Sequence[str]) -> str:
    """Return the card, in Markdown."""
    model, guarantee = check_releasable(fitted)
    title = "# Model card" if guarantee.private else "# NOT PRIVATE: model card"
    facts = "\n".join(f"| {name} | {_cell(text)} |" for name, text in _facts(model, guarantee))
    released = "\n".join(f"- {_plain(thing)}" for thing in guarantee.released)
    parts = "\n".join(
        f"| {_cell(part.name)} | {_cell(part.statistic)} | {_cell(describe_event(part.event))} |"
        for part in guarantee.composition
    )
    return f"""{title}

**{_plain(guarantee.sentence())}**

| | |
|---|---|
{facts}

## What is released

{released}

in the files {", ".join(f"`{name}`" for name in files)}. Everything that can be computed from them alone has the same
guarantee. The guarantee's file holds a digest of every other one, which `load_release` compares: this finds files that
were changed or exchanged, not someone who rewrites them all.

## What was computed from the data

| part | statistic | spent |
|---|---|---|
{parts}

Together this is the epsilon and delta above.
{_tell_errors(model, fitted)}
## What is not promised

{chr(10).join(f"- {line}" for line in list_limits(guarantee))}

## How to load it

```python
import tensorveil as tv

model, guarantee = tv.load_release("path/to/this/folder")
print(guarantee)
{_use(model)}
```
"""


def _tell_errors(model: CardModel, fitted: Releasable) -> str:
    """Return the section on errors, if there is anything to say: what was measured first, then what was guessed."""
    lines = [f"- {_plain(note)}" for note in fitted.notes_]
    errors = None if isinstance(model, SharedModel) else model.errors
    if errors is not None:
        lines.append(f"- RMSE about {errors.rmse:.3g}, from a noisy histogram of its residuals")
    if fitted.plan_ is not None and fitted.plan_.guess is not None:
        lines.append(f"- before anything was spent: a guess of {fitted.plan_.guess:.3g}, from public facts")
    if not lines:
        return ""
    return "\n".join(["", "## What was found, and how large errors are", "", *lines, ""])


def _use(model: CardModel) -> str:
    if labelled := any(mode.labels is not None for mode in model.modes):
        cells = "frame"
    else:
        cells = f"[[{', '.join('0' for _ in model.shape)}]]"
    if isinstance(model, SharedModel):
        what = "frames with a column for every mode; entries are the person's own, with values"
        return f"model.predict_for(entries, {cells})  # {what if labelled else 'entries: a tensor of the own ones'}"
    frame = "  # a column for every mode" if labelled else ""
    if model.errors is not None:
        return f"prediction, low, high = model.predict({cells}, interval=0.9){frame}"
    return f"model.predict({cells}){frame}"


def _facts(model: CardModel, guarantee: Guarantee) -> list[tuple[str, str]]:
    bounds = None if guarantee.bounds is None else " to ".join(map(show_exactly, guarantee.bounds))
    shape = " x ".join(f"{size} ({_name_mode(mode)})" for size, mode in zip(model.shape, model.modes, strict=True))
    rank = " x ".join(map(str, model.rank)) if isinstance(model.rank, tuple) else str(model.rank)
    kind = "Tucker" if isinstance(model.rank, tuple) else "CP"
    if isinstance(model, SharedModel):
        kind = f"{kind}, the part that everybody shares"
    noise = "operating system's entropy" if guarantee.secure_noise else "a seed: NOT PRIVATE"
    return [
        ("unit", f"{guarantee.unit}: neighbours {guarantee.neighbours}"),
        *([("protected", guarantee.about)] if guarantee.about else []),
        *([("public", "; ".join(guarantee.known))] if guarantee.known else []),
        ("against", guarantee.against or "anyone who sees this release"),
        ("epsilon", show_at_least(guarantee.epsilon)),
        ("delta", show_at_least(guarantee.delta)),
        ("bounds", "none" if bounds is None else f"{bounds}, declared; values are clipped to them"),
        ("mechanism", guarantee.mechanism),
        ("status", f"{guarantee.status}, {guarantee.proof}"),
        ("noise", noise),
        ("model", f"{kind}, rank {rank}"),
        ("shape", shape),
        *(("note", note) for note in guarantee.notes),
    ]


def _name_mode(mode: Mode) -> str:
    """Name a mode, and the bins that moments are put into when the model is asked about some."""
    if mode.bins is None:
        return mode.name
    return f"{mode.name}, moments in bins of {name_width(mode.bins)}"


def _cell(text: str) -> str:
    """Keep a text within its cell of a table."""
    return " ".join(_plain(text).replace("|", "\\|").split())


def _plain(text: str) -> str:
    """Return a text that is nothing but text in Markdown: names may hold markup, or what a terminal obeys."""
    printed = "".join(c if c.isprintable() or c == "\n" else " " for c in text)
    return html.escape(printed, quote=False).translate(_MARKUP)

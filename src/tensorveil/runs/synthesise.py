"""A synthetic tensor from a release, or from a saved model, to a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensorveil.errors import InputError
from tensorveil.models import load_model
from tensorveil.models.synthesis import synthesise
from tensorveil.privacy import Guarantee
from tensorveil.release.binding import bind_file
from tensorveil.release.names import GUARANTEE
from tensorveil.release.release import load_release
from tensorveil.tensor.files.atomic import replace_file

__all__ = ["SynthesisRun", "Synthesised", "synthesise_cells"]


@dataclass(frozen=True, kw_only=True)
class SynthesisRun:
    """What is to be drawn.

    Parameters
    ----------
    source
        A release folder, whose guarantee then holds for what is drawn; or the file of a model, which has none.
    output
        The tensor file to write; its ending names the format.
    seed
        Draws the same cells again; None for others each time.
    rows
        How many indices a mode is to have, by its name: new ones are like old ones that are drawn at random.
    force
        Whether an existing output may be replaced.
    """

    source: Path
    output: Path
    seed: int | None = None
    rows: Mapping[str, int] | None = None
    force: bool = False


@dataclass(frozen=True, kw_only=True)
class Synthesised:
    """What was drawn, and what is promised of it: the guarantee of the release and its file, or None."""

    output: Path
    guarantee_file: Path | None
    entries: int
    total: float
    guarantee: Guarantee | None

    @property
    def sentence(self) -> str:
        """Say what the drawn cells promise."""
        if self.guarantee is None:
            return "No guarantee: the model has none beside it. Give the release folder if it is a private one."
        return f"Drawn from a release, so its guarantee holds for this file too. {self.guarantee.sentence()}"

    def to_json(self) -> dict[str, Any]:
        """Return the facts as plain data."""
        return {
            "output": str(self.output),
            "guarantee_file": None if self.guarantee_file is None else str(self.guarantee_file),
            "entries": self.entries,
            "total": self.total,
            "says": self.sentence,
            "guarantee": None if self.guarantee is None else self.guarantee.to_json(),
        }


def synthesise_cells(run: SynthesisRun) -> Synthesised:
    """Draw cells and write them, whole or not at all; beside them the guarantee, with a digest of the drawn file.

    Guarantee: that of the release they are drawn from (docs/guarantees.md#post-processing).
    """
    beside = run.output.with_name(f"{run.output.name}.{GUARANTEE}")
    for path in (run.output, beside):
        if path.exists() and not run.force:
            raise InputError(f"output: {path} already exists. Choose another name, or add force=True.")
    model, guarantee = load_release(run.source) if run.source.is_dir() else (load_model(run.source), None)
    drawn = synthesise(model, seed=run.seed, rows=run.rows)
    beside.unlink(missing_ok=True)  # an earlier one does not speak of what is written now
    drawn.write(run.output)
    if guarantee is not None:
        with replace_file(beside) as temporary:
            facts = bind_file(guarantee.to_json(), run.output)
            temporary.write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return Synthesised(
        output=run.output,
        guarantee_file=None if guarantee is None else beside,
        entries=drawn.n_entries,
        total=float(drawn.values.sum()),
        guarantee=guarantee,
    )

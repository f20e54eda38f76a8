"""Pages made of the results of several studies, written again whenever one of these is."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tensorveil.tensor.files.atomic import replace_file
from tensorveil_evidence.studies import wei_across
from tensorveil_evidence.studies.catalogue import find_study
from tensorveil_evidence.studies.learning import across
from tensorveil_evidence.studies.store import is_full


@dataclass(frozen=True, kw_only=True)
class JointPage:
    """A page, the studies whose results it needs, and what writes it from a folder with these."""

    needs: tuple[str, ...]
    write: Callable[[Path], str]


JOINT_PAGES: Final = {
    "wei-across": JointPage(needs=wei_across.NEEDS, write=wei_across.write_page),
    "yuan-across": JointPage(needs=across.NEEDS, write=across.write_page),
}


def write_joint_pages(made: Collection[str], folder: Path) -> list[Path]:
    """Write the pages of which a study was made, where all that they need has full results in the folder."""
    written = []
    for name, page in JOINT_PAGES.items():
        if not set(made) & set(page.needs) or not all(is_full(find_study(need), folder) for need in page.needs):
            continue
        written.append(folder / f"{name}.md")
        with replace_file(written[-1]) as temporary:
            temporary.write_text(page.write(folder), encoding="utf-8")
    return written

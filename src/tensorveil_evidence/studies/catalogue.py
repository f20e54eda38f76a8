"""All studies by name: the files in papers/, in their order."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Mapping

from tensorveil.errors import InputError
from tensorveil_evidence.studies import papers
from tensorveil_evidence.studies.study import PAPER_SIZE, Study


def list_studies() -> Mapping[str, Study]:
    """Return every study by its name.

    >>> "wei-figure-2" in list_studies()
    True
    """
    found: dict[str, Study] = {}
    for module in sorted(pkgutil.iter_modules(papers.__path__), key=lambda module: module.name):
        study: Study = importlib.import_module(f"{papers.__name__}.{module.name}").STUDY
        assert study.name not in found, study.name
        found[study.name] = study
    return found


def find_study(name: str) -> Study:
    """Return the study of that name; NAME-paper-size is the study NAME at its paper's size.

    >>> find_study("yuan-figure-3-darknet-paper-size").dataset
    'darknet'
    """
    everything = list_studies()
    plain = name.removesuffix(PAPER_SIZE)
    if plain != name and plain in everything and (larger := everything[plain].paper_size) is not None:
        return larger()
    if name not in everything:
        near = difflib.get_close_matches(name, everything, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise InputError(
            f"no study is called {name!r}.{hint} The studies are {', '.join(everything)}; 'all' takes them all."
        )
    return everything[name]

"""The work behind `tensorveil audit`."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tensorveil.audit import Claim, Verdict
from tensorveil.audit import audit as run_audit
from tensorveil.audit.blackbox import KINDS
from tensorveil.audit.sampling import Progress
from tensorveil.errors import InputError
from tensorveil.runs.progress import count_progress
from tensorveil_evidence.subjects.catalogue import find_subjects, subjects
from tensorveil_evidence.subjects.subject import Subject, holds

_OWN = re.compile(r"^(?P<file>.+\.py):(?P<function>\w+)$")
_OWN_SAMPLES = 10_000
_FOR_OWN = ("epsilon", "mu", "neighbours", "batched", "kinds")
_PAGES = (".html", ".htm")
_PICTURES = (".png", ".svg", ".pdf")


def listed() -> list[dict[str, Any]]:
    """Describe every subject."""
    return [
        {
            "name": name,
            "unit": subject.unit,
            "claimed": str(subject.claim),
            "proven": "nothing finite" if subject.proven is None else str(subject.proven),
            "drawn": subject.about,
        }
        for name, subject in subjects().items()
    ]


def audited(names: Sequence[str], options: dict[str, Any]) -> list[dict[str, Any]]:
    """Audit what was named, or everything; draw the curve if asked."""
    jobs = _jobs(names, options)
    if options["plot"]:
        _check_plot(options["plot"], len(jobs))
    _check_report(options["report"])
    results, found = [], []
    for name, job in jobs:
        with count_progress(name) as progress:
            verdict = job(progress)
        results.append({"name": name, "sentence": verdict.sentence(), **verdict.to_json()})
        found.append((name, verdict))
        if options["plot"]:
            _draw(options["plot"], name, verdict)
    if options["report"]:
        _report(options["report"], found)
    return results


def attacked(place: str, options: dict[str, Any]) -> dict[str, Any]:
    """Attack a release or a model with the data that it was fitted to."""
    from tensorveil.audit.model_leak import model_leak
    from tensorveil.models import load_model
    from tensorveil.release.release import load_release
    from tensorveil.rounds import SharedModel
    from tensorveil.runs.reading import read_tensor
    from tensorveil.tensor import ObservedTensor

    _check_report(options["report"])
    guarantee = None
    if Path(place).is_dir():
        model, guarantee = load_release(place)
    else:
        model = load_model(place)
    if isinstance(model, SharedModel):
        raise InputError(f"{place} holds no row of any user, so it predicts none of the data by itself.")
    tensor = read_tensor(options["reading"].reading(options["data"]))
    columns = []
    for own, given, column in zip(model.modes, tensor.modes, tensor.columns, strict=False):
        if own.labels is not None and given.labels is not None:
            column = own.encode(given.labels)[column]
        columns.append(column)
    if len(columns) != len(model.shape):
        raise InputError("--data: the data have another number of modes than the model. Try --modes.")
    data = ObservedTensor(np.stack(columns, axis=1), tensor.values, shape=model.shape)
    leak = model_leak(model, data)
    if options["report"]:
        from tensorveil.report.audit_page import leak_page
        from tensorveil.report.page import save_page

        save_page(options["report"], leak_page(place, leak, guarantee))
    return {"name": place, "sentence": leak.sentence(), **leak.to_json()}


def _jobs(names: Sequence[str], options: dict[str, Any]) -> list[tuple[str, Callable[[Progress | None], Verdict]]]:
    """Turn names into audits, each of which takes a progress bar."""
    shared = {"samples": options["samples"], "confidence": options["confidence"], "seed": options["seed"]}
    own = {name for name in names if _OWN.match(name)}
    if not own and any(options[given] not in (None, (), False) for given in _FOR_OWN):
        names_of = ", ".join(f"--{given.removesuffix('s') if given == 'kinds' else given}" for given in _FOR_OWN)
        raise InputError(f"{names_of} go with FILE.py:FUNCTION; subjects have their own.")
    jobs: list[tuple[str, Callable[[Progress | None], Verdict]]] = []
    for name in names:
        if name in own:
            jobs.append((name, _own(name, options, shared)))
        else:
            jobs += [(subject.name, _job(subject, shared)) for subject in find_subjects(name)]
    if options["everything"]:
        jobs = [(name, _job(subject, shared)) for name, subject in subjects().items()]
    return jobs


def _job(subject: Subject, shared: dict[str, Any]) -> Callable[[Progress | None], Verdict]:
    return lambda progress: subject.audit(progress=progress, **shared)


def _own(name: str, options: dict[str, Any], shared: dict[str, Any]) -> Callable[[Progress | None], Verdict]:
    if not options["neighbours"]:
        raise InputError("--neighbours is needed for a mechanism of your own. Try --neighbours a.npy b.npy.")
    if (options["epsilon"] is None) == (options["mu"] is None):
        raise InputError("the claim is needed for a mechanism of your own. Try --epsilon 1, or --mu 1.")
    claim = Claim(epsilon=options["epsilon"], delta=options["delta"], mu=options["mu"])
    pairs = [(_array(first), _array(second)) for first, second in options["neighbours"]]
    function = _function(name)
    given = {**shared, "samples": shared["samples"] or _OWN_SAMPLES, "kinds": options["kinds"] or KINDS}
    return lambda progress: run_audit(function, pairs, claim, batched=options["batched"], progress=progress, **given)


def _array(path: str) -> Any:
    try:
        return np.load(path, allow_pickle=False)
    except ValueError as error:
        raise InputError(f"{path} is not an NPY file of numbers. Write it with numpy.save.") from error


def _function(name: str) -> Callable[..., Any]:
    """Load a function from a file of the user's."""
    found = _OWN.match(name)
    assert found is not None
    path = Path(found["file"])
    if not path.is_file():
        raise InputError(f"there is no file {path}. Give FILE.py:FUNCTION.")
    spec = importlib.util.spec_from_file_location("audited", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function = getattr(module, found["function"], None)
    if not callable(function):
        raise InputError(f"{path} has no function {found['function']}. Give FILE.py:FUNCTION.")
    return function  # type: ignore[no-any-return]


def _check_plot(path: str, jobs: int) -> None:
    """Refuse before the audit what could not be drawn after it."""
    from tensorveil.report.pictures import figure_class

    if jobs > 1:
        raise InputError("--plot draws the curve of one audit. Name a single subject.")
    if Path(path).suffix not in _PICTURES:
        raise InputError(f"--plot takes a name that ends with {', '.join(_PICTURES)}. Try --plot curve.png.")
    if not Path(path).parent.is_dir():
        raise InputError(f"--plot: the folder {Path(path).parent} does not exist. Make it first.")
    figure_class()


def _check_report(path: str | None) -> None:
    """Refuse before the audit what could not be written after it."""
    if path is None:
        return
    if Path(path).suffix not in _PAGES:
        raise InputError(f"--report takes a name that ends with {' or '.join(_PAGES)}. Try --report audit.html.")
    if not Path(path).parent.is_dir():
        raise InputError(f"--report: the folder {Path(path).parent} does not exist. Make it first.")


def _report(path: str, found: Sequence[tuple[str, Verdict]]) -> None:
    from tensorveil.report.audit_page import Audited, audit_page
    from tensorveil.report.page import save_page

    known = subjects()
    audits = [
        Audited(
            name=name,
            unit=known[name].unit if name in known else "as in the neighbours given",
            verdict=verdict,
            proven=name in known and holds(known[name]),
        )
        for name, verdict in found
    ]
    save_page(path, audit_page(audits))


def _draw(path: str, name: str, verdict: Verdict) -> None:
    from tensorveil.report.curves import save_curve

    points = [(p.false_positive, p.missed, p.false_positive_at_most, p.missed_at_most) for p in verdict.curve]
    if not points:
        raise InputError(f"an audit of {name} has no trade-off curve: it is one run. Leave --plot out.")
    save_curve(path, points, verdict.claim.least_missed, title=f"{name}: {verdict.word}", claim=str(verdict.claim))

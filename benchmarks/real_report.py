"""Results of `benchmarks.real`: reading them, tables of errors, and the goals that they are held against.

A cell is a tensor with a delta and an epsilon; its error is the mean over draws.
"""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np

from benchmarks.real_tensors import BY_NAME, TENSORS

KEY = ("tensor", "method", "epsilon", "delta", "draw")
# Without privacy, once per tensor: the mean of the observed values, and fits by solver.
BASELINES = {"constant": None, "fit": "bayes", "fit, als": "als"}
NOISY_TABLE = "noisy table"
# Intervals and estimates of errors are judged on tensors of so many entries.
MANY_ENTRIES = 20_000
# By epsilon, how much of the error of older results may be left.
MOST_OF_OLDER = {1.0: 0.92, 3.0: 0.88}
GROUPS = {False: "Tensors that methods were designed on", True: "Tensors that were set aside"}


def read_rows(path):
    """Return one row per run, the last that was written; none if there is no file."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    rows = [json.loads(line) for line in lines]
    return list({tuple(row[name] for name in KEY): row for row in rows}.values())


class Figures:
    """A figure of every cell and method, draw by draw."""

    def __init__(self, rows, name):
        self.draws = {}
        for row in rows:
            if row.get(name) is not None:
                cell = row["tensor"], row["delta"], row["epsilon"]
                self.draws.setdefault(row["method"], {}).setdefault(cell, []).append(row[name])

    def of(self, method):
        """Return the means over draws by cell."""
        return {cell: float(np.mean(draws)) for cell, draws in self.draws.get(method, {}).items()}

    def error_of(self, method, cell):
        """Return the standard error of a mean; 0 for a single draw."""
        draws = self.draws[method][cell]
        return float(np.std(draws, ddof=1) / len(draws) ** 0.5) if len(draws) > 1 else 0.0

    def beside(self, method, cell):
        """Return the mean of a baseline beside a cell: those of no privacy, or for every delta, stand under delta 0."""
        tensor, _, epsilon = cell
        return self.of(method).get((tensor, 0.0, epsilon if method == NOISY_TABLE else None))

    def steps(self, method):
        """Yield every cell with the one of the next epsilon, and two standard errors of the step between them."""
        cells = sorted(self.of(method))
        for cell, following in pairwise(cells):
            if cell[:2] == following[:2]:
                errors = self.error_of(method, cell), self.error_of(method, following)
                yield cell, following, 2 * float(np.hypot(*errors))

    def fixed(self):
        """Return the methods that "auto" is compared with."""
        return [name for name in self.draws if name not in ("auto", NOISY_TABLE, *BASELINES)]


def name_cell(cell):
    tensor, delta, epsilon = cell
    return f"{tensor}, delta {delta:g}, epsilon {epsilon:g}"


# Tables


def list_tables(rows):
    """Return a table per quantity, of both groups: a row per tensor, a column per epsilon."""
    lines = []
    for aside, title in GROUPS.items():
        tensors = [tensor for tensor in TENSORS if tensor.aside == aside]
        own = [row for row in rows if BY_NAME[row["tensor"]].aside == aside]
        found = []
        for delta in sorted({row["delta"] for row in own if row["method"] == "auto" and not row.get("copied")}):
            given = "" if delta == 0 else f", delta {delta:g}"
            errors, areas = Figures(own, "rmse"), Figures(own, "auc")
            found += tabulate(f"RMSE over the constant's{given}", tensors, delta, errors, tell_error)
            found += tabulate(f"AUC{given}", tensors, delta, areas, tell_area)
            told = list_errors(own)
            found += tabulate(f"own estimate over the error, inside{given}", tensors, delta, told, tell_estimate)
        lines += [f"## {title}", "", *found] if found else []
    return "\n".join(lines).rstrip() or "Nothing was measured yet."


def tabulate(name, tensors, delta, figures, tell):
    """Return a table of what is to be told of every cell of auto."""
    cells = {cell for method in figures.draws for cell in figures.of(method) if cell[1] == delta}
    epsilons = sorted({cell[2] for cell in cells if cell[2] is not None and cell in figures.draws.get("auto", {})})
    lines = []
    for tensor in tensors:
        told = [tell(figures, (tensor.name, delta, epsilon)) for epsilon in epsilons]
        if any(told):
            lines.append(f"| {tensor.name} | " + " | ".join(told) + " |")
    if not lines:
        return []
    head = f"| {name}, epsilon | " + " | ".join(f"{epsilon:g}" for epsilon in epsilons) + " |"
    return [head, "|---" * (len(epsilons) + 1) + "|", *lines, ""]


def tell_error(errors, cell):
    """Return auto's error and that of the best fixed method, over the constant's."""
    own, constant = errors.of("auto").get(cell), errors.beside("constant", cell)
    if own is None or constant is None:
        return ""
    others = {method: found[cell] for method in errors.fixed() if cell in (found := errors.of(method))}
    if not others:
        return f"{own / constant:.3f}"
    best = min(others, key=others.get)
    text = f"{own / constant:.3f}"
    return f"{f'**{text}**' if own > 1.05 * others[best] else text} ({others[best] / constant:.3f} {best})"


def tell_area(areas, cell):
    """Return auto's area under the curve, and that of margins."""
    own, other = (areas.of(method).get(cell) for method in ("auto", "margins"))
    return "" if own is None else f"{own:.3f}" if other is None else f"{own:.3f} ({other:.3f})"


def tell_estimate(told, cell):
    """Return auto's own estimate over its error, and how many values are inside its intervals."""
    ratio, inside = (told.of(name).get(cell) for name in ("auto", "inside"))
    return "" if ratio is None or inside is None else f"{ratio:.2f}, {inside:.2f}"


def list_errors(rows):
    """Return what auto says of its errors as figures: its own estimate as "auto", its intervals as "inside"."""
    rows = [row | estimate_ratio(row) for row in rows if row["method"] == "auto"]
    names = {"auto": "ratio", "inside": "inside"}
    return Figures(
        [row | {"method": name, "said": row.get(key)} for name, key in names.items() for row in rows], "said"
    )


# Goals


def state_goals(rows, before):
    """Return the goals for both groups of tensors, with figures."""
    lines = []
    for aside, title in GROUPS.items():
        own = [row for row in rows if BY_NAME[row["tensor"]].aside == aside]
        if not own:
            continue
        failed = sum("error" in row for row in own)
        lines += [f"## {title}", "", f"{len(own)} runs, of which {failed} ended with an error.", ""]
        for goal, passed, figures in check_goals(own, before):
            verdict = "not measured" if passed is None else "pass" if passed else "FAIL"
            lines += [f"- **{verdict}** {goal}", *(f"    - {figure}" for figure in figures)]
        lines.append("")
    return "\n".join(lines).rstrip() or "Nothing was measured yet."


def check_goals(rows, before):
    """Yield every goal, whether it is reached (None if nothing tells), and the figures."""
    errors, areas = Figures(rows, "rmse"), Figures(rows, "auc")
    yield "(1) auto is within 5 % of the best fixed method in 95 % of cells, within 10 % in all", *check_best(errors)
    yield "(2) auto is at most 1.01 of the constant anywhere", *check_constant(errors)
    yield "(3) auto's error falls with epsilon: no step up beyond two standard errors", *check_falling(errors)
    yield (
        "(4) auto's error over that of older results, geometric mean over tensors, is at most 0.92 at epsilon 1, 0.88"
        " at 3, and below 1 elsewhere",
        *check_older(errors, Figures(before, "rmse")),
    )
    yield "(5) yes/no: auto's AUC rises with epsilon, and is never below that of margins", *check_areas(areas)
    yield "(6) counts and yes/no: at epsilon 1 the bias of auto's mean is within 3 % of the mean", *check_bias(rows)
    yield "(7) auto is never worse than the noisy table", *check_noisy_table(errors)
    large = {row["tensor"] for row in rows if row.get("entries", 0) >= MANY_ENTRIES}
    inside, estimates = Figures(rows, "inside"), Figures([row | estimate_ratio(row) for row in rows], "ratio")
    yield (
        f"(8) tensors of at least {MANY_ENTRIES:,} entries: 87 to 93 % of held-out values are inside auto's 90 %"
        " intervals, in 90 % of cells",
        *check_cells(inside, large, 0.87, 0.93),
    )
    yield (
        "(9) there too: auto's own estimate of its error is within 20 % of the measured one",
        *check_cells(estimates, large, 0.8, 1.2),
    )


def check_best(errors):
    auto, fixed = errors.of("auto"), {method: errors.of(method) for method in errors.fixed()}
    losses = {}
    for cell, own in auto.items():
        others = {method: found[cell] for method, found in fixed.items() if cell in found}
        if others:
            best = min(others, key=others.get)
            losses[cell] = own / others[best] - 1, f"{name_cell(cell)}: {own:.4g}, {best} {others[best]:.4g}"
    if not losses:
        return None, []
    found = np.array([loss for loss, _ in losses.values()])
    share = float(np.mean(found <= 0.05))
    worst = sorted(losses.values(), reverse=True)
    figures = [f"{share:.1%} of {len(found)} cells within 5 %, worst {worst[0][0]:+.1%}"]
    figures += [f"{text} ({loss:+.1%})" for loss, text in worst if loss > 0.05]
    return share >= 0.95 and float(found.max()) <= 0.10, figures


def check_constant(errors):
    ratios = {
        cell: own / constant
        for cell, own in errors.of("auto").items()
        if (constant := errors.beside("constant", cell)) is not None
    }
    if not ratios:
        return None, []
    single = max(max(errors.draws["auto"][cell]) / errors.beside("constant", cell) for cell in ratios)
    worst = max(ratios, key=ratios.get)
    figures = [f"worst {ratios[worst]:.4f} ({name_cell(worst)}); worst single draw {single:.4f}"]
    figures += [f"{name_cell(cell)}: {ratio:.4f}" for cell, ratio in ratios.items() if ratio > 1.01]
    return ratios[worst] <= 1.01, figures


def check_falling(errors):
    means, steps = errors.of("auto"), list(errors.steps("auto"))
    if not steps:
        return None, []
    up = [
        f"{name_cell(cell)} to {following[2]:g}: {means[cell]:.4g} to {means[following]:.4g}, allowed {allowed:.2g}"
        for cell, following, allowed in steps
        if means[following] - means[cell] > allowed
    ]
    return not up, [f"{len(up)} of {len(steps)} steps", *up]


def check_older(errors, older):
    new, old = errors.of("auto"), older.of("auto")
    logs = {}
    for cell in sorted(set(new) & set(old)):
        logs.setdefault(cell[1:], []).append(np.log(new[cell] / old[cell]))
    ratios = {at: float(np.exp(np.mean(found))) for at, found in sorted(logs.items())}
    figures = [
        f"delta {delta:g}, epsilon {epsilon:g}: {ratio:.4f} (tensors: {len(logs[delta, epsilon])})"
        for (delta, epsilon), ratio in ratios.items()
    ]
    return (all(ratio <= MOST_OF_OLDER.get(at[1], 1.0) for at, ratio in ratios.items()) if ratios else None), figures


def check_areas(areas):
    auto, margins = areas.of("auto"), areas.of("margins")
    falling = [
        f"{name_cell(cell)} to {following[2]:g}: {auto[cell]:.4f} to {auto[following]:.4f}, two standard errors"
        f" {error:.2g}"
        for cell, following, error in areas.steps("auto")
        if auto[following] < auto[cell]
    ]
    both = sorted(set(auto) & set(margins))
    figures = [f"{name_cell(cell)}: auto {auto[cell]:.4f}, margins {margins[cell]:.4f}" for cell in both]
    passed = not falling and all(auto[cell] >= margins[cell] for cell in both)
    return (passed if both else None), [*(f"falls, {step}" for step in falling), *figures]


def check_bias(rows):
    means = {row["tensor"]: row["mean"] for row in rows if row["method"] == "constant" and "mean" in row}
    biases = Figures(rows, "bias")
    shares = {}
    for cell, bias in sorted(biases.of("auto").items()):
        if cell[2] == 1 and BY_NAME[cell[0]].kind != "real" and cell[0] in means:
            mean = means[cell[0]]
            shares[cell] = bias / mean, biases.beside("constant", cell) / mean
    figures = [f"{name_cell(cell)}: {own:+.2%}, the constant {other:+.2%}" for cell, (own, other) in shares.items()]
    return (all(abs(own) <= 0.03 for own, _ in shares.values()) if shares else None), figures


def estimate_ratio(row):
    """Return a release's own estimate over the error that was measured, if it made one."""
    return {} if row.get("estimate") is None else {"ratio": row["estimate"] / row["rmse"]}


def check_cells(figures, tensors, low, high):
    """Tell whether nine in ten of auto's cells have a mean within limits."""
    means = {cell: mean for cell, mean in figures.of("auto").items() if cell[0] in tensors}
    outside = [f"{name_cell(cell)}: {mean:.3f}" for cell, mean in sorted(means.items()) if not low <= mean <= high]
    share = 1 - len(outside) / max(len(means), 1)
    return (share >= 0.9 if means else None), [f"{share:.1%} of {len(means)} cells", *outside] if means else []


def check_noisy_table(errors):
    auto = errors.of("auto")
    pairs = {
        cell: (own, table) for cell, own in auto.items() if (table := errors.beside(NOISY_TABLE, cell)) is not None
    }
    worse = [f"{name_cell(cell)}: {own:.4g}, table {table:.4g}" for cell, (own, table) in pairs.items() if own > table]
    return (not worse if pairs else None), [f"worse in {len(worse)} of {len(pairs)} cells", *worse] if pairs else []

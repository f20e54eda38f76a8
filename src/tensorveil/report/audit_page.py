"""The report of an audit: verdicts, the trade-off curves behind them, the witnesses, the power that the audit had."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tensorveil.audit.claim import Claim
from tensorveil.audit.model_leak import ModelLeak
from tensorveil.audit.verdict import Verdict
from tensorveil.markup import Markup, tag
from tensorveil.privacy import Guarantee
from tensorveil.privacy.exact import show_at_least, show_at_most
from tensorveil.report.bars import Bar, bar_plots
from tensorveil.report.curves import WIDTH, draw_curve
from tensorveil.report.drawing import both
from tensorveil.report.facts import Caption, Standing
from tensorveil.report.model_parts import open_captions, release_captions
from tensorveil.report.owner_page import WARNING
from tensorveil.report.page import DO_NOT_PUBLISH, Page, Section, data_table, figure
from tensorveil.report.release_page import key_list
from tensorveil.report.scales import number

__all__ = ["Audited", "audit_page", "leak_page"]


@dataclass(frozen=True, kw_only=True)
class Audited:
    """One audit: of what, for what unit, what came out, and whether the claim has a proof."""

    name: str
    unit: str
    verdict: Verdict
    proven: bool

    @property
    def status(self) -> str:
        """The standing of the claim after the audit. An audit refutes; it never proves."""
        if self.verdict.violated:
            return "refuted"
        return "proven" if self.proven else "claimed"


def audit_page(found: Sequence[Audited]) -> Page:
    """Make the page of one audit or of several."""
    broken = sum(each.verdict.violated for each in found)
    if len(found) == 1:
        title, sentence = f"Audit of {found[0].name}", _sentence(found[0].verdict.sentence())
    else:
        title = f"Audit of {len(found)} mechanisms"
        sentence = (
            f"{broken} of {len(found)} claims are violated. The others stood this audit, which proves nothing: "
            "it says what would have been found."
        )
    return Page(
        kind="Audit report",
        title=title,
        sentence=sentence,
        mark="Experiment, not a release",
        hero=(_keys(found[0]),) if len(found) == 1 else (),
        sections=(_overview(found), *(_one(k, each, alone=len(found) == 1) for k, each in enumerate(found))),
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _keys(each: Audited) -> Markup:
    verdict = each.verdict
    name = verdict.claim.parameter
    return key_list(
        [
            ("claimed", str(verdict.claim), f"unit {each.unit}"),
            ("shown", f"{name} ≥ {show_at_most(verdict.lower_bound)}", f"with confidence {verdict.confidence:g}"),
            ("verdict", verdict.word, f"{verdict.draws:,} outputs of each neighbour"),
        ]
    )


def _caption(each: Audited, text: str) -> Caption:
    claim = each.verdict.claim
    return Caption(
        text=text,
        unit=each.unit,
        epsilon=_level(claim),
        delta="every" if claim.mu is not None else claim.delta,
        runs=max(each.verdict.draws, 1),
        methods=(Standing(name=each.name, status=each.status),),
    )


def _level(claim: Claim) -> str:
    level = show_at_least(claim.level)
    return level if claim.epsilon is not None else f"by mu = {level}"


def _overview(found: Sequence[Audited]) -> Section:
    """Draw what each audit showed beside what is claimed."""
    bars = [
        Bar(
            name=each.name,
            value=each.verdict.lower_bound,
            told=f"≥ {show_at_most(each.verdict.lower_bound, 3)} of {show_at_least(each.verdict.claim.level, 3)}",
            css="bar bad" if each.verdict.violated else "bar good",
            mark=each.verdict.claim.level,
        )
        for each in found
    ]
    told = "; ".join(f"{each.name}: {each.verdict.word}, {bar.told}" for each, bar in zip(found, bars, strict=True))
    claims = {_level(each.verdict.claim) for each in found}
    deltas = {str(_caption(each, "").delta_text) for each in found}
    caption = Caption(
        text="Bars: the level that is shown with confidence (epsilon, or mu where that is claimed). Ticks: what is "
        "claimed. A bar beyond its tick refutes the claim.",
        unit=", ".join(sorted({each.unit for each in found})),
        epsilon=", ".join(sorted(claims)),
        delta=", ".join(sorted(deltas)),
        runs=max(max(each.verdict.draws for each in found), 1),
        methods=tuple(Standing(name=each.name, status=each.status) for each in found),
    )
    rows = [_row(each) for each in found]
    table = data_table("audits", ["mechanism", "unit", "claimed", "at least", "verdict", "guarantee"], rows)
    plots = bar_plots(bars, f"Shown against claimed. {told}.")
    block = figure("shown", "Shown against claimed", plots, caption, numbers=table)
    return Section(name="overview", title="What was shown", lead="", blocks=(block,))


def _row(each: Audited) -> tuple[str, ...]:
    verdict = each.verdict
    return each.name, each.unit, str(verdict.claim), show_at_most(verdict.lower_bound), verdict.word, each.status


def _one(place: int, each: Audited, *, alone: bool) -> Section:
    verdict = each.verdict
    blocks: list[Markup] = []
    if verdict.curve:
        caption = _caption(
            each,
            "Every point is a test that tells one neighbour from the other; its shade reaches to the confidence bounds "
            "of both rates. The claim forbids the red area: a shade that ends within it refutes the claim.",
        )
        every = math.ceil(len(verdict.curve) / 40)
        rows = [
            [number(rate) for rate in (p.false_positive, p.missed, p.false_positive_at_most, p.missed_at_most)]
            for p in verdict.curve[::every]
        ]
        table = data_table(
            f"tests of {each.name}", ["false positives", "misses", "false positives at most", "misses at most"],
            rows,
        )  # fmt: skip
        plots = both(lambda width: draw_curve(each.name, verdict, min(width, WIDTH)))
        blocks.append(figure(f"curve-{place + 1}", f"Trade-off curve of {each.name}", plots, caption, numbers=table))
    blocks += _witnesses(each)
    return Section(
        name=f"audit-{place + 1}",
        title="The tests" if alone else each.name,
        lead="" if alone else _sentence(verdict.sentence()),
        blocks=tuple(blocks),
    )


def _witnesses(each: Audited) -> list[Markup]:
    verdict = each.verdict
    if not verdict.witnesses:
        return []
    rows = [
        (w.kind, w.event, f"{w.hits[0]:,}", f"{w.hits[1]:,}", f"{w.draws:,}", show_at_most(w.level))
        for w in verdict.witnesses[:10]
    ]
    columns = ["kind", "event", "first neighbour", "second neighbour", "of", f"{verdict.claim.parameter} at least"]
    return [
        tag("h3", "Events that were looked at, the most telling first"),
        data_table(f"events of {each.name}", columns, rows),
    ]


def leak_page(name: str, leak: ModelLeak, guarantee: Guarantee | None = None) -> Page:
    """Make the page of an owner's test of a model with the data it was fitted to: private.

    ``guarantee`` is the release's; None for a model that has none.
    """
    bars = [
        Bar(name="recovered by the attack", value=leak.recovered_error, css="bar bad" if leak.found else "bar good"),
        Bar(name="predicted by the model", value=leak.predicted_error, css="bar quiet"),
    ]
    captioned = open_captions(name) if guarantee is None else release_captions(guarantee)
    caption = captioned("Median error of single entries. An attack that comes closer than the model has found a leak.")
    told = f"Recovered {number(leak.recovered_error)}, predicted {number(leak.predicted_error)}."
    return Page(
        kind="Owner's audit",
        title=f"Does {name} give single entries away?",
        sentence=_sentence(leak.sentence()),
        mark=DO_NOT_PUBLISH,
        warning=WARNING,
        sections=(
            Section(
                name="leak",
                title="Recovered against predicted",
                lead="The attacker knows all other values and the factors.",
                blocks=(figure("leak-figure", "Median errors", bar_plots(bars, told), caption),),
            ),
        ),
    )

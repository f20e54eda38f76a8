"""Audit every mechanism of the project thoroughly, and write the table of docs/audit.md.

    python -m benchmarks.audit                    everything, with as many draws as the catalogue says: some hours
    python -m benchmarks.audit noise/ local/      some of it; what is not audited keeps its earlier result
    python -m benchmarks.audit --table            the table again, from the results that are there

Results go to benchmarks/results/audit.json.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from tensorveil.audit.subject import Subject, find_subjects, holds
from tensorveil_evidence.subjects.catalogue import list_subjects

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "audit.md"
BEGIN, END = "<!-- begin of the table: python -m benchmarks.audit -->", "<!-- end of the table -->"
FAMILIES = {
    "noise/": "Noise mechanisms",
    "statistic/": "Noisy statistics of private completion",
    "completion/": "Methods of private completion, whole runs on tiny tensors",
    "selection/": "Private selection: errors of models on held-out entries",
    "users/": "Rounds of user-level fits",
    "one run/": "Private completion, one run with canaries",
    "local/": "Local mechanisms",
    "learning/": "Learning: reports and rounds",
    "federated/": "Federated runs, as seen by whom they protect against",
    "published/": "Published algorithms",
    "attack/": "The attack on factors, against ours",
}


def stored() -> dict[str, dict[str, Any]]:
    path = RESULTS / "audit.json"
    return json.loads(path.read_text()) if path.exists() else {}


def keep(name: str, result: dict[str, Any]) -> None:
    """Add one result; read and written each time, so that two runs can share the file."""
    results = stored() | {name: result}
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / "audit.json"
    path.with_suffix(".tmp").write_text(json.dumps(dict(sorted(results.items())), indent=1) + "\n")
    path.with_suffix(".tmp").replace(path)


def measure(subject: Subject, samples: int | None) -> dict[str, Any]:
    start = time.perf_counter()
    verdict = subject.audit(samples=samples or subject.many, seed=2)
    facts = verdict.to_json() | {"seconds": round(time.perf_counter() - start, 1)}
    facts.pop("curve")
    facts["witnesses"] = facts["witnesses"][:1]
    facts["power"]["detectable"] = facts["power"]["detectable"] and round(facts["power"]["detectable"], 4)
    return facts


def level(claim: Any) -> str:
    return "none" if claim is None else str(claim).replace("epsilon", "ε").replace("delta", "δ").replace("mu", "μ")


def row(subject: Subject, facts: dict[str, Any]) -> str:
    draws = facts["sampled"] or f"{facts['draws']:,} {subject.about}"
    verdict = facts["verdict"]
    if verdict == "violated":
        verdict = f"**violated** ({facts['witnesses'][0]['kind']})"
    bound = f"{int(facts['lower_bound'] * 1000) / 1000:g}"
    ceiling = f"{int(facts['power']['ceiling'] * 10) / 10:g}"
    cells = (subject.name, subject.unit, level(subject.claim), level(subject.proven), bound, ceiling, draws, verdict)
    return "| " + " | ".join(cells) + " |"


def table() -> str:
    """Return the table: one part per family, in the order of the catalogue."""
    results = stored()
    lines: list[str] = []
    for prefix, title in FAMILIES.items():
        family = [subject for name, subject in list_subjects().items() if name.startswith(prefix)]
        lines += [f"### {title}", ""]
        lines += ["| mechanism | unit | claimed | proven | at least | at most shown | draws per neighbour | verdict |"]
        lines += ["|---" * 8 + "|"]
        lines += [row(subject, results[subject.name]) for subject in family if subject.name in results]
        lines.append("")
    return "\n".join(lines)


def write_table() -> None:
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table()}\n{END}{after}", encoding="utf-8")


def main() -> None:
    """Audit, keep the results, write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.audit", description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--samples", type=int)
    parser.add_argument("--table", action="store_true", help="only write the table")
    options = parser.parse_args()
    if not options.table:
        known = list_subjects()
        chosen = [s for name in options.names for s in find_subjects(name, known)] or list(known.values())
        for subject in chosen:
            facts = measure(subject, options.samples)
            keep(subject.name, facts)
            expected = "as expected" if (facts["verdict"] == "violated") != holds(subject) else "UNEXPECTED"
            print(f"{subject.name}: {facts['verdict']}, at least {facts['lower_bound']:g}, {expected}", flush=True)
    write_table()


if __name__ == "__main__":
    main()

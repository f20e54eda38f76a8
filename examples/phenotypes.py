"""Find phenotypes in health records without giving away any patient: synthetic records, protected as whole persons.

    python examples/phenotypes.py --output phenotypes

The records are of 970 made-up patients, who ship with the package: how often a medication was started where a diagnosis
was made. So few patients are too few for a small budget, so more are drawn: an open model of Poisson counts, whose
components are then the planted phenotypes, is fitted to the records; every new patient gets the loadings of one of
them, drawn at random, and counts of its own. Released are phenotypes, which diagnoses and medications go together; the
unit is `slice:patient`, all that one patient has.

For every budget and number of patients the script prints how alike released and planted phenotypes are: the product of
the cosines of their columns, on average over phenotypes and for the worst of them. With real patients that could not be
computed from a release, and only the folder that is written might leave.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

import tensorveil as tv

RANK, BUDGETS, PATIENTS = 8, (0.3, 1.0, 3.0, 10.0), (1_000, 10_000, 100_000)


def congruence(found: Any, planted: Any) -> Any:
    """Return how alike every planted component and its partner are; the partners are the best for all together."""

    def unit(factor: Any) -> Any:
        return factor / np.maximum(np.linalg.norm(factor, axis=0), 1e-300)

    alike = np.ones((planted.rank, found.rank))
    for own, other in zip(planted.factors[1:], found.factors[1:], strict=True):
        alike *= unit(own).T @ unit(other)
    return alike[linear_sum_assignment(-alike)]


def release(records: tv.ObservedTensor, epsilon: float) -> Any:
    """Release phenotypes; of the patients only an upper bound of their number is declared."""
    estimator = tv.UserLevelCounts(
        RANK, epsilon=epsilon, delta=1e-6, unit="slice:patient", bounds=(0, 20), shape={"patient": records.shape[0]},
        random_state=0,
    )  # fmt: skip
    return estimator.fit(records)


def main() -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="folder for the release of 100,000 patients at epsilon 1")
    parser.add_argument("--patients", type=int, action="append", help="how many patients; may be repeated")
    options = parser.parse_args()
    warnings.simplefilter("ignore", tv.NoLedgerWarning)  # nobody needs to count what made-up patients give away
    records = tv.load_dataset("synthea-records")
    open_fit = tv.CP(RANK, loss="poisson", nonnegative=True, baseline="none", random_state=0).fit(records)
    planted, counts = open_fit.model_, tuple(options.patients or PATIENTS)
    for patients in counts:
        # Diagnoses and medications are public lists.
        drawn = tv.synthesise(planted, rows={"patient": patients}, seed=1)
        print(f"{patients:,} patients, {drawn.n_entries:,} entries")
        for epsilon in BUDGETS:
            private = release(drawn, epsilon)
            found = congruence(private.model_, planted)
            kept = np.count_nonzero(private.model_.factors[0])
            print(f"  epsilon {epsilon:<4g} {kept} phenotypes, congruence {found.mean():.3f}, lowest {found.min():.3f}")
            if options.output is not None and epsilon == 1.0 and patients == max(counts):
                tv.write_release(private, options.output)
                print(f"  released: {options.output}\n  {private.guarantee_}")
                for number, component in enumerate(tv.list_components(private, most=3), 1):
                    named = "; ".join(
                        ", ".join(str(label) for label, _ in component.indices[mode]) for mode in component.indices
                    )
                    print(f"    {number}. {component.share:.0%}: {named}")


if __name__ == "__main__":
    main()

"""Recommend films: MovieLens 100K by a low-rank matrix, not private and privately, and a release of the latter.

    TENSORVEIL_DATA=/path/to/data python examples/recommendation.py --output recommendation

Errors are on ua.test, ten ratings of every user that the fits do not see. They are computed from private data, so they
are for the owner of the data, not for publication; what may be published is the folder that is written, with its
guarantee.

The privacy unit is `value`: one rating; who has rated what is public. A person's hundred ratings together are not
hidden by noise for one of them.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import tensorveil as tv

BUDGETS = (1.0, 5.0, 10.0)


def main() -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="folder for the release of the private model at epsilon 5")
    options = parser.parse_args()
    train, test = (tv.load_dataset("ml-100k", part=part) for part in ("ua.base", "ua.test"))
    print(f"{train.shape[0]} users x {train.shape[1]} films, {train.n_entries:,} ratings")
    constant = np.sqrt(np.mean((test.values - train.values.mean()) ** 2))
    print(f"  {'constant':34} {constant:.3f}")
    fits = {
        "bayes, rank auto": tv.LowRankMatrix("auto", baseline="biases", random_state=0),
        "sor, rank 2": tv.LowRankMatrix(2, solver="sor", baseline="mean"),
        "altmin, rank 2, biases": tv.LowRankMatrix(2, solver="altmin", baseline="biases", regularization=3.0),
    }
    for name, estimator in fits.items():
        estimator.fit(train)
        print(f"  {name:34} {estimator.rmse(test):.3f}   rank {estimator.rank_}")
    best = fits["bayes, rank auto"].top(5, given={"user": 1}, along="film", exclude=train)
    print(f"  for user 1: films {', '.join(map(str, best.labels))}")
    for epsilon in BUDGETS:
        private = tv.PrivateLowRankMatrix(
            10, epsilon=epsilon, delta=0.0, unit="value", bounds=(1, 5), random_state=0
        ).fit(train)
        print(f"  {f'epsilon {epsilon:g}, {private.plan_.method}':34} {private.rmse(test):.3f}")
        if epsilon == 5.0 and options.output is not None:
            tv.write_release(private, options.output)
            print(f"  released: {options.output}\n  {private.guarantee_}")


if __name__ == "__main__":
    main()

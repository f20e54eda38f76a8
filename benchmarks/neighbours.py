"""Claims of other public libraries, audited again: docs/explanation/neighbours.md tells what was found.

    pip install pipeline-dp==0.3.1 pyspark==4.3.0   # not dependencies of tensorveil: a temporary environment will do
    python -m benchmarks.neighbours collects        # some minutes on one core; needs Java

    pip install tensorflow pandas matplotlib ipython dp-accounting
    python -m benchmarks.neighbours films FOLDER    # FOLDER: a checkout of google-research at 0155391; seconds

``collects``: a count by PipelineDP on Spark with one user more or less, 2,000 times at once, as public partitions,
read 1, 5 and 25 times: does each read draw its noise anew? ``films``: which of two films the preprocessing of DPALS
keeps with ``exact_split=True``, one user more or less. Their code is imported where it is installed or checked out;
nothing of it is here. Noise is theirs and has no seed that we could set, but for the order of users.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
from pathlib import Path

import numpy as np

from tensorveil.audit import Claim, audit

PARTITIONS, READS = 2000, (1, 5, 25)
EPSILON, DELTA = 1.0, 1e-6


def draw_from(pools):
    """Return a mechanism that gives what was drawn before, each number once."""
    left = {which: iter(pool) for which, pool in pools.items()}

    def mechanism(which, rng, count):
        return np.array([next(left[which]) for _ in range(count)])

    return mechanism


def say(title, verdict):
    print(f"{title}: at least {verdict.lower_bound:.2f}, violated: {verdict.violated}", flush=True)


def start_spark():
    from pyspark import SparkConf, SparkContext

    local = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    context = SparkContext(conf=SparkConf().setMaster("local[1]").setAll(local.items()))
    context.setLogLevel("ERROR")
    return context


def count_lazily(context, users):
    """Ask PipelineDP for the number of users in each partition; Spark computes nothing yet."""
    import pipeline_dp as dp

    rows = context.parallelize([(2 * at + user, at) for at in range(PARTITIONS) for user in range(users)], 1)
    accountant = dp.NaiveBudgetAccountant(total_epsilon=EPSILON, total_delta=DELTA)
    engine = dp.DPEngine(accountant, dp.SparkRDDBackend(context))
    asked = dp.AggregateParams(
        metrics=[dp.Metrics.COUNT], noise_kind=dp.NoiseKind.LAPLACE, max_partitions_contributed=1,
        max_contributions_per_partition=1,
    )  # fmt: skip
    extractors = dp.DataExtractors(
        privacy_id_extractor=lambda row: row[0], partition_extractor=lambda row: row[1], value_extractor=lambda row: 0
    )
    found = engine.aggregate(rows, asked, extractors, public_partitions=list(range(PARTITIONS)))
    accountant.compute_budgets()
    return found


def read(found):
    """Read the counts once, in the order of partitions."""
    counts = dict(found.collect())
    return [counts[at].count for at in range(PARTITIONS)]


def audit_collects():
    context = start_spark()
    reads = {users: np.array([read(found) for _ in range(max(READS))]) for users in (1, 2)
             for found in [count_lazily(context, users)]}  # fmt: skip
    context.stop()
    for number in READS:
        pools = {users: own[:number].mean(axis=0) for users, own in reads.items()}
        claim, samples = Claim(epsilon=EPSILON, delta=DELTA), PARTITIONS - 100  # others show the form of an output
        verdict = audit(draw_from(pools), (1, 2), claim, samples=samples, batched=True, kinds=("law",))
        say(f"mean of {number} collects", verdict)


def audit_films(folder, runs=500):
    """Two films with five users each; with a sixth user of the second one, which is kept?

    The claim is what DPALS's own accounting says of all its preprocessing.
    """
    sys.path.insert(0, str(folder))
    import dp_accounting
    import pandas as pd
    from dp_alternating_minimization import dpam

    def sanitize():
        return dpam.Sanitizer(budget=1, item_frac=0.5, exact_split=True, count_stddev=1000.0, count_sample=1)

    def keep(more, rng):
        films = [0] * 5 + [1] * (5 + more)
        frame = pd.DataFrame({"uid": rng.permutation(len(films)), "sid": films, "rating": 1.0})
        parts = [dpam.SparseMatrix(data=frame.copy(), history=frame.copy()) for _ in range(3)]
        data = dpam.Dataset(len(films), 2, None, *parts)
        with contextlib.redirect_stdout(io.StringIO()):
            sanitize().preprocess_data(data, None)
        kept = data.get_frequent(data.train.data)
        return float(kept["old_sid"].iloc[0])

    accountant = dp_accounting.rdp.RdpAccountant(dpam._DEFAULT_RDP_ORDERS)
    accountant.compose(sanitize().get_dp_event_noisy_count())
    claim = Claim(epsilon=float(accountant.get_epsilon(1e-5)), delta=1e-5)
    say(f"which film is kept, claimed {claim.epsilon:.2f}", audit(keep, (0, 1), claim, samples=runs))


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.neighbours", description=__doc__)
    parser.add_argument("what", choices=("collects", "films"))
    parser.add_argument("folder", nargs="?", type=Path, help="where google-research is checked out, for films")
    options = parser.parse_args()
    if options.what == "collects":
        audit_collects()
    elif options.folder is None:
        parser.error("films needs the folder of a checkout")
    else:
        audit_films(options.folder)


if __name__ == "__main__":
    main()

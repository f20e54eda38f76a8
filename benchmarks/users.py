"""Accuracy of user-level privacy: `python -m benchmarks.users [open] [movielens] [features] [planted] [--seeds 0 1 2]`.

Noise is drawn by the exact samplers from a seeded source, so that figures can be drawn again; nothing here is private.
Settings were tuned on another split of the ratings (seed 100) and other planted tensors (seeds 0 and 1).
"""

from __future__ import annotations

import argparse
import os
import time
from itertools import permutations
from pathlib import Path

import numpy as np
import pyarrow as pa

import tensorveil as tv
from benchmarks.private import write
from tensorveil.noise import SeededSource
from tensorveil.privacy import Gaussian, epsilon_for, gaussian_mu
from tensorveil.rounds import Recipe, SharedModel, State, draw_noise
from tensorveil_evidence.studies.reference import rmse

DELTA = 1e-5
EPSILONS = (0.1, 0.3, 1.0, 2.0, 5.0, 10.0, 20.0)
FILMS_RANK = 6


# MovieLens 1M, a random tenth of the ratings held out


def films(seed):
    ratings = tv.load_dataset("ml-1m")
    tensor = tv.ObservedTensor(ratings.coords, ratings.values, shape=ratings.shape, modes=("user", "film"))
    order = np.random.default_rng(seed).permutation(tensor.n_entries)
    held = tensor.n_entries // 10
    return tensor.take(order[held:]), tensor.take(order[:held])


def user_means(train, offset, ridge=5.0):
    """Users' means, drawn to the offset: local, so that they cost nothing."""
    users = train.columns[0]
    n = np.bincount(users, minlength=train.shape[0])
    return offset + np.bincount(users, train.values - offset, minlength=train.shape[0]) / (n + ridge)


def plain_biases(train, rounds=20, ridge=5.0):
    """Offset and biases of users and films, alternated without noise."""
    (users, movies), offset = train.columns, float(train.values.mean())
    of_users, of_films = np.zeros(train.shape[0]), np.zeros(train.shape[1])
    for _ in range(rounds):
        for own, other, index, size in ((of_films, of_users[users], movies, 1), (of_users, of_films[movies], users, 0)):
            n = np.bincount(index, minlength=train.shape[size])
            own[:] = np.bincount(index, train.values - offset - other, minlength=train.shape[size]) / (n + ridge)
    return offset, of_users, of_films


def private_biases(train, epsilon, seed):
    """The private bias model: the same rounds without traits and tastes, and with the whole budget for them."""
    steps = {"shape": train.shape, "modes": ("user", "film"), "protect": "user", "bounds": (1, 5), "sweeps": 0}
    mu, shares = gaussian_mu(epsilon, DELTA), [step.share for step in Recipe(**steps, epsilon=1.0, delta=DELTA).steps]
    whole = epsilon_for(Gaussian(mu * (sum(shares) / sum(shares[:-1])) ** 0.5), DELTA)
    recipe, source = Recipe(**steps, epsilon=whole, delta=DELTA), SeededSource(seed)
    people, state = recipe.people(train), recipe.start()
    for this in recipe.rounds[:-1]:
        after = recipe.advance(state, recipe.contribute(state, people) + draw_noise(this, source))
        kept = {name: array for name, array in after.arrays.items() if name != "traits"}
        kept |= {"taste_mean": after["taste_mean"][:1], "taste_covariance": after["taste_covariance"][:1, :1]}
        state = State(round=after.round, arrays=kept)
    biases = state["biases"]
    return SharedModel(
        modes=tuple(tv.Mode(name) for name in recipe.modes), shape=recipe.shape, protect=0, bounds=recipe.bounds,
        offset=float(state["offset"][0]), biases=(np.array(biases),), factors=(np.zeros((len(biases), 1)),),
        n_traits=1, spread=float(state["spread"][0]), taste_mean=np.zeros(2),
        taste_covariance=np.diag([float(state["taste_covariance"][0, 0]), 1.0]),
    )  # fmt: skip


def without_privacy(seed, threads):
    """Errors of everything that is not private, or free."""
    train, test = films(seed)
    truth, (users, movies) = test.values, test.columns
    offset, of_users, of_films = plain_biases(train)
    solved = tv.LowRankMatrix(16, baseline="biases", threads=threads, random_state=seed).fit(train)
    return {
        "constant": rmse(np.full(len(truth), offset), truth),
        "user means": rmse(user_means(train, offset)[users], truth),
        "biases": rmse(np.clip(offset + of_users[users] + of_films[movies], 1, 5), truth),
        "well solved": rmse(solved.predict(test), truth),
    }


def with_privacy(seed, epsilon, threads):
    train, test = films(seed)
    biases = rmse(private_biases(train, epsilon, 1000 + seed).predict_for(train, test), test.values)
    fit = tv.UserLevelMatrix(
        FILMS_RANK, epsilon=epsilon, delta=DELTA, unit="slice:user", bounds=(1, 5), shape=train.shape,
        threads=threads, random_state=seed, noise_seed=2000 + seed,
    ).fit(train)  # fmt: skip
    return biases, fit.rmse_for(train, test), fit.plan_.method


def open_fits(seeds, threads):
    """What is not private, or free, on MovieLens 1M."""
    write("open", [{"seed": seed, **without_privacy(seed, threads)} for seed in seeds], "users")


def movielens(seeds, threads):
    """Rating error on MovieLens 1M, everybody served from their own training entries."""
    rows = []
    for epsilon in EPSILONS:
        runs = [with_privacy(seed, epsilon, threads) for seed in seeds]
        rows.append({
            "epsilon": epsilon,
            "private biases": float(np.mean([run[0] for run in runs])),
            "this": float(np.mean([run[1] for run in runs])),
            "worst seed": max(run[1] for run in runs),
            "worst seed beside biases": max(run[1] - run[0] for run in runs),
            "chosen": runs[0][2],
            "seeds": list(seeds),
        })  # fmt: skip
        write("movielens", rows, "users")


def data_folder():
    """The folder that TENSORVEIL_DATA names."""
    return Path(os.environ["TENSORVEIL_DATA"])


def films_table():
    """Public facts of MovieLens 1M's films: genres, year, decade."""
    text = (data_folder() / "ml-1m" / "movies.dat").read_text("latin-1")
    facts = {int(line.split("::")[0]): line.split("::")[1:] for line in text.splitlines()}
    known = [facts[int(label)] for label in tv.load_dataset("ml-1m").modes[1].labels]
    years = [float(title.strip()[-5:-1]) for title, _ in known]
    columns = {"genres": [genres for _, genres in known], "year": years, "decade": [f"{y // 10:.0f}0s" for y in years]}
    return pa.table({"film": range(len(known)), **columns})


def random_table(size, seed):
    """A table that says nothing."""
    rng = np.random.default_rng(seed)
    return pa.table({"film": range(size), **{f"column {k}": rng.standard_normal(size) for k in range(20)}})


def features(seeds, threads):
    """Public tables of films: error of all ratings held out, and of those of films with fewer than 20 ratings."""
    rows = []
    for epsilon in EPSILONS:
        for seed in seeds:
            train, test = films(seed)
            rare = np.bincount(train.columns[1], minlength=train.shape[1])[test.columns[1]] < 20
            row = {"epsilon": epsilon, "seed": seed}
            tables = {"none": None, "genres and years": films_table(), "random": random_table(train.shape[1], seed)}
            for name, table in tables.items():
                fit = tv.UserLevelMatrix(
                    FILMS_RANK, epsilon=epsilon, delta=DELTA, unit="slice:user", bounds=(1, 5), shape=train.shape,
                    threads=threads, random_state=seed, noise_seed=2000 + seed,
                    side=None if table is None else {"film": table},
                ).fit(train)  # fmt: skip
                found = fit.predict_for(train, test)
                row |= {name: rmse(found, test.values), f"{name}, rare": rmse(found[rare], test.values[rare])}
                row |= {f"{name}, used": list(fit.notes_[1:])}
            rows.append(row)
            print(row, flush=True)
            write("features", rows, "users")


# A planted tensor


def congruence(found, planted):
    """The least cosine between planted and found columns, matched over all modes at once; per mode."""
    cosines = [
        np.abs((f / np.linalg.norm(f, axis=0)).T @ (p / np.linalg.norm(p, axis=0)))
        for f, p in zip(found, planted, strict=True)
    ]
    joint = np.prod(cosines, axis=0)
    rank = joint.shape[1]
    best = max(
        permutations(range(joint.shape[0]), rank), key=lambda order: sum(joint[order[k], k] for k in range(rank))
    )
    return [float(min(cosine[best[k], k] for k in range(rank))) for cosine in cosines]


def planted(seeds, threads):
    """100,000 users x 5,000 items x 50 periods, 10 million entries, rank 3, as much noise as signal; epsilon 1."""
    rows = []
    for seed in seeds:
        shape = (100_000, 5_000, 50)
        problem = tv.synthetic_cp(shape, 3, n_entries=10_010_000, held_out=0.001, random_state=seed)
        train, test = (t.with_modes(("user", "item", "period")) for t in (problem.train, problem.held_out))
        estimator = tv.UserLevelCP(
            3, epsilon=1.0, delta=DELTA, unit="slice:user", bounds=(-0.5, 1.5), shape=shape, threads=threads,
            random_state=seed, noise_seed=seed,
        )  # fmt: skip
        start, busy = time.perf_counter(), time.process_time()
        fit = estimator.fit(train)
        seconds, busy = time.perf_counter() - start, time.process_time() - busy
        model = fit.model_
        found = [factor[:, model.n_traits :] for factor in model.factors]
        items, periods = congruence(found, problem.factors[1:])
        error = rmse(fit.predict_for(train, test), problem.clean_at(test.coords))
        rows.append({
            "seed": seed, "items": items, "periods": periods, "seconds": seconds, "processor seconds": busy,
            "error of clean values": error, "constant": float(np.std(problem.clean_at(test.coords))),
        })  # fmt: skip
        write("planted", rows, "users")


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.users", description=__doc__)
    parser.add_argument("parts", nargs="*", default=["open", "movielens", "features", "planted"])
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    for part in options.parts:
        parts = {"open": open_fits, "movielens": movielens, "features": features, "planted": planted}
        parts[part](options.seeds, options.threads)


if __name__ == "__main__":
    main()

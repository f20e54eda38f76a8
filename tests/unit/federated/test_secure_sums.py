"""Secure sums: masks cancel exactly for every set of drop-outs, and one masked vector tells nothing."""

import itertools
import secrets
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorveil.errors import InputError
from tensorveil.federated.errors import AbandonedError, RefusedError
from tensorveil.federated.secure import masking, shamir
from tensorveil.federated.secure.masks import derive_public_key, derive_shared_secret, expand_mask, sum_pair_masks
from tensorveil.federated.secure.unmasking import unmask_sum
from tests import chance

RUN = "0" * 32


def party(n: int, rounds: Any, threshold: Any, seeds: Any = None) -> tuple[Any, Any, Any]:
    """Go through the set-up of a run: seeds, what is published, and everybody's opened shares."""
    seeds = seeds or [secrets.token_bytes(32) for _ in range(n)]
    everyone = [masking.publish_keys(seed, RUN, rounds).tobytes() for seed in seeds]
    length = masking.sealed_length(rounds)
    sealed = [
        masking.seal_shares(seed, me, everyone, RUN, rounds, threshold).tobytes() for me, seed in enumerate(seeds)
    ]
    opened = [
        masking.open_shares(seed, me, everyone, RUN, [s[me * length : (me + 1) * length] for s in sealed])
        for me, seed in enumerate(seeds)
    ]
    return seeds, everyone, opened


def cut(content: Any, n: int) -> Any:
    return [content[k * shamir.SHARE : (k + 1) * shamir.SHARE] for k in range(n)]


def total_of(
    vectors: Any,
    present: Any,
    helpers: Any,
    seeds: Any,
    everyone: Any,
    opened: Any,
    rounds: Any,
    round_: Any,
    threshold: Any,
) -> Any:
    n = len(seeds)
    flags = np.array([k in present for k in range(n)])
    masked = {k: masking.mask_vector(vectors[k], seeds[k], k, everyone, RUN, round_) for k in present}
    shares = {k: cut(masking.reveal_shares(opened[k], flags, round_, rounds).tobytes(), n) for k in helpers}
    return unmask_sum(masked, shares, everyone, threshold, RUN, round_)


def test_every_set_of_drop_outs_up_to_the_threshold() -> None:
    n, threshold, rounds = 5, 3, 2
    setup = party(n, rounds, threshold)
    rng = np.random.default_rng(0)
    vectors = rng.integers(-(2**62), 2**62, (n, 7))
    for size in range(threshold, n + 1):
        for present in itertools.combinations(range(n), size):
            for round_ in range(rounds):
                total = total_of(vectors, present, present, *setup, rounds, round_, threshold)
                with np.errstate(over="ignore"):
                    assert np.array_equal(total, vectors[list(present)].sum(axis=0))


@settings(max_examples=15)
@given(st.integers(2, 6), st.integers(0, 2**63 - 1), st.data())
def test_masks_cancel_for_any_vectors(n: int, seed: int, data: Any) -> None:
    threshold = data.draw(st.integers(n // 2 + 1, n))
    present = sorted(data.draw(st.sets(st.integers(0, n - 1), min_size=threshold)))
    helpers = sorted(data.draw(st.sets(st.integers(0, n - 1), min_size=threshold)))
    vectors = np.random.default_rng(seed).integers(-(2**60), 2**60, (n, 5))
    total = total_of(vectors, present, helpers, *party(n, 1, threshold), 1, 0, threshold)
    assert np.array_equal(total, vectors[present].sum(axis=0))


def test_pairwise_masks_cancel_and_differ_by_round() -> None:
    secrets_ = [secrets.token_bytes(32) for _ in range(4)]
    publics = [derive_public_key(s) for s in secrets_]

    def masks(round_: Any) -> Any:
        return [
            sum_pair_masks(s, k, {j: p for j, p in enumerate(publics) if j != k}, RUN, round_, 6)
            for k, s in enumerate(secrets_)
        ]

    assert not np.any(np.sum(masks(0), axis=0, dtype=np.uint64))
    assert not np.array_equal(masks(0)[0], masks(1)[0])


def test_one_masked_vector_looks_uniform() -> None:
    """Whatever the vector: all bytes of its masked words are uniform. A mask that is left out would be found."""
    seeds, everyone, _ = party(3, 1, 2)
    size = 400_000
    words = masking.mask_vector(np.zeros(size, dtype=np.int64), seeds[0], 0, everyone, RUN, 0)
    for at in (0, 3, 7):
        counts = np.bincount(words.view(np.uint8)[at::8], minlength=256)

        def law(tilt: Any) -> Any:
            weights = np.linspace(1.0, tilt, 256)
            return weights / weights.sum()

        chance.assert_fits(f"masked words, byte {at}", counts, law)


def test_a_masked_vector_does_not_follow_the_vector() -> None:
    seeds, everyone, _ = party(3, 1, 2)
    vector = np.arange(20_000, dtype=np.int64) << 40
    words = masking.mask_vector(vector, seeds[0], 0, everyone, RUN, 0)
    chance.assert_uncorrelated("masked words and vector", vector.astype(float), words.astype(float))


def test_shares_of_fewer_than_the_threshold_tell_nothing() -> None:
    """With a threshold of 2 one share is uniform whatever the secret; two give the secret back."""
    for secret in (bytes(32), b"\xff" * 32):
        top = np.array([int.from_bytes(shamir.split(secret, 3, 2)[1], "little") >> 513 for _ in range(4000)])
        for side, hits in (("low", int(np.sum(top < 128))), ("high", int(np.sum(top >= 128)))):
            # The wrong procedure: shares that are the secret itself all fall on one side.
            chance.assert_rate_at_most(f"{side} bytes of shares of {secret[0]}", hits, 4000, 0.5, 4000)
        shares = shamir.split(secret, 3, 2)
        for pair in itertools.combinations(range(3), 2):
            assert shamir.join({k: shares[k] for k in pair}) == secret
        assert shamir.join({0: shares[0]}) != secret


@given(st.binary(min_size=32, max_size=32), st.integers(1, 7), st.data())
def test_any_threshold_of_shares_gives_the_secret(secret: Any, n: int, data: Any) -> None:
    threshold = data.draw(st.integers(1, n))
    shares = shamir.split(secret, n, threshold)
    holders = data.draw(st.permutations(range(n)))[:threshold]
    assert shamir.join({k: shares[k] for k in holders}) == secret


def test_sharing_refuses_nonsense() -> None:
    with pytest.raises(InputError, match="threshold"):
        shamir.split(bytes(32), 3, 4)
    with pytest.raises(InputError, match="32 bytes"):
        shamir.split(b"short", 3, 2)


def test_a_false_share_is_found_out() -> None:
    n, threshold = 4, 3
    seeds, everyone, opened = party(n, 1, threshold)
    vectors = np.arange(20).reshape(n, 5)
    flags = np.array([True, True, True, False])
    masked = {k: masking.mask_vector(vectors[k], seeds[k], k, everyone, RUN, 0) for k in range(3)}
    shares = {k: cut(masking.reveal_shares(opened[k], flags, 0, 1).tobytes(), n) for k in range(n)}
    shares[0] = [bytes(shamir.SHARE)] * n
    assert np.array_equal(unmask_sum(masked, shares, everyone, threshold, RUN, 0), vectors[:3].sum(axis=0))
    del shares[3]
    with pytest.raises(AbandonedError, match="false shares"):
        unmask_sum(masked, shares, everyone, threshold, RUN, 0)


def test_shares_for_somebody_else_cannot_be_opened() -> None:
    seeds, everyone, _ = party(3, 1, 2)
    length = masking.sealed_length(1)
    sealed = [masking.seal_shares(s, me, everyone, RUN, 1, 2).tobytes() for me, s in enumerate(seeds)]
    mine = [s[0:length] for s in sealed]
    with pytest.raises(RefusedError, match="cannot be opened"):
        masking.open_shares(seeds[1], 1, everyone, RUN, mine)
    broken = [bytes([mine[1][0] ^ 1]) + mine[1][1:] if k == 1 else s for k, s in enumerate(mine)]
    with pytest.raises(RefusedError, match="cannot be opened"):
        masking.open_shares(seeds[0], 0, everyone, RUN, broken)


def test_keys_of_low_order_are_refused() -> None:
    with pytest.raises(RefusedError, match="not acceptable"):
        derive_shared_secret(secrets.token_bytes(32), bytes(32), "mask")


def test_masks_are_pinned() -> None:
    """The stream of a seed is AES-256-CTR from zero: parties of different versions must agree on it."""
    first = expand_mask(bytes(32), 2)
    assert first.view(np.uint8)[:4].tolist() == [0xDC, 0x95, 0xC0, 0x78]  # AES-256 of zeros under the zero key

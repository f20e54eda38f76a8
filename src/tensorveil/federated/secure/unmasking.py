"""The server's part of a secure sum: add up masked vectors, and remove the masks that did not cancel."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tensorveil.federated.errors import AbandonedError
from tensorveil.federated.secure import shamir
from tensorveil.federated.secure.masking import commit, read_round_keys
from tensorveil.federated.secure.masks import derive_public_key, expand_mask, sum_pair_masks

MOST_TRIES: Final = 1000


def unmask_sum(
    vectors: Mapping[int, NDArray[np.uint64]],
    shares: Mapping[int, Sequence[bytes]],
    everyone: Sequence[bytes],
    threshold: int,
    run: str,
    round_: int,
) -> NDArray[np.int64]:
    """Return the sum of the vectors behind the masks, as signed integers.

    ``shares[holder][client]`` is what a holder revealed about a client: a share of the seed of its own mask if it is
    among ``vectors``, else of its key for masks. Recovered secrets are checked against what clients published, so that
    a false share is detected, and set aside if there are enough others.
    """
    size = len(next(iter(vectors.values())))
    total = np.zeros(size, dtype=np.uint64)
    for client, vector in vectors.items():
        secret = _recover_secret(client, shares, threshold, commit, read_round_keys(everyone[client], round_)[1])
        total += vector - expand_mask(secret, size)
    present = {client: read_round_keys(everyone[client], round_)[0] for client in vectors}
    for client in range(len(everyone)):
        if client not in vectors:
            secret = _recover_secret(
                client, shares, threshold, derive_public_key, read_round_keys(everyone[client], round_)[0]
            )
            # The others' masks with this client did not cancel; its own masks are their negatives.
            total += sum_pair_masks(secret, client, present, run, round_, size)
    return total.view(np.int64)


def _recover_secret(
    client: int, shares: Mapping[int, Sequence[bytes]], threshold: int, image: Callable[[bytes], bytes], known: bytes
) -> bytes:
    """Recover a secret from any shares that yield one with the published image."""
    for holders in itertools.islice(itertools.combinations(sorted(shares), threshold), MOST_TRIES):
        secret = shamir.join({holder: shares[holder][client] for holder in holders})
        if secret is not None and image(secret) == known:
            return secret
    raise AbandonedError(
        "a mask could not be removed: too few clients answered, or some gave false shares. "
        "The sum is lost; start a new run with a new agreement."
    )

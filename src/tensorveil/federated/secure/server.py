"""The server's part of a secure sum: add up masked vectors, and take off the masks that did not cancel."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tensorveil.federated.errors import AbandonedError
from tensorveil.federated.secure import shamir
from tensorveil.federated.secure.client import commitment, round_keys
from tensorveil.federated.secure.masks import mask, pairwise, public_of

MOST_TRIES: Final = 1000


def unmasked_sum(
    vectors: Mapping[int, NDArray[np.uint64]],
    shares: Mapping[int, Sequence[bytes]],
    everyone: Sequence[bytes],
    threshold: int,
    run: str,
    round_: int,
) -> NDArray[np.int64]:
    """Give the sum of the vectors behind the masks, as signed integers.

    ``shares[holder][client]`` is what a holder revealed about a client: a share of its own mask's seed if it is among
    ``vectors``, else of its key for masks. What is put together is checked against what clients published, so that a
    false share is found out, and left aside if enough others are there.
    """
    size = len(next(iter(vectors.values())))
    total = np.zeros(size, dtype=np.uint64)
    for client, vector in vectors.items():
        secret = _joined(client, shares, threshold, commitment, round_keys(everyone[client], round_)[1])
        total += vector - mask(secret, size)
    present = {client: round_keys(everyone[client], round_)[0] for client in vectors}
    for client in range(len(everyone)):
        if client not in vectors:
            secret = _joined(client, shares, threshold, public_of, round_keys(everyone[client], round_)[0])
            # The others' masks with this client were left over; its own masks are their negatives.
            total += pairwise(secret, client, present, run, round_, size)
    return total.view(np.int64)


def _joined(
    client: int, shares: Mapping[int, Sequence[bytes]], threshold: int, image: Callable[[bytes], bytes], known: bytes
) -> bytes:
    """Put a secret together from any shares that give one with the image that was published."""
    for holders in itertools.islice(itertools.combinations(sorted(shares), threshold), MOST_TRIES):
        secret = shamir.join({holder: shares[holder][client] for holder in holders})
        if secret is not None and image(secret) == known:
            return secret
    raise AbandonedError(
        "a mask could not be taken off: too few clients answered, or some gave false shares. "
        "The sum is lost; start a new run with a new agreement."
    )

"""The client's part of a secure sum. Everything follows from one seed per run, which never leaves the client.

For every round a client has a key for masks with its peers (X25519) and a seed for its own mask. Shares of both are
spread over all clients, so that either one, but never both, can be recovered: the key of a client that dropped out, or
the seed of one that did not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray

from tensorveil.federated.errors import RefusedError
from tensorveil.federated.secure import shamir
from tensorveil.federated.secure.masks import (
    derive,
    derive_public_key,
    derive_shared_secret,
    expand_mask,
    sum_pair_masks,
)

Bytes = NDArray[np.uint8]

KEY: Final = 32
TAG: Final = 16  # bytes that sealing adds
PAIR: Final = 2 * shamir.SHARE


def published_length(rounds: int) -> int:
    """Return how many bytes a client publishes: a key for sealing shares, and per round a key and a commitment."""
    return KEY * (1 + 2 * rounds)


def sealed_length(rounds: int) -> int:
    """Return the number of bytes of the sealed shares for one peer."""
    return PAIR * rounds + TAG


def derive_mask_key(seed: bytes, run: str, round_: int) -> bytes:
    """Derive the secret key for masks with peers."""
    return derive(seed, "mask key", run, str(round_))


def derive_self_seed(seed: bytes, run: str, round_: int) -> bytes:
    """Derive the seed of the client's own mask."""
    return derive(seed, "self mask", run, str(round_))


def commit(secret: bytes) -> bytes:
    """Return a commitment that binds a client to a seed without revealing it."""
    return hashlib.sha256(b"tensorveil self mask" + secret).digest()


def publish_keys(seed: bytes, run: str, rounds: int) -> Bytes:
    """Return what a client publishes: public keys, and commitments to its own masks."""
    parts = [derive_public_key(derive(seed, "box", run))]
    for round_ in range(rounds):
        parts += [derive_public_key(derive_mask_key(seed, run, round_)), commit(derive_self_seed(seed, run, round_))]
    return np.frombuffer(b"".join(parts), dtype=np.uint8)


def read_box_key(published: bytes) -> bytes:
    """Read the key for sealing shares."""
    return published[:KEY]


def read_round_keys(published: bytes, round_: int) -> tuple[bytes, bytes]:
    """Read one round's public key for masks, and the commitment to the client's own mask."""
    at = KEY * (1 + 2 * round_)
    return published[at : at + KEY], published[at + KEY : at + 2 * KEY]


def seal_shares(seed: bytes, me: int, everyone: Sequence[bytes], run: str, rounds: int, threshold: int) -> Bytes:
    """Split all secrets of all rounds into shares, and seal each peer's for that peer alone."""
    n = len(everyone)
    plain: list[list[bytes]] = [[] for _ in range(n)]
    for round_ in range(rounds):
        for secret in (derive_mask_key(seed, run, round_), derive_self_seed(seed, run, round_)):
            for holder, share in enumerate(shamir.split(secret, n, threshold)):
                plain[holder].append(share)
    sealed = []
    for holder, shares in enumerate(plain):
        box = _box(seed, me, holder, me, everyone, run)
        sealed.append(box.encrypt(bytes(12), b"".join(shares), None))  # each key seals a single message
    return np.frombuffer(b"".join(sealed), dtype=np.uint8)


def open_shares(seed: bytes, me: int, everyone: Sequence[bytes], run: str, inbox: Sequence[bytes]) -> bytes:
    """Open the shares that every client sealed for this one, in order; refuse if any of them cannot be opened."""
    opened = open_each(seed, me, everyone, run, inbox)
    if any(shares is None for shares in opened):
        raise RefusedError("a peer's shares cannot be opened")
    return b"".join(shares for shares in opened if shares is not None)


def open_each(seed: bytes, me: int, everyone: Sequence[bytes], run: str, inbox: Sequence[bytes]) -> list[bytes | None]:
    """Open the shares that every client sealed for this one, in order; None where they cannot be opened."""
    opened: list[bytes | None] = []
    for sender, sealed in enumerate(inbox):
        try:
            opened.append(_box(seed, sender, me, me, everyone, run).decrypt(bytes(12), sealed, None))
        except InvalidTag:
            opened.append(None)
    return opened


def _box(seed: bytes, sender: int, receiver: int, me: int, everyone: Sequence[bytes], run: str) -> AESGCM:
    """Return the cipher from one client to another; the key depends on the direction."""
    peer = receiver if me == sender else sender
    secret = derive(seed, "box", run)
    return AESGCM(derive_shared_secret(secret, read_box_key(everyone[peer]), "box", run, str(sender), str(receiver)))


def mask_vector(
    vector: NDArray[np.int64], seed: bytes, me: int, everyone: Sequence[bytes], run: str, round_: int
) -> NDArray[np.uint64]:
    """Hide a vector behind the client's own mask and its masks with all peers, modulo 2**64.

    Guarantee: without both the seed of the own mask and all the pairwise ones, the result cannot be distinguished from
    uniform words (docs/how-to/federated.md#secure-aggregation).
    """
    publics = {peer: read_round_keys(text, round_)[0] for peer, text in enumerate(everyone) if peer != me}
    words = np.ascontiguousarray(vector, dtype=np.int64).view(np.uint64)
    own = expand_mask(derive_self_seed(seed, run, round_), len(words))
    return words + own + sum_pair_masks(derive_mask_key(seed, run, round_), me, publics, run, round_, len(words))


def reveal_shares(opened: bytes, present: NDArray[np.bool_], round_: int, rounds: int) -> Bytes:
    """Return one share per client: of the seed of its own mask if it is present, of its key for masks if it is not."""
    shares = []
    for client, here in enumerate(present.tolist()):
        at = (client * rounds + round_) * PAIR + (shamir.SHARE if here else 0)
        shares.append(opened[at : at + shamir.SHARE])
    return np.frombuffer(b"".join(shares), dtype=np.uint8)

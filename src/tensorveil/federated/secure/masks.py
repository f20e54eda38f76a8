"""Masks: uniform 64-bit words from a 32-byte seed, and the seeds that two clients share and nobody else knows."""

from __future__ import annotations

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from tensorveil.federated.errors import RefusedError

Words = NDArray[np.uint64]


def derive(secret: bytes, *purpose: str) -> bytes:
    """Derive 32 bytes for one purpose from a secret (HKDF, RFC 5869, with SHA-256)."""
    return HKDF(hashes.SHA256(), 32, salt=None, info="\0".join(("tensorveil", *purpose)).encode()).derive(secret)


def derive_public_key(secret: bytes) -> bytes:
    """Return the X25519 public key of a secret."""
    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def derive_shared_secret(secret: bytes, public: bytes, *purpose: str) -> bytes:
    """Return the secret that two holders of keys share, the same from either side (X25519, RFC 7748)."""
    try:
        shared = X25519PrivateKey.from_private_bytes(secret).exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:  # a point of low order, which no honest client publishes
        raise RefusedError("a public key is not acceptable") from None
    return derive(shared, *purpose)


def expand_mask(seed: bytes, size: int) -> Words:
    """Return ``size`` words that look uniform without the seed (AES-256 in counter mode)."""
    stream = Cipher(algorithms.AES256(seed), modes.CTR(bytes(16))).encryptor().update(bytes(8 * size))
    return np.frombuffer(stream, dtype="<u8").astype(np.uint64, copy=False)


def sum_pair_masks(secret: bytes, mine: int, publics: dict[int, bytes], run: str, round_: int, size: int) -> Words:
    """Return the sum of one client's masks with its peers: added for later peers, subtracted for earlier ones."""
    total = np.zeros(size, dtype=np.uint64)
    for other, public in publics.items():
        words = expand_mask(
            derive_shared_secret(secret, public, "mask", run, str(round_), *map(str, sorted((mine, other)))), size
        )
        total = total + words if other > mine else total - words
    return total

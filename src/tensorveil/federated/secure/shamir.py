"""Shamir's sharing of 32-byte secrets: any ``threshold`` shares recover the secret, fewer reveal nothing about it.

A secret is the value at 0 of a random polynomial over the integers modulo the prime 2^521 - 1; a share is its value at
1 + the holder's index.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Final

from tensorveil.errors import InputError

PRIME: Final = (1 << 521) - 1
SECRET: Final = 32  # bytes
SHARE: Final = 66  # bytes


def split(secret: bytes, holders: int, threshold: int) -> list[bytes]:
    """Split a secret into one share per holder."""
    if not 1 <= threshold <= holders:
        raise InputError(f"threshold must lie between 1 and the number of holders; got {threshold}.")
    if len(secret) != SECRET:
        raise InputError(f"secret must have {SECRET} bytes.")
    coefficients = [int.from_bytes(secret, "little"), *(secrets.randbelow(PRIME) for _ in range(threshold - 1))]
    return [_evaluate(coefficients, holder + 1).to_bytes(SHARE, "little") for holder in range(holders)]


def _evaluate(coefficients: list[int], x: int) -> int:
    total = 0
    for coefficient in reversed(coefficients):
        total = (total * x + coefficient) % PRIME
    return total


def join(shares: Mapping[int, bytes]) -> bytes | None:
    """Return the secret of these holders' shares, or None if they do not belong to a secret of the right length."""
    total = 0
    for holder, share in shares.items():
        weight, divisor = 1, 1
        for other in shares:
            if other != holder:
                weight = weight * (other + 1) % PRIME
                divisor = divisor * (other - holder) % PRIME
        total += int.from_bytes(share, "little") * weight * pow(divisor, -1, PRIME)
    secret = total % PRIME
    return secret.to_bytes(SECRET, "little") if secret < 1 << (8 * SECRET) else None

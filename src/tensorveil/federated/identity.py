"""Who is who: long-term Ed25519 keys. A secret key is one file that only its owner can read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tensorveil.errors import InputError

KEY: Final = "identity.key"

__all__ = ["load_identity", "make_identity", "normal_key", "public_hex", "public_key"]


def make_identity(home: Path) -> Ed25519PrivateKey:
    """Make a new identity in a party's home folder; an existing identity is kept."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = home / KEY
    key = Ed25519PrivateKey.generate()
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return load_identity(home)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(key.private_bytes_raw().hex() + "\n")
        file.flush()
        os.fsync(file.fileno())
    return key


def load_identity(home: Path) -> Ed25519PrivateKey:
    """Read the identity of a home folder."""
    path = home / KEY
    if not path.is_file():
        raise InputError(f"there is no identity in {home}. Make one with: tensorveil federate keys {home}")
    try:
        return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(path.read_text(encoding="ascii").strip()))
    except ValueError:
        raise InputError(f"{path} does not hold an identity. Was it written by this program?") from None


def public_hex(key: Ed25519PrivateKey) -> str:
    """Return the public half of an identity as text, to hand to others."""
    return key.public_key().public_bytes_raw().hex()


def public_key(text: str) -> Ed25519PublicKey:
    """Read what `public_hex` returned."""
    try:
        if not isinstance(text, str) or len(text) != 64:
            raise ValueError
        return Ed25519PublicKey.from_public_bytes(bytes.fromhex(text))
    except ValueError:
        raise InputError("a public key is 64 hexadecimal digits. Take it from: tensorveil federate keys") from None


def normal_key(text: str) -> str:
    """Return the one spelling of a public key."""
    return public_key(text).public_bytes_raw().hex()

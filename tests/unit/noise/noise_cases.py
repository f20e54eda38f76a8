"""Sources with chosen words, and the answers of the samplers at high precision."""

from typing import Any, NoReturn

import mpmath
import numpy as np

from tensorveil.noise import SeededSource

mpmath_digits = 120


class ChosenSource:
    """Hands out chosen words first, then a seeded stream; remembers how many words were asked for."""

    secure = False

    def __init__(self, words: Any, seed: int = 0) -> None:
        self.words = [int(w) for w in words]
        self.rest = SeededSource(seed)
        self.drawn = 0

    def uniform64(self, n: int) -> Any:
        self.drawn += n
        head, self.words = self.words[:n], self.words[n:]
        return np.concatenate([np.array(head, dtype=np.uint64), self.rest.uniform64(n - len(head))])

    def bytes(self, n: int) -> NoReturn:
        raise NotImplementedError


def real_from(words: Any, first_bits: Any) -> Any:
    """The middle of the reals that begin with these words (the first cut to its uniform's bits)."""
    value, bits = words[0], first_bits
    for word in words[1:]:
        value, bits = value << 64 | word, bits + 64
    return (mpmath.mpf(value) + 0.5) / mpmath.mpf(2) ** bits


def exact_laplace(u: Any, scale: Any) -> Any:
    s = mpmath.mpf(scale.numerator) / scale.denominator
    return int(mpmath.floor(s * (mpmath.log(2 / (1 + mpmath.exp(-1 / s))) - mpmath.log(u))))


def laplace_threshold(m: Any, scale: Any) -> Any:
    """P(|k| >= m)."""
    s = mpmath.mpf(scale.numerator) / scale.denominator
    return 2 * mpmath.exp(-m / s) / (1 + mpmath.exp(-1 / s))


def bits_of(u: Any, first_bits: Any, words: Any) -> Any:
    """The first bits of a real in [0, 1), then so many words of the bits that follow."""
    out, rest = [], u
    for bits in [first_bits] + [64] * words:
        scaled = rest * mpmath.mpf(2) ** bits
        out.append(int(mpmath.floor(scaled)))
        rest = scaled - out[-1]
    return out

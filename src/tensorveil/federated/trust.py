"""Who is trusted with what, and how much noise each party adds. Guarantees: docs/guarantees.md#federated."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from tensorveil.errors import InputError
from tensorveil.noise import sqrt_up
from tensorveil.privacy import Gaussian, epsilon_for, gaussian_mu
from tensorveil.privacy.exact import at_least, exactly, root_at_least, root_at_most
from tensorveil.rounds import Round

__all__ = ["Trust", "charged_mu", "part_deviation", "plan_epsilon"]

KINDS: Final = ("aggregator", "secure", "local")
# Sums of rounded Gaussians are not rounded Gaussians; this much more noise covers the difference many times over.
ALLOWANCE: Final = 1 + Fraction(1, 1 << 20)
LEAST_PART: Final = 16  # steps
LARGEST_MU: Final = 16


@dataclass(frozen=True, kw_only=True)
class Trust:
    """A trust model, chosen by name; docs/how-to/federated.md says what each protects against.

    Parameters
    ----------
    kind
        "aggregator" (the server sees each client's sums and adds the noise), "secure" (nobody sees one client's sums;
        clients add parts of the noise) or "local" (nobody is trusted; each client adds all of the noise).
    clients
        The number of clients.
    colluding
        In "secure", how many clients may work together, with the server or without it. Any one client that keeps to
        itself but reads what it is sent is expected anyway.
    drop_outs
        In "secure", how many clients may be missing from a round.
    noise
        False adds no noise at all, for comparisons; then nothing is private.

    Examples
    --------
    >>> Trust(kind="secure", clients=5, colluding=0, drop_outs=1).counted
    3
    """

    kind: str
    clients: int
    colluding: int = 0
    drop_outs: int = 0
    noise: bool = True

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(f"kind must be one of {', '.join(KINDS)}; got {self.kind!r}. Try kind='secure'.")
        for name, least in (("clients", 1), ("colluding", 0), ("drop_outs", 0)):
            number = getattr(self, name)
            if type(number) is not int or not least <= number <= 10_000:
                raise InputError(f"{name} must be an integer of at least {least}; got {number!r}.")
        if not isinstance(self.noise, bool):
            raise InputError("noise must be True or False.")
        if self.kind != "secure":
            if self.colluding or self.drop_outs:
                raise InputError("colluding and drop_outs are declared for kind='secure' only; leave them out.")
        elif self.clients < 2 or self.colluding >= self.clients:
            raise InputError("secure sums need at least 2 clients, and more clients than are colluding.")
        elif not 2 * self.threshold > self.clients + self.colluding:
            raise InputError(
                "too many drop_outs: secure sums need clients > 2 drop_outs + colluding; got "
                f"clients={self.clients}, drop_outs={self.drop_outs}, colluding={self.colluding}. Declare fewer."
            )

    @property
    def threshold(self) -> int:
        """How many shares recover a secret, and how many clients must answer: all but the drop-outs."""
        return self.clients - self.drop_outs

    @property
    def counted(self) -> int:
        """How many parts of the noise are in every sum and unknown to whoever the guarantee holds against.

        A client knows its own part. So there are two views, and the one with fewer unknown parts counts: that of the
        server, which may lie about drop-outs, with the colluding clients; and that of clients without the server.
        """
        if self.kind != "secure":
            return 1
        honest = self.clients - self.colluding
        # docs/guarantees.md#secure-aggregation: a lying server can leave out this many honest clients, and no more.
        to_server = honest - honest * self.drop_outs // (self.threshold - self.colluding)
        to_clients = self.threshold - max(self.colluding, 1)
        return min(to_server, to_clients)

    @property
    def against(self) -> str:
        """Whom the guarantee holds against, in words."""
        if self.kind == "aggregator":
            return "everyone except the server, which sees each client's sums and adds the noise"
        if self.kind == "local":
            return "the server and all other clients together"
        if not self.colluding:
            return "the server, and any one other client, but not both together"
        others = "1 other client" if self.colluding == 1 else f"{self.colluding} other clients"
        return f"the server together with up to {others}"

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "kind": self.kind,
            "clients": self.clients,
            "colluding": self.colluding,
            "drop_outs": self.drop_outs,
            "noise": self.noise,
        }

    @classmethod
    def from_json(cls, content: Any) -> Trust:
        """Read what `to_json` wrote."""
        if not isinstance(content, dict) or set(content) != {"kind", "clients", "colluding", "drop_outs", "noise"}:
            raise InputError("the trust model is not described as expected. Was it written by this program?")
        return cls(**content)


def part_deviation(this: Round, trust: Trust) -> Fraction:
    """Return the deviation, in grid steps, of each client's noise; together they make up the noise of the recipe.

    Guarantee: with `charged_mu`, docs/guarantees.md#parts-of-noise.
    """
    total = Fraction(this.limit) / exactly(this.mu)
    return sqrt_up(total**2 / trust.clients)


def charged_mu(this: Round, trust: Trust) -> float:
    """Return what a round costs: mu of the noise that can be counted on, rounded up.

    The recipe's mu is that of the noise on the total when all clients are present. A trust model in which nobody is
    trusted, or some clients may be missing, can count on less noise than that, and pays for it.
    """
    if trust.kind == "aggregator":
        return this.mu
    part = part_deviation(this, trust)
    if trust.counted == 1:
        return at_least(this.limit / part)  # one rounded Gaussian is enough, exactly
    exact = (this.limit / part) ** 2 / trust.counted * ALLOWANCE**2
    mu = root_at_least(exact)
    if part < LEAST_PART or mu > LARGEST_MU:
        raise InputError(
            f"parts of noise must be at least {LEAST_PART} grid steps wide and mu at most {LARGEST_MU}. "
            "Use a finer grid or a smaller epsilon."
        )
    return mu


def plan_epsilon(epsilon: float, delta: float, trust: Trust) -> float:
    """Return the epsilon for which a recipe must be made so that, under this trust model, ``epsilon`` is promised.

    Examples
    --------
    >>> plan_epsilon(1.0, 1e-5, Trust(kind="aggregator", clients=3))
    1.0
    """
    if trust.kind == "aggregator" or not trust.noise:
        return epsilon
    mu = exactly(gaussian_mu(epsilon, delta)) / ALLOWANCE**2
    planned = root_at_most(mu**2 * trust.counted / trust.clients)
    return epsilon_for(Gaussian(planned), delta)

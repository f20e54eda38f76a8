"""The agreement: what is computed, under which trust model, by whom. Every party got the same file by a safe channel.

No fact about a run is ever taken from the network: messages carry the agreement's digest, and parties follow nothing
else. An agreement is good for one run; another run spends budget again, and needs an agreement of its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from tensorveil.errors import InputError
from tensorveil.federated.identity import normal_key
from tensorveil.federated.recipes import RoundsRecipe, make_recipe, name_of
from tensorveil.federated.trust import Trust, charged_mu
from tensorveil.privacy import Composed, Event, Gaussian, Unit, epsilon_for
from tensorveil.privacy.delta import check_delta
from tensorveil.tensor.files.atomic import replace_file

__all__ = ["Agreement"]

FORMAT: Final = 1
FIELDS: Final = {"format", "nonce", "recipe_kind", "recipe", "trust", "epsilon", "server", "clients"}
LONGEST: Final = 1 << 20
LARGEST_SUM: Final = 1 << 62


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """What all parties of one run agree on; all of it is public.

    Parameters
    ----------
    recipe
        The rounds to run.
    trust
        Who is trusted with what.
    epsilon
        The promise under this trust model, at the recipe's delta.
    server, clients
        Public keys, as `tensorveil federate keys` prints them.
    nonce
        A random text that makes agreements with the same content different.
    """

    recipe: RoundsRecipe
    trust: Trust
    epsilon: float
    server: str
    clients: tuple[str, ...]
    nonce: str

    def __post_init__(self) -> None:
        # One spelling per key: the same key in capitals would be a further client, and a further part of the noise.
        object.__setattr__(self, "server", normal_key(self.server))
        object.__setattr__(self, "clients", tuple(normal_key(key) for key in self.clients))
        if len(self.clients) != self.trust.clients:
            raise InputError(f"clients must be {self.trust.clients} public keys, as the trust model declares.")
        if len({self.server, *self.clients}) != 1 + len(self.clients):
            raise InputError("every party must have its own key; two are the same.")
        if any(this.largest * self.recipe.most_users >= LARGEST_SUM for this in self.recipe.rounds):
            raise InputError("sums over so many users might not fit into 64 bits. Use a coarser grid.")
        if self.trust.noise and not epsilon_for(self.event, self.recipe.delta) <= self.epsilon:
            raise InputError(
                "the rounds cost more than the epsilon that the agreement promises. Make the agreement with agree()."
            )
        if not isinstance(self.nonce, str) or len(self.nonce) != 32:
            raise InputError("nonce must be 32 hexadecimal digits. Leave it to Agreement.make.")

    @classmethod
    def make(
        cls,
        *,
        recipe: RoundsRecipe,
        trust: Trust,
        epsilon: float,
        server: str,
        clients: tuple[str, ...],
        accept_delta: bool = False,
    ) -> Agreement:
        """Make a new agreement; ``accept_delta`` insists on a delta that promises next to nothing."""
        if trust.noise:
            check_delta(recipe.delta, Unit.slice(recipe.protect), among=recipe.most_users, accepted=accept_delta)
        return cls(
            recipe=recipe, trust=trust, epsilon=epsilon, server=server, clients=clients, nonce=secrets.token_hex(16)
        )

    @cached_property
    def event(self) -> Event:
        """Everything that the run will spend."""
        return Composed(Gaussian(charged_mu(this, self.trust)) for this in self.recipe.rounds)

    @cached_property
    def digest(self) -> str:
        """The digest by which messages refer to this agreement."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()

    @property
    def longest_message(self) -> int:
        """The number of bytes that no honest message of this run exceeds."""
        rounds, n = self.recipe.rounds, self.trust.clients
        numbers = 8 * max(this.size for this in rounds)
        keys = n * (200 + 160 * len(rounds)) * 2
        return 64 * 1024 + 64 * numbers + keys * (1 if self.trust.kind == "secure" else 0)

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "format": FORMAT,
            "nonce": self.nonce,
            "recipe_kind": name_of(self.recipe),
            "recipe": self.recipe.to_json(),
            "trust": self.trust.to_json(),
            "epsilon": self.epsilon,
            "server": self.server,
            "clients": list(self.clients),
        }

    @classmethod
    def from_json(cls, content: Any) -> Agreement:
        """Read what `to_json` wrote; anything missing or unknown is refused."""
        if not isinstance(content, dict) or set(content) != FIELDS or content["format"] != FORMAT:
            raise InputError(
                "the agreement must have the fields that to_json writes, no more and no fewer. "
                "Use the same version of tensorveil everywhere."
            )
        if not isinstance(content["clients"], list) or not isinstance(content["epsilon"], int | float):
            raise InputError("a field of the agreement has the wrong type. Was it written by this program?")
        return cls(
            recipe=make_recipe(content["recipe_kind"], content["recipe"]),
            trust=Trust.from_json(content["trust"]),
            epsilon=float(content["epsilon"]),
            server=content["server"],
            clients=tuple(content["clients"]),
            nonce=content["nonce"],
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file that all parties receive."""
        with replace_file(Path(path)) as temporary:
            temporary.write_text(json.dumps(self.to_json(), indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Agreement:
        """Read the file."""
        place = Path(path)
        if not place.is_file():
            raise InputError(f"there is no agreement at {place}. Make one with: tensorveil federate agree")
        try:
            if place.stat().st_size > LONGEST:
                raise ValueError
            return cls.from_json(json.loads(place.read_text(encoding="utf-8")))
        except InputError:
            raise
        except Exception:  # whatever a file leads to
            raise InputError(f"{place} is not an agreement. Was it written by this program?") from None

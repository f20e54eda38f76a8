"""Federated runs: keys, agreements, servers, clients. The release is written as any other."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensorveil.completion.charging import tell_charges
from tensorveil.errors import InputError
from tensorveil.federated.agreement import Agreement
from tensorveil.federated.client import Client
from tensorveil.federated.errors import AbandonedError, RefusedError
from tensorveil.federated.flower.processes import Channel
from tensorveil.federated.guarantee import guarantee_of
from tensorveil.federated.home import Home
from tensorveil.federated.identity import load_identity, make_identity, public_hex
from tensorveil.federated.server import Incident, Outcome, Settings
from tensorveil.federated.setup import agree
from tensorveil.federated.trust import Trust
from tensorveil.markup import clean
from tensorveil.privacy import Guarantee, Ledger, NonPrivate, Unit
from tensorveil.release.folder import write_folder
from tensorveil.release.release import fill_release, note_release
from tensorveil.rounds import Recipe
from tensorveil.runs.reading import Reading, read_privately
from tensorveil.tensor import ObservedTensor

__all__ = [
    "Agreed",
    "AgreementRun",
    "ClientRun",
    "FederatedRelease",
    "Promise",
    "ServerRun",
    "TookPart",
    "make_agreement",
    "make_key",
    "read_group",
    "release_reserved",
    "serve_agreement",
    "take_part",
]

logger = logging.getLogger("tensorveil.federated")
SERVED = "served"


@dataclass(frozen=True, kw_only=True)
class Promise:
    """What a federated run computes and promises, and who is trusted with what.

    Parameters
    ----------
    epsilon, delta
        What is promised for all that one user contributed.
    bounds
        Where values can lie.
    trust
        "aggregator", "secure" or "local"; see `tensorveil.federated.trust.Trust`, also for ``colluding``,
        ``drop_outs`` and ``noise``.
    protect
        The mode whose slices are protected.
    model, rank, sweeps
        The form of the model: "cp" or "tucker"; None leaves rank and sweeps to the recipe.
    accept_delta
        Whether to insist on a delta that promises next to nothing.
    """

    epsilon: float
    delta: float
    bounds: tuple[float, float]
    trust: str
    colluding: int = 0
    drop_outs: int = 0
    noise: bool = True
    protect: str = "user"
    model: str = "cp"
    rank: Any = None
    sweeps: int | None = None
    accept_delta: bool = False


@dataclass(frozen=True, kw_only=True)
class AgreementRun:
    """The agreement that is to be written: what is promised, on which tensor, between whom."""

    promise: Promise
    server_key: str
    client_keys: tuple[str, ...]
    shape: tuple[int, ...]
    modes: tuple[str, ...]
    output: Path


@dataclass(frozen=True, kw_only=True)
class Agreed:
    """An agreement that was written, and what it promises."""

    output: Path
    agreement: Agreement
    guarantee: Guarantee


@dataclass(frozen=True, kw_only=True)
class ServerRun:
    """The server of an agreement.

    Parameters
    ----------
    agreement
        The agreement's file.
    home
        The folder with the server's identity; the log goes there.
    channel
        Where to listen, and the certificates.
    output
        The release folder to make.
    ledger
        The ledger to charge; None for local trust, where every client has its own.
    settings
        How long to wait for clients and answers.
    """

    agreement: Path
    home: Path
    channel: Channel
    output: Path
    ledger: Path | None = None
    settings: Settings


@dataclass(frozen=True, kw_only=True)
class ClientRun:
    """A client of an agreement: its users, its home folder, where the server is, and its own ledger if it has one.

    With ``noise_off`` it takes part in a run without noise, which protects nobody.
    """

    agreement: Path
    reading: Reading
    home: Path
    channel: Channel
    ledger: Path | None = None
    noise_off: bool = False


@dataclass(frozen=True, kw_only=True)
class TookPart:
    """How a client's part in a run ended.

    Parameters
    ----------
    agreement
        The digest of the agreement.
    finished
        Whether this client has answered the last question of the run.
    completed
        Whether the server has said that the run was completed. It says so to clients that did not answer the last
        question; the others see only that it leaves.
    log
        The client's log.
    """

    agreement: str
    finished: bool
    completed: bool
    log: Path


@dataclass(frozen=True, kw_only=True, eq=False)
class FederatedRelease:
    """What a federated run left, all of it public but ``diagnostics``, which only simulations have."""

    output: Path
    trust: Trust
    rounds: tuple[str, ...]
    guarantee: Guarantee
    ledger: Path | None
    release_id: str
    missing: Mapping[str, tuple[int, ...]]
    incidents: tuple[Incident, ...]
    log: Path
    diagnostics: Mapping[str, float] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the facts as plain data."""
        return {
            "output": str(self.output),
            "trust": self.trust.to_json(),
            "against": self.trust.against,
            "rounds": list(self.rounds),
            "guarantee": self.guarantee.to_json(),
            "ledger": None if self.ledger is None else str(self.ledger),
            "release_id": self.release_id,
            "missing": {name: list(clients) for name, clients in self.missing.items()},
            "incidents": [vars(incident) for incident in self.incidents],
            "log": str(self.log),
            **({} if self.diagnostics is None else {"diagnostics": dict(self.diagnostics)}),
        }

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> FederatedRelease:
        """Read what `to_json` wrote."""
        return cls(
            output=Path(facts["output"]),
            trust=Trust.from_json(facts["trust"]),
            rounds=tuple(facts["rounds"]),
            guarantee=Guarantee.from_json(facts["guarantee"]),
            ledger=None if facts["ledger"] is None else Path(facts["ledger"]),
            release_id=facts["release_id"],
            missing={name: tuple(clients) for name, clients in facts["missing"].items()},
            incidents=tuple(Incident(**incident) for incident in facts["incidents"]),
            log=Path(facts["log"]),
            diagnostics=facts.get("diagnostics"),
        )


def make_key(home: Path) -> str:
    """Make an identity in a home folder, if there is none, and return its public key."""
    return public_hex(make_identity(home))


def make_agreement(run: AgreementRun) -> Agreed:
    """Write an agreement, and return what it promises."""
    agreement = agree_on(run.promise, run.server_key, run.client_keys, shape=run.shape, modes=run.modes)
    if run.output.exists():
        raise InputError(f"output: {run.output} exists already. Choose another name.")
    agreement.save(run.output)
    return Agreed(output=run.output, agreement=agreement, guarantee=guarantee_of(agreement, secure_noise=True))


def agree_on(
    promise: Promise, server: str, clients: tuple[str, ...], *, shape: tuple[int, ...], modes: tuple[str, ...]
) -> Agreement:
    """Return the agreement that keeps a promise."""
    trust = Trust(
        kind=promise.trust,
        clients=len(clients),
        colluding=promise.colluding,
        drop_outs=promise.drop_outs,
        noise=promise.noise,
    )
    form = {"kind": promise.model, "rank": promise.rank, "sweeps": promise.sweeps}
    return agree(
        trust=trust,
        epsilon=promise.epsilon,
        delta=promise.delta,
        server=server,
        clients=clients,
        shape=shape,
        modes=modes,
        protect=promise.protect,
        bounds=promise.bounds,
        accept_delta=promise.accept_delta,
        **{name: setting for name, setting in form.items() if setting is not None},
    )


def serve_agreement(run: ServerRun) -> FederatedRelease:
    """Serve an agreement and write its release.

    Guarantee: the agreement's (docs/guarantees.md#federated).
    """
    agreement = Agreement.load(run.agreement)
    key = load_identity(run.home)
    memory = Home.of(run.home, agreement.digest)
    check_unused(memory, run.ledger)
    from tensorveil.federated.flower.server_app import serve

    with release_reserved(run.output, run.ledger) as release, keep_log(run.home) as log:
        outcome = serve(
            run.channel,
            run.home,
            agreement=agreement,
            key=key,
            ledger=run.ledger,
            settings=run.settings,
            progress=log_rounds(),
            begin=lambda release_id: memory.keep(SERVED, release_id.encode()),
        )
        release(outcome)
    return gather_facts(agreement, outcome, run.output, log)


def check_unused(memory: Home, ledger: Path | None) -> None:
    """Refuse an agreement that an earlier run of this server has used up, and say what was charged for it.

    Its clients answer no other run. One that ended before the charge, which comes before any question about data, does
    not count.
    """
    try:
        name = memory.recall(SERVED).decode("ascii")
    except (RefusedError, UnicodeDecodeError):
        return
    charged = None if ledger is None else Ledger.open(ledger).has(name)
    if charged is False:
        return
    stands = "its charge stands" if charged is None else f"charge {name} in {ledger} stands"
    raise AbandonedError(
        f"an earlier run of this server has used the agreement, and clients answer no second one: {stands}, if one was "
        "made. If that run left no release, none can be made from this agreement. Make a new one."
    )


def take_part(run: ClientRun) -> TookPart:
    """Answer a server until the run is over. One that is over already, as for a client that comes back late, is told.

    Guarantee: the agreement's (docs/guarantees.md#federated).
    """
    agreement = Agreement.load(run.agreement)
    load_identity(run.home)
    if run.noise_off and agreement.trust.noise:
        raise InputError("noise_off: the agreement adds noise. Leave it out.")
    data = read_group(agreement, run.reading)
    from tensorveil.federated.flower.client_app import work

    client = Client(agreement=agreement, home=run.home, data=lambda: data, ledger=run.ledger, not_private=run.noise_off)
    with keep_log(run.home) as log, tell_charges(run.ledger, lambda: client.release_id):
        if not (client.finished or client.told):
            logger.info("%s", guarantee_of(agreement, secure_noise=True))
            try:
                work(client, run.channel, run.home, on_answer=lambda kind: logger.info("answered: %s", kind))
            except AbandonedError:
                client.forget()
                raise
        if client.told == "abandoned":
            raise AbandonedError(
                "the server has abandoned the run; its log says why. There is no release, what was charged stays "
                "charged, and this agreement is used up. For a new run make a new one."
            )
    return TookPart(agreement=agreement.digest, finished=client.finished, completed=client.told == "completed", log=log)


def read_group(agreement: Agreement, reading: Reading) -> ObservedTensor:
    """Read a client's users by the gate's rules: no row keeps the others from being read."""
    recipe = agreement.recipe
    if not isinstance(recipe, Recipe):
        raise InputError("the agreement is about something else than completion. Take part from Python: Client.")
    return read_privately(reading, Unit.slice(recipe.protect), recipe.bounds, recipe.shape)


@contextlib.contextmanager
def release_reserved(folder: Path, ledger: Path | None) -> Iterator[Callable[[Outcome], None]]:
    """Reserve a release folder before a run begins; yield the function that releases its outcome there.

    A run that was agreed on without noise is marked as not private.

    Guarantee: the outcome's (docs/guarantees.md#federated).
    """
    found: list[Outcome] = []

    def fill(outcome: Outcome) -> None:
        found.append(outcome)
        agreed_openly = isinstance(outcome.guarantee_.event, NonPrivate)
        fill_release(staging, outcome, allow_not_private=agreed_openly)

    with tell_charges(ledger, lambda: found[0].release_id if found else None):
        with write_folder(folder) as staging:
            yield fill
        if found:
            note_release(found[0], folder)


def gather_facts(agreement: Agreement, outcome: Outcome, output: Path, log: Path) -> FederatedRelease:
    """Return what there is to say about a run."""
    return FederatedRelease(
        output=output,
        trust=agreement.trust,
        rounds=tuple(this.name for this in agreement.recipe.rounds),
        guarantee=outcome.guarantee_,
        ledger=outcome.ledger,
        release_id=outcome.release_id,
        missing=outcome.missing,
        incidents=outcome.incidents,
        log=log,
    )


class _Layout(logging.Formatter):
    """Lines in which names from an agreement or a message do nothing to the terminal that shows them."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        return clean(super().format(record))


@contextlib.contextmanager
def keep_log(home: Path) -> Iterator[Path]:
    """Write what happens to the party's log and to stderr; none of it quotes data."""
    path = home / "run.log"
    layout = _Layout("%(asctime)s %(levelname)s %(message)s")
    handlers = (logging.FileHandler(path, encoding="utf-8"), logging.StreamHandler(sys.stderr))
    before = logger.level, logger.propagate
    logger.setLevel(logging.INFO)
    logger.propagate = False
    for handler in handlers:
        handler.setFormatter(layout)
        logger.addHandler(handler)
    try:
        yield path
    finally:
        logger.setLevel(before[0])
        logger.propagate = before[1]
        for handler in handlers:
            logger.removeHandler(handler)
            handler.close()


def log_rounds() -> Callable[[int, int, str], None]:
    """Return a callback that logs each step of a run."""
    return lambda done, total, text: logger.info("round %d of %d: %s", min(done + 1, total), total, text)

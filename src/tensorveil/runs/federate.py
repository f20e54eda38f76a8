"""The work behind `tensorveil federate`: keys, agreements, servers, clients."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from tensorveil.cli.common import State, console, print_json
from tensorveil.errors import InputError
from tensorveil.federated.agreement import Agreement
from tensorveil.federated.client import Client
from tensorveil.federated.flower.processes import Channel
from tensorveil.federated.guarantee import guarantee_of
from tensorveil.federated.identity import load_identity, make_identity, public_hex
from tensorveil.federated.release import release
from tensorveil.federated.server import Outcome, Settings
from tensorveil.federated.setup import agree
from tensorveil.federated.trust import Trust
from tensorveil.release.release import check_new_folder
from tensorveil.runs.reading import read_tensor
from tensorveil.tensor import ObservedTensor

READING = ("modes", "value", "file_format", "indices", "no_header", "variable")


def show_keys(home: Path, as_json: bool) -> None:
    """Print the public key of a home folder."""
    key = public_hex(make_identity(home))
    if as_json:
        print_json({"home": str(home), "public_key": key})
    else:
        click.echo(key)


def trust_of(options: dict[str, Any], clients: int) -> Trust:
    """Read the trust model off the options."""
    return Trust(
        kind=options["trust"],
        clients=clients,
        colluding=options["colluding"],
        drop_outs=options["drop_outs"],
        noise=not options["noise_off"],
    )


def recipe_options(options: dict[str, Any]) -> dict[str, Any]:
    """Read the recipe's parameters off the options; what was not given is left to the recipe."""
    given = {"kind": options["model"], "rank": options["rank"], "sweeps": options["sweeps"]}
    return {
        "protect": options["protect"],
        "bounds": options["bounds"],
        **{name: setting for name, setting in given.items() if setting is not None},
    }


def write_agreement(as_json: bool, **options: Any) -> None:
    """Make and write an agreement, and say what it promises."""
    made = agree(
        trust=trust_of(options, len(options["client_keys"])),
        epsilon=options["epsilon"],
        delta=options["delta"],
        server=options["server_key"],
        clients=options["client_keys"],
        shape=options["shape"],
        modes=tuple(options["modes"]),
        **recipe_options(options),
    )
    if options["output"].exists():
        raise InputError(f"--output: {options['output']} exists already. Choose another name.")
    made.save(options["output"])
    sentence = guarantee_of(made, secure_noise=True).sentence()
    if as_json:
        print_json({"agreement": str(options["output"]), "digest": made.digest, "guarantee": sentence})
        return
    click.echo(f"{options['output']}: {len(made.recipe.rounds)} rounds, digest {made.digest[:16]}")
    click.echo(sentence)


@contextlib.contextmanager
def kept_log(home: Path) -> Iterator[Path]:
    """Write what happens to the party's log and to stderr; none of it quotes data."""
    path = home / "run.log"
    log = logging.getLogger("tensorveil.federated")
    layout = logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    handlers = (logging.FileHandler(path, encoding="utf-8"), logging.StreamHandler(sys.stderr))
    before = log.level, log.propagate
    log.setLevel(logging.INFO)
    log.propagate = False
    for handler in handlers:
        handler.setFormatter(layout)
        log.addHandler(handler)
    try:
        yield path
    finally:
        log.setLevel(before[0])
        log.propagate = before[1]
        for handler in handlers:
            log.removeHandler(handler)
            handler.close()


def mark_private() -> None:
    """Keep texts of foreign errors, which may quote data, from being shown."""
    state = click.get_current_context().obj
    if isinstance(state, State):
        state.private = True


def round_progress() -> Callable[[int, int, str], None]:
    """Give a callback that logs each step of a run."""
    log = logging.getLogger("tensorveil.federated")
    return lambda done, total, text: log.info("round %d of %d: %s", min(done + 1, total), total, text)


def run_as_server(as_json: bool, **options: Any) -> None:
    """Serve an agreement and write its release."""
    mark_private()
    check_new_folder(options["output"])
    agreement, home = Agreement.load(options["agreement"]), options["home"]
    key = load_identity(home)
    channel = Channel(
        address=options["listen"], ca=options["ca"], certificate=options["certificate"], key=options["key"]
    )
    from tensorveil.federated.flower.server_app import serve

    with kept_log(home) as log:
        outcome = serve(
            channel,
            home,
            agreement=agreement,
            key=key,
            ledger=options["ledger"],
            settings=Settings(patience=options["patience"], timeout=options["timeout"]),
            progress=round_progress(),
        )
        release(outcome, options["output"], ledger=options["ledger"])
    show_outcome(facts_of(agreement, outcome, options, log), as_json=as_json)


def run_as_client(as_json: bool, **options: Any) -> None:
    """Answer a server until the run is over."""
    mark_private()
    agreement, home = Agreement.load(options["agreement"]), options["home"]
    load_identity(home)
    data = read_group(agreement, options)
    from tensorveil.federated.flower.client_app import work

    client = Client(agreement=agreement, home=home, data=lambda: data, ledger=options["ledger"])
    logger = logging.getLogger("tensorveil.federated")
    channel = Channel(address=options["server_address"], ca=options["ca"])
    with kept_log(home) as log:
        logger.info("%s", guarantee_of(agreement, secure_noise=True))
        work(client, channel, home, on_answer=lambda kind: logger.info("answered: %s", kind))
    if as_json:
        print_json({"agreement": agreement.digest, "finished": client.finished, "log": str(log)})
    else:
        click.echo("The run is over.")


def read_group(agreement: Agreement, options: dict[str, Any]) -> ObservedTensor:
    """Read a client's users. Labels would be numbered by what occurs, so released modes must hold indices."""
    reading = {name: options[name] for name in READING}
    shape = getattr(agreement.recipe, "shape", None)
    tensor = read_tensor(str(options["file"]), **reading, shape=shape)
    if any(mode.labels is not None for mode in tensor.modes):
        raise InputError("FILE must hold indices that all parties number alike, not labels. Add --indices.")
    return tensor


def facts_of(agreement: Agreement, outcome: Outcome, options: dict[str, Any], log: Path) -> dict[str, Any]:
    """Give what --json says of a run: all public."""
    return {
        "output": str(options["output"]),
        "trust": agreement.trust.to_json(),
        "rounds": [this.name for this in agreement.recipe.rounds],
        "guarantee": outcome.guarantee.to_json(),
        "ledger": None if options["ledger"] is None else str(options["ledger"]),
        "release_id": outcome.release_id,
        "missing": {name: list(clients) for name, clients in outcome.missing.items()},
        "incidents": [vars(incident) for incident in outcome.incidents],
        "log": str(log),
    }


def show_outcome(facts: dict[str, Any], *, as_json: bool) -> None:
    """Say what was promised, and what happened on the way."""
    if as_json:
        print_json(facts)
        return
    from rich.markup import escape
    from rich.table import Table

    out = console()
    out.print(f"[bold]{escape(facts['guarantee']['sentence'])}[/bold]")
    table = Table(show_header=False)
    table.add_row("trust", facts["guarantee"]["mechanism"])
    table.add_row("rounds", ", ".join(facts["rounds"]))
    for incident in facts["incidents"]:
        table.add_row("incident", escape(f"{incident['step']}, client {incident['client']}: {incident['reason']}"))
    if facts["ledger"] is not None:
        table.add_row("ledger", f"{escape(facts['ledger'])}, release {facts['release_id']}")
    for name, number in facts.get("diagnostics", {}).items():
        table.add_row(f"{name} (do NOT publish)", f"{number:.5g}")
    out.print(table)
    kind = "release, may be published" if facts["guarantee"]["secure_noise"] else "NOT PRIVATE, do not publish"
    out.print(f"{kind}: {escape(facts['output'])}", soft_wrap=True)

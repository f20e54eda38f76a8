"""`tensorveil federate`: complete a tensor whose users are spread over several holders. Light to import: click only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tensorveil.cli.common import (
    Function,
    ReadingOptions,
    add_options,
    common_options,
    console,
    gather,
    mark_private,
    print_json,
    reading_options,
    split_names,
    split_ranks,
    split_shape,
    telling,
)
from tensorveil.markup import clean

if TYPE_CHECKING:
    from tensorveil.runs.federate import FederatedRelease, Promise

TRUSTS = ["aggregator", "secure", "local"]
FOLDER = click.Path(path_type=Path)
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group()
def federate() -> None:
    """Complete a tensor whose users are spread over several holders, who keep their data.

    What is protected is all that one user contributed. Three trust models: a trusted aggregator; secure sums, in which
    nobody sees one client's numbers; local noise, in which nobody is trusted. See docs/how-to/federated.md.

    \b
    Try it on one machine, with a server and three clients as separate processes:
      tensorveil federate simulate --dataset ml-100k --time day --bounds 1 5 --epsilon 5 --delta 1e-5 \\
          --trust secure --clients 3 --processes --output release

    \b
    For real, each party on its own machine:
      tensorveil federate keys home                                  (every party; hands the key to the organiser)
      tensorveil federate agree --client-key ... --server-key ... --output agreement.json     (the organiser)
      tensorveil federate server agreement.json --home home --listen HOST:PORT ... --output release
      tensorveil federate client agreement.json mine.npz --home home --server HOST:PORT ...
    """


@dataclass(frozen=True, kw_only=True)
class PromiseOptions:
    """What is computed and promised."""

    epsilon: float
    delta: float
    accept_delta: bool
    bounds: tuple[float, float]
    protect: str
    trust: str
    colluding: int
    drop_outs: int
    model: str
    rank: int | tuple[int, ...] | str | None
    sweeps: int | None
    noise_off: bool

    def promise(self) -> Promise:
        """Return the facts that an agreement is made from."""
        from tensorveil.runs.federate import Promise

        return Promise(
            epsilon=self.epsilon,
            delta=self.delta,
            accept_delta=self.accept_delta,
            bounds=self.bounds,
            trust=self.trust,
            colluding=self.colluding,
            drop_outs=self.drop_outs,
            noise=not self.noise_off,
            protect=self.protect,
            model=self.model,
            rank=self.rank,
            sweeps=self.sweeps,
        )


def promise_options(function: Function) -> Function:
    """Add the options that say what is computed and promised; the command gets them as ``promised``."""
    options = [
        click.option("--epsilon", type=float, required=True, help="How much may be learned about any one user."),
        click.option("--delta", type=float, required=True, help="Far below 1 / users."),
        click.option("--accept-delta", is_flag=True, help="Allow a delta that promises next to nothing."),
        click.option("--bounds", type=float, nargs=2, required=True, metavar="LOW HIGH", help="Where values can lie."),
        click.option("--protect", default="user", show_default=True, help="The mode whose slices are protected."),
        click.option(
            "--trust",
            type=click.Choice(TRUSTS),
            required=True,
            help="aggregator: the server sees each client's sums; secure: nobody does; local: nobody is trusted.",
        ),
        click.option(
            "--colluding",
            type=click.IntRange(min=0),
            default=0,
            help="secure: clients that may work together, also with the server; any one alone is expected anyway.",
        ),
        click.option("--drop-outs", type=click.IntRange(min=0), default=0, help="secure: clients that may be missing."),
        click.option("--model", type=click.Choice(["cp", "tucker"]), default="cp", show_default=True, help="Model."),
        click.option("--rank", callback=split_ranks, metavar="RANK[,RANK...]", help="Rank [default: the recipe's]."),
        click.option("--sweeps", type=click.IntRange(min=0), help="Sweeps for latent features [default: by budget]."),
        click.option("--noise-off", is_flag=True, help="Add no noise, for comparisons. NOT PRIVATE."),
    ]
    return add_options(gather(promised=PromiseOptions)(function), options)


def tls_option(*names: str) -> Callable[[Function], Function]:
    """Add options that name PEM files."""
    texts = {
        "ca": "Certificate that vouches for the server.",
        "certificate": "The server's certificate.",
        "key": "The server's secret key.",
    }

    def add(function: Function) -> Function:
        for name in reversed(names):
            function = click.option(f"--{name}", type=FILE, help=f"TLS (PEM): {texts[name]}")(function)
        return function

    return add


@federate.command()
@click.argument("home", type=FOLDER)
@common_options
def keys(home: Path, as_json: bool) -> None:
    """Make an identity in the folder HOME, if there is none, and print its public key.

    Hand the public key to the organiser over a way that nobody can tamper with. The secret stays in HOME.

    \b
    Examples:
      tensorveil federate keys home
    """
    from tensorveil.runs.federate import make_key

    key = make_key(home)
    if as_json:
        print_json({"home": str(home), "public_key": key})
    else:
        click.echo(key)


@federate.command()
@click.option("--server-key", required=True, help="The server's public key.")
@click.option("--client-key", "client_keys", multiple=True, required=True, help="A client's public key; repeat.")
@click.option("--shape", callback=split_shape, required=True, metavar="SIZE,SIZE,...", help="Declared sizes.")
@click.option("--modes", callback=split_names, required=True, metavar="NAME,NAME,...", help="Names of the modes.")
@promise_options
@click.option("-o", "--output", type=FOLDER, required=True, help="The agreement file to write.")
@common_options
def agree(
    server_key: str,
    client_keys: tuple[str, ...],
    shape: tuple[int, ...],
    modes: list[str],
    promised: PromiseOptions,
    output: Path,
    as_json: bool,
) -> None:
    """Write the agreement that all parties hold: what is computed, promised, and by whom.

    An agreement is good for one run. Every party should read it before using it.

    \b
    Examples:
      tensorveil federate agree --server-key 5f..9c --client-key a0..11 --client-key b1..22 --client-key c2..33 \\
          --shape 943,1682,212 --modes user,film,day --bounds 1 5 --epsilon 5 --delta 1e-5 \\
          --trust secure --drop-outs 1 --output agreement.json
    """
    from tensorveil.runs.federate import AgreementRun, make_agreement

    run = AgreementRun(
        promise=promised.promise(),
        server_key=server_key,
        client_keys=client_keys,
        shape=shape,
        modes=tuple(modes),
        output=output,
    )
    agreed = make_agreement(run)
    agreement, sentence = agreed.agreement, agreed.guarantee.sentence()
    if as_json:
        print_json({"agreement": str(output), "digest": agreement.digest, "guarantee": sentence})
        return
    click.echo(f"{clean(str(output))}: {len(agreement.recipe.rounds)} rounds, digest {agreement.digest[:16]}")
    click.echo(clean(sentence))


@federate.command()
@click.argument("agreement", type=FILE)
@click.option("--home", type=FOLDER, required=True, help="Folder with the server's identity; the log goes there.")
@click.option("--listen", required=True, metavar="HOST:PORT", help="Where to listen.")
@tls_option("ca", "certificate", "key")
@click.option("--ledger", type=click.Path(dir_okay=False, path_type=Path), help="Ledger to charge (not for local).")
@click.option("--patience", type=click.FloatRange(min=1), default=300.0, help="Seconds to wait for all clients.")
@click.option("--timeout", type=click.FloatRange(min=1), default=300.0, help="Seconds to wait for an answer.")
@click.option(
    "--stragglers",
    type=click.FloatRange(min=1),
    default=20.0,
    help="Seconds to wait for the last clients once the others have answered.",
)
@click.option("-o", "--output", type=FOLDER, required=True, help="Release folder to make.")
@common_options
def server(
    agreement: Path,
    home: Path,
    listen: str,
    ca: Path | None,
    certificate: Path | None,
    key: Path | None,
    ledger: Path | None,
    patience: float,
    timeout: float,
    stragglers: float,
    output: Path,
    as_json: bool,
) -> None:
    """Run the server of an AGREEMENT: wait for its clients, go through the rounds, write the release.

    \b
    Examples:
      tensorveil federate server agreement.json --home home --listen 127.0.0.1:18000 \\
          --ledger ratings.ledger --output release
      tensorveil federate server agreement.json --home home --listen sums.example.org:18000 \\
          --ca ca.pem --certificate server.pem --key server.key --output release
    """
    from tensorveil.federated.flower.processes import Channel
    from tensorveil.federated.server import Settings
    from tensorveil.runs.federate import ServerRun, serve_agreement

    mark_private()
    run = ServerRun(
        agreement=agreement,
        home=home,
        channel=Channel(address=listen, ca=ca, certificate=certificate, key=key),
        output=output,
        ledger=ledger,
        settings=Settings(patience=patience, timeout=timeout, stragglers=stragglers),
    )
    _show(serve_agreement(run), as_json=as_json)


@federate.command()
@click.argument("agreement", type=FILE)
@click.argument("file", type=FILE)
@click.option("--home", type=FOLDER, required=True, help="Folder with this client's identity and memory.")
@click.option("--server", "server_address", required=True, metavar="HOST:PORT", help="Where the server listens.")
@tls_option("ca")
@click.option(
    "--ledger", type=click.Path(dir_okay=False, path_type=Path), help="This client's own ledger; local needs it."
)
@click.option("--noise-off", is_flag=True, help="Take part in a run that adds no noise. NOT PRIVATE.")
@reading_options
@common_options
def client(
    agreement: Path,
    file: Path,
    home: Path,
    server_address: str,
    ca: Path | None,
    ledger: Path | None,
    noise_off: bool,
    reading: ReadingOptions,
    as_json: bool,
) -> None:
    """Take part in the run of an AGREEMENT with the users in FILE, who are this client's alone.

    Every question is answered once. What leaves this machine, and under which noise, is as the agreement says.

    \b
    Examples:
      tensorveil federate client agreement.json mine.npz --home home --server 127.0.0.1:18000
      tensorveil federate client agreement.json mine.csv --indices --home home --server sums.example.org:18000 \\
          --ca ca.pem --ledger mine.ledger
    """
    from tensorveil.federated.flower.processes import Channel
    from tensorveil.runs.federate import ClientRun, take_part

    mark_private()
    run = ClientRun(
        agreement=agreement,
        reading=reading.reading(str(file)),
        home=home,
        channel=Channel(address=server_address, ca=ca),
        ledger=ledger,
        noise_off=noise_off,
    )
    done = take_part(run)
    if as_json:
        facts = {"finished": done.finished, "completed": done.completed}
        print_json({"agreement": done.agreement, **facts, "log": str(done.log)})
    elif done.finished:
        click.echo("The run is over: this client has answered its last question.")
    else:
        click.echo("The run is over: the server has completed it, without some of this client's answers.")


@federate.command()
@click.argument("file", type=FILE, required=False)
@click.option("--dataset", help="A named dataset instead of FILE, such as ml-100k.")
@click.option("--time", "time_mode", help="Dataset: the time mode, day or a number of slices.")
@click.option("--clients", type=click.IntRange(1, 1000), default=3, show_default=True, help="Number of clients.")
@click.option("--processes", is_flag=True, help="A server and clients as separate processes, over Flower.")
@click.option("--ray", is_flag=True, help="Clients as workers of Flower's simulation engine (extra: simulation).")
@click.option("--private-shape", callback=split_shape, metavar="SIZE,SIZE,...", help="FILE: declared sizes.")
@click.option("--held-out", type=click.FloatRange(0, 1, max_open=True), help="About what share of entries to judge by.")
@click.option("--compare", is_flag=True, help="Also run centrally, and compare. Diagnostics: do not publish.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the held-out split. Noise has none.")
@click.option("--ledger", type=click.Path(dir_okay=False, path_type=Path), help="Ledger to charge (not for local).")
@click.option("--workdir", type=FOLDER, help="Keep homes, agreement and logs of the parties here.")
@promise_options
@click.option("-o", "--output", type=FOLDER, required=True, help="Release folder to make.")
@reading_options
@common_options
def simulate(
    file: Path | None,
    dataset: str | None,
    time_mode: str | None,
    clients: int,
    processes: bool,
    ray: bool,
    private_shape: tuple[int, ...] | None,
    held_out: float | None,
    compare: bool,
    seed: int,
    ledger: Path | None,
    workdir: Path | None,
    promised: PromiseOptions,
    output: Path,
    reading: ReadingOptions,
    as_json: bool,
) -> None:
    """Try a federated run on one machine: users of FILE are split over clients.

    Without --processes or --ray all parties live in this process, with the same code but for the network. With
    --processes a server and the clients are separate processes that talk over Flower; with --ray the clients are
    workers of Flower's simulation engine.

    \b
    Examples:
      tensorveil federate simulate ratings.npz --private-shape 943,1682,212 --bounds 1 5 \\
          --epsilon 5 --delta 1e-5 --trust secure -o release
      tensorveil federate simulate --dataset ml-100k --time day --bounds 1 5 --epsilon 5 --delta 1e-5 \\
          --trust secure --drop-outs 1 --processes --held-out 0.1 --compare -o release
    """
    if (file is None) == (dataset is None):
        raise click.UsageError("give either FILE or --dataset.")
    if file is not None and private_shape is None:
        raise click.UsageError(
            "FILE needs --private-shape: read off the data, the shape would tell which indices occur. "
            "Try --private-shape 943,1682."
        )
    if processes and ray:
        raise click.UsageError("--processes and --ray exclude each other.")
    from tensorveil.runs.simulate import Simulation, simulate_federation

    mark_private()
    run = Simulation(
        promise=promised.promise(),
        output=output,
        reading=None if file is None else reading.reading(str(file), shape=private_shape),
        dataset=dataset,
        time=time_mode,
        clients=clients,
        processes=processes,
        ray=ray,
        held_out=held_out,
        seed=seed,
        compare=compare,
        ledger=ledger,
        workdir=workdir,
    )
    _show(simulate_federation(run), as_json=as_json)


def _show(released: FederatedRelease, *, as_json: bool) -> None:
    """Say what was promised, and what happened on the way."""
    with telling(released.output, released.ledger, released.release_id):
        _print(released, as_json=as_json)


def _print(released: FederatedRelease, *, as_json: bool) -> None:
    if as_json:
        print_json(released.to_json())
        return
    from rich.table import Table

    from tensorveil.cli.common import escape

    out, guarantee = console(), released.guarantee
    out.print(f"[bold]{escape(guarantee.sentence())}[/bold]")
    table = Table(show_header=False)
    table.add_row("trust", guarantee.mechanism)
    table.add_row("holds against", released.trust.against)
    table.add_row("rounds", ", ".join(released.rounds))
    for incident in released.incidents:
        table.add_row("incident", escape(f"{incident.step}, client {incident.client}: {incident.reason}"))
    if released.ledger is not None:
        table.add_row("ledger", f"{escape(str(released.ledger))}, release {released.release_id}")
    for name, number in (released.diagnostics or {}).items():
        table.add_row(f"{name} (do NOT publish)", f"{number:.5g}")
    out.print(table)
    kind = "release, may be published" if guarantee.secure_noise else "NOT PRIVATE, do not publish"
    out.print(f"{kind}: {escape(str(released.output))}", soft_wrap=True)

"""`tensorveil federate`: complete a tensor whose users are spread over several holders. Light to import: click only."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from tensorveil.cli.common import Function, common_options, reading_options, split_names, split_ranks, split_shape

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


def promise_options(function: Function) -> Function:
    """Add the options that say what is computed and promised."""
    options = [
        click.option("--epsilon", type=float, required=True, help="How much may be learned about any one user."),
        click.option("--delta", type=float, required=True, help="Far below 1 / users."),
        click.option("--bounds", type=float, nargs=2, required=True, metavar="LOW HIGH", help="Where values can lie."),
        click.option("--protect", default="user", show_default=True, help="The mode whose slices are protected."),
        click.option(
            "--trust",
            type=click.Choice(TRUSTS),
            required=True,
            help="aggregator: the server sees each client's sums; secure: nobody does; local: nobody is trusted.",
        ),
        click.option(
            "--colluding", type=click.IntRange(min=0), default=0, help="secure: clients on the server's side."
        ),
        click.option("--drop-outs", type=click.IntRange(min=0), default=0, help="secure: clients that may be missing."),
        click.option("--model", type=click.Choice(["cp", "tucker"]), default="cp", show_default=True, help="Model."),
        click.option("--rank", callback=split_ranks, metavar="RANK[,RANK...]", help="Rank [default: the recipe's]."),
        click.option("--sweeps", type=click.IntRange(min=0), help="Sweeps for latent features [default: by budget]."),
        click.option("--noise-off", is_flag=True, help="Add no noise, for comparisons. NOT PRIVATE."),
    ]
    return functools.reduce(lambda decorated, option: option(decorated), reversed(options), function)


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
def keys(**options: Any) -> None:
    """Make an identity in the folder HOME, if there is none, and print its public key.

    Hand the public key to the organiser over a way that nobody can tamper with. The secret stays in HOME.

    \b
    Examples:
      tensorveil federate keys home
    """
    from tensorveil.runs.federate import show_keys

    show_keys(**options)


@federate.command()
@click.option("--server-key", required=True, help="The server's public key.")
@click.option("--client-key", "client_keys", multiple=True, required=True, help="A client's public key; repeat.")
@click.option("--shape", callback=split_shape, required=True, metavar="SIZE,SIZE,...", help="Declared sizes.")
@click.option("--modes", callback=split_names, required=True, metavar="NAME,NAME,...", help="Names of the modes.")
@promise_options
@click.option("-o", "--output", type=FOLDER, required=True, help="The agreement file to write.")
@common_options
def agree(**options: Any) -> None:
    """Write the agreement that all parties hold: what is computed, promised, and by whom.

    An agreement is good for one run. Every party should read it before using it.

    \b
    Examples:
      tensorveil federate agree --server-key 5f..9c --client-key a0..11 --client-key b1..22 --client-key c2..33 \\
          --shape 943,1682,212 --modes user,film,day --bounds 1 5 --epsilon 5 --delta 1e-5 \\
          --trust secure --drop-outs 1 --output agreement.json
    """
    from tensorveil.runs.federate import write_agreement

    write_agreement(**options)


@federate.command()
@click.argument("agreement", type=FILE)
@click.option("--home", type=FOLDER, required=True, help="Folder with the server's identity; the log goes there.")
@click.option("--listen", required=True, metavar="HOST:PORT", help="Where to listen.")
@tls_option("ca", "certificate", "key")
@click.option("--ledger", type=click.Path(dir_okay=False, path_type=Path), help="Ledger to charge (not for local).")
@click.option("--patience", type=click.FloatRange(min=1), default=300.0, help="Seconds to wait for all clients.")
@click.option("--timeout", type=click.FloatRange(min=1), default=300.0, help="Seconds to wait for an answer.")
@click.option("-o", "--output", type=FOLDER, required=True, help="Release folder to make.")
@common_options
def server(**options: Any) -> None:
    """Run the server of an AGREEMENT: wait for its clients, go through the rounds, write the release.

    \b
    Examples:
      tensorveil federate server agreement.json --home home --listen 127.0.0.1:18000 \\
          --ledger ratings.ledger --output release
      tensorveil federate server agreement.json --home home --listen sums.example.org:18000 \\
          --ca ca.pem --certificate server.pem --key server.key --output release
    """
    from tensorveil.runs.federate import run_as_server

    run_as_server(**options)


@federate.command()
@click.argument("agreement", type=FILE)
@click.argument("file", type=FILE)
@click.option("--home", type=FOLDER, required=True, help="Folder with this client's identity and memory.")
@click.option("--server", "server_address", required=True, metavar="HOST:PORT", help="Where the server listens.")
@tls_option("ca")
@click.option(
    "--ledger", type=click.Path(dir_okay=False, path_type=Path), help="This client's own ledger; local needs it."
)
@reading_options
@common_options
def client(**options: Any) -> None:
    """Take part in the run of an AGREEMENT with the users in FILE, who are this client's alone.

    Every question is answered once. What leaves this machine, and under which noise, is as the agreement says.

    \b
    Examples:
      tensorveil federate client agreement.json mine.npz --home home --server 127.0.0.1:18000
      tensorveil federate client agreement.json mine.csv --indices --home home --server sums.example.org:18000 \\
          --ca ca.pem --ledger mine.ledger
    """
    from tensorveil.runs.federate import run_as_client

    run_as_client(**options)


@federate.command()
@click.argument("file", type=FILE, required=False)
@click.option("--dataset", help="A named dataset instead of FILE, such as ml-100k.")
@click.option("--time", "time_mode", help="Dataset: the time mode, day or a number of slices.")
@click.option("--clients", type=click.IntRange(1, 1000), default=3, show_default=True, help="Number of clients.")
@click.option("--processes", is_flag=True, help="A server and clients as separate processes, over Flower.")
@click.option("--ray", is_flag=True, help="Clients as workers of Flower's simulation engine (extra: simulation).")
@click.option("--private-shape", callback=split_shape, metavar="SIZE,SIZE,...", help="FILE: declared sizes.")
@click.option("--held-out", type=click.FloatRange(0, 1, max_open=True), help="Share of entries to judge by.")
@click.option("--compare", is_flag=True, help="Also run centrally, and compare. Diagnostics: do not publish.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the held-out split. Noise has none.")
@click.option("--ledger", type=click.Path(dir_okay=False, path_type=Path), help="Ledger to charge (not for local).")
@click.option("--workdir", type=FOLDER, help="Keep homes, agreement and logs of the parties here.")
@promise_options
@click.option("-o", "--output", type=FOLDER, required=True, help="Release folder to make.")
@reading_options
@common_options
def simulate(**options: Any) -> None:
    """Try a federated run on one machine: users of FILE are split over clients.

    Without --processes or --ray all parties live in this process, with the same code but for the network. With
    --processes a server and the clients are separate processes that talk over Flower; with --ray the clients are
    workers of Flower's simulation engine.

    \b
    Examples:
      tensorveil federate simulate ratings.npz --bounds 1 5 --epsilon 5 --delta 1e-5 --trust secure -o release
      tensorveil federate simulate --dataset ml-100k --time day --bounds 1 5 --epsilon 5 --delta 1e-5 \\
          --trust secure --drop-outs 1 --processes --held-out 0.1 --compare -o release
    """
    if (options["file"] is None) == (options["dataset"] is None):
        raise click.UsageError("give either FILE or --dataset.")
    if options["processes"] and options["ray"]:
        raise click.UsageError("--processes and --ray exclude each other.")
    from tensorveil.runs.simulate import run_simulation

    run_simulation(**options)

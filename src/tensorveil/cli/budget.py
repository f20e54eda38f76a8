"""`tensorveil budget LEDGER`: what was spent on a data set and what is left; `budget create` starts a ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tensorveil.cli.common import common_options, console, print_json
from tensorveil.markup import clean

if TYPE_CHECKING:
    from tensorveil.privacy import Balance, Ledger


ONLY_ONE = "Charge all releases from these data here: what another ledger is charged, this one does not count."


class _ShowByDefault(click.Group):
    """Reads `budget LEDGER` as `budget show LEDGER`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_ShowByDefault)
def budget() -> None:
    """Show a privacy ledger, or create one.

    A ledger is a file that remembers what was spent on one data set. Releases are charged to it before they are
    written, and refused once the budget is used up.

    \b
    Examples:
      tensorveil budget create ratings.ledger --epsilon 1 --delta 1e-6 --unit value --name ratings
      tensorveil budget ratings.ledger
      tensorveil budget ratings.ledger --json
    """


@budget.command()
@click.argument("ledger", type=click.Path(dir_okay=False))
@common_options
def show(ledger: str, as_json: bool) -> None:
    """Show what LEDGER holds: budget, charges, what is left."""
    from tensorveil.privacy import Ledger

    facts = describe(Ledger.open(ledger))
    if as_json:
        print_json(facts)
    else:
        _show(facts)


@budget.command()
@click.argument("ledger", type=click.Path(dir_okay=False))
@click.option("--epsilon", type=float, required=True, help="All that may ever be spent on the data set.")
@click.option("--delta", type=float, required=True, help="0 for pure differential privacy; else far below 1 / people.")
@click.option("--accept-delta", is_flag=True, help="Allow a delta above 0.01, which promises next to nothing.")
@click.option(
    "--unit", required=True, help="What is protected: value, entry, slice:MODE, tensor[:differ=M], local-entry."
)
@click.option("--name", required=True, help="What the data set is called.")
@click.option(
    "--composition",
    type=click.Choice(["sum", "gaussian", "zcdp"]),
    help="How charges add up [default: settled by the first charge].",
)
@common_options
def create(
    ledger: str,
    epsilon: float,
    delta: float,
    accept_delta: bool,
    unit: str,
    name: str,
    composition: str | None,
    as_json: bool,
) -> None:
    """Start LEDGER for one data set; refuses to replace a file.

    Make it the only one for these data: what is charged to another ledger is not counted here.

    \b
    Examples:
      tensorveil budget create ratings.ledger --epsilon 1 --delta 1e-6 --unit value --name ratings
    """
    from tensorveil.privacy import Budget, Ledger

    made = Ledger.create(
        ledger,
        budget=Budget(epsilon=epsilon, delta=delta),
        unit=unit,
        name=name,
        composition=composition,
        accept_delta=accept_delta,
    )
    if as_json:
        print_json(describe(made))
    else:
        click.echo(clean(f"{ledger}: {made.budget} for unit {made.unit} of {made.name}, nothing spent yet."))
        click.echo(ONLY_ONE)


def describe(ledger: Ledger) -> dict[str, Any]:
    """Return the facts about a ledger as plain data."""
    from tensorveil.privacy import event_to_json
    from tensorveil.privacy.events import describe_event

    statement = ledger.statement()
    return {
        "ledger": str(ledger.path),
        "name": ledger.name,
        "created": ledger.created,
        "unit": str(ledger.unit),
        "neighbours": ledger.unit.neighbours,
        "budget": {"epsilon": ledger.budget.epsilon, "delta": ledger.budget.delta},
        "composition": statement.composition,
        "spent": _plain(statement.spent),
        "remaining": _plain(statement.remaining),
        "charges": [
            {
                "number": charge.number,
                "time": charge.time,
                "purpose": charge.purpose,
                "release_id": charge.release_id,
                "event": event_to_json(charge.event),
                "charged": event_to_json(charge.charged),
                "words": describe_event(charge.charged),
                "confirmed": charge.confirmed,
                "status": charge.status,
            }
            for charge in statement.entries
        ],
    }


def _plain(balance: Balance) -> dict[str, Any]:
    from tensorveil.privacy import event_to_json

    return {
        "epsilon": balance.epsilon,
        "delta": balance.delta,
        "fraction": balance.fraction,
        "event": event_to_json(balance.event),
    }


def _show(facts: dict[str, Any]) -> None:
    from rich.table import Table

    from tensorveil.cli.common import escape
    from tensorveil.privacy.exact import show_at_least, show_at_most

    out = console()
    total, spent, left = facts["budget"], facts["spent"], facts["remaining"]
    out.print(f"[bold]{escape(facts['name'])}[/bold]  {escape(facts['ledger'])}, since {escape(facts['created'])}")
    out.print(f"protects: {escape(facts['unit'])} (neighbours {escape(facts['neighbours'])})")
    amounts = Table("", "epsilon", "delta", "share")
    amounts.add_row("budget", show_at_least(total["epsilon"]), show_at_least(total["delta"]), "")
    amounts.add_row("spent", show_at_least(spent["epsilon"]), show_at_least(spent["delta"]), f"{spent['fraction']:.1%}")
    amounts.add_row("left", show_at_most(left["epsilon"]), show_at_most(left["delta"]), f"{left['fraction']:.1%}")
    out.print(amounts)
    if facts["charges"]:
        table = Table("#", "time (UTC)", "purpose", "release", "charged", "status")
        for charge in facts["charges"]:
            time = charge["time"].removesuffix("+00:00").replace("T", " ")
            status = charge["status"] if charge["confirmed"] else f"[yellow]{charge['status']}[/yellow]"
            texts = (str(charge["number"]), time, charge["purpose"], charge["release_id"], charge["words"])
            table.add_row(*(escape(text) for text in texts), status)
        out.print(table)
    how = {
        None: "The first charge settles how charges add up.",
        "sum": "Charges add up by sum: epsilon and delta each.",
        "gaussian": "Charges add up as Gaussian noise does: mu squared. Shares are of mu squared.",
        "zcdp": "Charges add up by zero-concentrated privacy: rho. Shares are of rho.",
    }
    out.print(how[facts["composition"]])

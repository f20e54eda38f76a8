"""Every proven mechanism by name: what the user may ask for and what the planner chooses from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tensorveil.mechanisms.data import Form, Outcome, PrivateData
from tensorveil.mechanisms.entry import run_entry
from tensorveil.mechanisms.gradient import run_gradient
from tensorveil.mechanisms.input import run_input, run_margins_input
from tensorveil.mechanisms.margins import run_margins
from tensorveil.mechanisms.mean import run_mean
from tensorveil.mechanisms.output import run_output
from tensorveil.mechanisms.spend import Spend

Run = Callable[[PrivateData, Form, Spend], Outcome]


@dataclass(frozen=True, kw_only=True)
class Method:
    """A mechanism: its name in words, the unit it protects, what it does to data."""

    title: str
    unit: str
    run: Run


METHODS: Mapping[str, Method] = {
    "mean": Method(title="private mean", unit="value", run=run_mean),
    "margins": Method(title="private margins", unit="value", run=run_margins),
    "input": Method(title="input perturbation", unit="value", run=run_input),
    "margins+input": Method(title="private margins and input perturbation", unit="value", run=run_margins_input),
    "output": Method(title="output perturbation of alternating least squares", unit="value", run=run_output),
    "gradient": Method(title="gradient perturbation", unit="value", run=run_gradient),
    "gram": Method(title="alternating least squares on private Gram matrices", unit="entry", run=run_entry),
}

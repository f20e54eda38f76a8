from __future__ import annotations

from typing import Any

import pytest

from tensorveil.cli.messages import OPTIONS, in_shell_words


@pytest.mark.parametrize(
    ("library", "shell"),
    [
        ("rank must be at least 1; got 0. Try rank=8.", "rank must be at least 1; got 0. Try --rank 8."),
        ("Try rank=(4, 4, 4).", "Try --rank 4,4,4."),
        ("Try bounds=(1, 5).", "Try --bounds 1 5."),
        ("Try modes=['user', 'item'].", "Try --modes user,item."),
        ("pass out_of_bounds='clip' or 'drop'.", "pass --out-of-bounds clip or drop."),
        ('Leave it out, or try solver="als".', "Leave it out, or try --solver als."),
        ("Try validation_fraction=0.1.", "Try --validation 0.1."),
        ("pass missing='drop' to leave them out", "pass --missing drop to leave them out"),
        ("core_rank=3 and ranks=4 stay", "core_rank=3 and ranks=4 stay"),
        ("nothing to say", "nothing to say"),
        ("Choose another name, or add force=True.", "Choose another name, or add --force."),
        (
            "Name them with at=FILE, raise max_cells, or filling=None.",
            "Name them with --at FILE, raise --max-cells, or --no-fill.",
        ),
        ("Add entries=FILE.", "Add --entries FILE."),
        ("Try bins={'time': 'day'}, or", "Try --bin time=day, or"),
        ("bins={'when': ('day', '2024-01-01', '2024-03-31')}.", "--bin when=day:2024-01-01..2024-03-31."),
        ("Say decimal=',' or encoding='cp1252'.", "Say --decimal , or --encoding cp1252."),
        ("encoding: the line of names", "--encoding: the line of names"),
        ("at: file not found", "--at: file not found"),
        ("output: it exists; output: stays", "--output: it exists; output: stays"),
    ],
)
def test_settings_become_options(library: Any, shell: Any) -> None:
    assert in_shell_words(library) == shell


def test_the_options_exist() -> None:
    from tensorveil.cli.audit import audit
    from tensorveil.cli.complete import complete
    from tensorveil.cli.evaluate import evaluate
    from tensorveil.cli.perturb import perturb
    from tensorveil.cli.plan import plan
    from tensorveil.cli.store import store

    verbs = (audit, complete, evaluate, perturb, plan, store)
    known = {option for verb in verbs for parameter in verb.params for option in parameter.opts}
    assert set(OPTIONS.values()) <= known

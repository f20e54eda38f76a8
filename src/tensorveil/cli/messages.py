"""Messages in the words of the shell: the library says rank=8 or ``output: ...``, the command's user types --rank 8."""

from __future__ import annotations

import re

OPTIONS = {
    "along": "--along",
    "basis": "--basis",
    "bounds": "--bounds",
    "baseline": "--baseline",
    "delta": "--delta",
    "decimal": "--decimal",
    "delimiter": "--delimiter",
    "duplicates": "--duplicates",
    "encoding": "--encoding",
    "differ": "--differ",
    "entries": "--entries",
    "engine": "--engine",
    "epsilon": "--epsilon",
    "format": "--format",
    "ledger": "--ledger",
    "loss": "--loss",
    "mechanism": "--mechanism",
    "method": "--method",
    "missing": "--missing",
    "modes": "--modes",
    "mu": "--mu",
    "order": "--order",
    "out_of_bounds": "--out-of-bounds",
    "people": "--people",
    "points": "--points",
    "radius": "--radius",
    "random_state": "--seed",
    "rank": "--rank",
    "regularization": "--regularization",
    "restarts": "--restarts",
    "rmse": "--rmse",
    "solver": "--solver",
    "sweeps": "--sweeps",
    "threads": "--threads",
    "same": "--same",
    "unit": "--unit",
    "unlisted": "--unlisted",
    "unlisted_weight": "--unlisted-weight",
    "validation_fraction": "--validation",
    "value": "--value",
    "variable": "--variable",
    "weights": "--weights",
}
# What is no option and its value.
FLAGS = {
    "nonnegative=True": "--nonnegative",
    'tensor.with_unlisted("unknown")': "--unlisted unknown",
    'tensor.with_unlisted("zero")': "--unlisted zero",
    " into 0 and 1: tensor.with_values(tensor.values > 0)": " into 0 and 1 in the file",
    "entries must": "--entries must",
    "users must be": "--users must be",
    "shape must name modes": "--private-shape must name modes",
    "unit must name": "--unit must name",
    "unlisted_weight is": "--unlisted-weight is",
    "same must name": "--same must name",
    "modes=[Mode('head', labels), Mode('relation'), Mode('tail', labels)]": "--labels head=FILE --labels tail=FILE",
    "out_of_bounds='clip' or 'drop'": "--out-of-bounds clip or drop",
    "labels=False": "--indices",
    "indices=True": "--indices",
    "force=True": "--force",
    "report=False": "--no-report",
    "header=False": "--no-header",
    "filling=None": "--no-fill",
    "accept_delta=True": "--accept-delta",
    "at=FILE": "--at FILE",
    "entries=FILE": "--entries FILE",
    "along must": "--along must",
    "users='all', or a list of labels": "--users all, or labels with commas between",
    "at={'day': 'monday'}": "--at day=monday",
    "users must": "--users must",
    "max_cells": "--max-cells",
    "max_memory": "--max-memory",
    "in parts (write_store)": "in parts: tensorveil store",
    "part_rows": "--part-rows",
    "engine must be": "--engine must be",
    "trust_network=True": "--trust-network",
    "with a workdir": "with --workdir",
    "Pass labels=True to encode labels.": "Leave --indices out, or give --labels MODE=FILE.",
    "Leave plot out": "Leave --plot out",
    'unit="entry"': "--unit entry",
    'unit="slice"': "--unit slice",
    "this unit needs": "this --unit needs",
    "labels={'film': films}": "--labels film=films.csv",
    "protect must name": "--unit slice:MODE (or --protect) must name",
    "with value=...": "with --value NAME",
    "value must name a column": "--value must name a column",
    "modes must name columns": "--modes must name columns",
    "diagnostics and output must": "--diagnostics and --output must",
    "bins must name": "--bin must name",
    "eave its bins out": "eave --bin out",
    "bins of mode": "--bin of mode",
    "bins: ": "--bin: ",
    "decimal must be": "--decimal must be",
    "delimiter must be": "--delimiter must be",
    "encoding must": "--encoding must",
    "as in a pivot table, try ObservedTensor.from_dense(frame).": "as in a pivot table, write a row for each of them.",
    "variable must name": "--variable must name",
    "Drop those rows, or add them to the model with fold_in. Where parts of one frame are fitted, as in "
    "cross-validation, make the column categorical: all its categories have a place in the model.": "Drop those rows, "
    "or fit again with data that have them.",
    " Labels come in a frame with a column for every mode, such as frame[['user', 'film']].": "",
}
# A message may begin with the parameter that it is about.
PARAMETER = re.compile(
    r"^(at|checkpoint|data|diagnostics|encoding|engine|entries|labels|neighbours|output|plot|report): "
)
LIST = re.compile(r"labels=\{?'?(\w+)'?(?:: everyone\}|=(\S+))")
SIZE = re.compile(r"shape=\{'(\w+)': (\d+)\}")
BIN = re.compile(r"bins=\{'(\w+)': (?:'(\w+)'|\('(\w+)', '([^']*)', '([^']*)'\))\}")
FOLDER = re.compile(r"^folder: ")
# A setting is a word of its own; in "tensor:differ=3" it is a part of one.
SETTING = re.compile(
    rf"(?<![\w:])({'|'.join(OPTIONS)})=(\([^()]*\)|\[[^\[\]]*\]|'[^']*'|\"[^\"]*\"|-?\d+(?:\.\d+)?(?:e-?\d+)?)"
)


# What is to be said, without an example of it.
OPEN = re.compile(rf"(?<![\w:])({'|'.join(OPTIONS)})=\.\.\.")


def in_shell_words(message: str) -> str:
    """Rewrite settings such as rank=8 or duplicates='mean', and the parameter a message is about, as options."""
    for words, flag in FLAGS.items():
        message = message.replace(words, flag)
    message = LIST.sub(lambda found: f"--labels {found[1]}={found[2] or 'FILE'}", message)
    message = BIN.sub(lambda found: f"--bin {found[1]}={found[2] or f'{found[3]}:{found[4]}..{found[5]}'}", message)
    message = SIZE.sub(r"--private-shape \1=\2", message)
    message = OPEN.sub(lambda found: OPTIONS[found[1]], message)
    message = PARAMETER.sub(r"--\1: ", FOLDER.sub("output: ", message))
    return SETTING.sub(lambda found: f"{OPTIONS[found[1]]} {_argument(found[1], found[2])}", message)


def _argument(name: str, setting: str) -> str:
    items = [item.strip().strip("'\"") for item in setting.strip("()[]").split(",")]
    return (" " if name == "bounds" else ",").join(items)

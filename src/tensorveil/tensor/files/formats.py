"""The one table of file formats, and what picks a format by a file's name: for tensors, tables and dense arrays."""

from __future__ import annotations

import errno
import importlib
import pkgutil
import warnings
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

import numpy as np

from tensorveil.errors import GuessWarning, InputError, LeftOutWarning, TensorveilError, warn
from tensorveil.memory import file_too_large
from tensorveil.tensor.bins import settle_bins
from tensorveil.tensor.files.atomic import replace_file
from tensorveil.tensor.files.dialect import PLAIN, Dialect
from tensorveil.tensor.files.file_format import DenseFile, Format, Layout
from tensorveil.tensor.lists import NumberOwners, number_owners, settle_lists
from tensorveil.tensor.modes import Mode
from tensorveil.tensor.observed import ObservedTensor
from tensorveil.tensor.options import FrameOptions

if TYPE_CHECKING:
    import pyarrow as pa

Result = TypeVar("Result")


@cache
def formats() -> Mapping[str, Format]:
    """Return every format by its name: the modules of this folder that hold one.

    >>> formats()["csv"].endings
    ('.csv', '.csv.gz')
    """
    from tensorveil.tensor import files  # late, because the folder itself imports this module

    found: dict[str, Format] = {}
    endings: set[str] = set()
    for module in pkgutil.iter_modules(files.__path__):
        for each in _formats_of(importlib.import_module(f"{files.__name__}.{module.name}")):
            if each.name in found or endings & set(each.endings):
                raise TypeError(f"module {module.name}: format {each.name!r} or one of its endings exists already.")
            found[each.name] = each
            endings |= set(each.endings)
    return dict(sorted(found.items()))


def _formats_of(module: Any) -> tuple[Format, ...]:
    """Return what a module declares as FORMAT or FORMATS; helper modules declare nothing."""
    declared: Format | tuple[Format, ...] = getattr(module, "FORMATS", getattr(module, "FORMAT", ()))
    return (declared,) if isinstance(declared, Format) else declared


def _with_ending(path: Path) -> Format | None:
    """Return the format whose ending the file's name has; the longest ending decides."""
    lower = path.name.lower()
    matches = [(len(ending), each) for each in formats().values() for ending in each.endings if lower.endswith(ending)]
    return max(matches, key=lambda match: match[0])[1] if matches else None


def _list_endings(some: Iterable[Format]) -> str:
    return ", ".join(ending for each in some for ending in each.endings)


# Files that may hold anything.

_OURS = (GuessWarning, LeftOutWarning)


def read_guarded(read: Callable[[], Result], name: str, what: str = "path") -> Result:
    """Read a file; whatever a reader runs into becomes an error of ours, without its text, which may quote the file."""
    return guard(read, lambda why: _damaged(name, what, why))


def guard(read: Callable[[], Result], tell: Callable[[str], InputError]) -> Result:
    """Read something; what goes wrong becomes the error that is told, given the system's reason for it or nothing."""
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found = read()
        guesses = [each.message for each in told if issubclass(each.category, _OURS)]  # others may quote
    except TensorveilError:
        raise
    except MemoryError:
        problem: InputError = file_too_large()
    except OSError as error:
        why = f" ({error.strerror})" if error.errno in (errno.EIO, errno.EACCES, errno.EPERM) else ""
        problem = tell(why)
    except Exception:
        problem = tell("")
    else:
        for guess in guesses:
            warn(guess)
        return found
    raise problem


def _damaged(name: str, what: str, why: str) -> InputError:
    return InputError(
        f"{what} cannot be read as {name}{why}. The file is damaged or cut short, or has another format: name it with "
        "format=..."
    )


def check_content(path: Path, picked: Format) -> None:
    """Refuse a file whose first bytes say that it has another format than its name."""
    longest = max(len(magic) for each in formats().values() for magic in each.magic)
    try:
        with path.open("rb") as file:
            head = file.read(longest)
    except OSError as error:
        raise InputError(f"path cannot be read ({error.strerror}). Check the path.") from None
    if picked.magic and not head.startswith(picked.magic):
        raise InputError(f"path must be a readable {picked.title} file; its contents do not begin like one.")
    others = [each.name for each in formats().values() if each.magic and head.startswith(each.magic)]
    if others == ["npz"] and picked.name != "npz" and not _is_npz(path):
        raise InputError(
            f"path is called like a {picked.name} file, but holds a spreadsheet or another archive (zip). Save the "
            "sheet as CSV, or unpack it."
        )
    if others and picked.name not in others:
        raise InputError(
            f"path is called like a {picked.name} file, but holds {others[0]}. Rename it, or say format={others[0]!r}."
        )


def _is_npz(path: Path) -> bool:
    """Tell whether an archive holds arrays."""
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith(".npy") for name in archive.namelist())
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError):
        return True  # a damaged one


# Tensors.


def read(
    path: str | Path,
    modes: Sequence[str | Mode] | None = None,
    value: str | None = None,
    format: str | None = None,  # noqa: A002
    *,
    labels: bool | Mapping[str, Any] = True,
    index_base: int | None = None,
    header: bool = True,
    variable: str | None = None,
    missing_value: float = np.nan,
    bins: Mapping[str, Any] | None = None,
    delimiter: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    **options: Unpack[FrameOptions],
) -> ObservedTensor:
    """Read a tensor from a CSV, TSV, Parquet, FROSTT .tns, NPZ or MATLAB file, or from a PNG picture.

    Parameters
    ----------
    path
        The file. Text formats may be gzipped.
    modes
        Mode columns of a table, as in `ObservedTensor.from_frame`; for other formats, names of the modes.
    value
        Value column of a table, as in `ObservedTensor.from_frame`.
    format
        "csv", "tsv", "parquet", "tns", "npz", "mat" or "png"; by default it follows from the file's ending.
    labels
        Tables: True (default) encodes every mode column as labels, integers too; False takes integer
        columns as indices. A mapping, {"film": films}, names modes with a public list of their labels: its
        order numbers them, and rows whose label is not on it are left out; the other modes are labels as usual.
    index_base
        The index of the first slice: 0 for tables read with `labels=False`, 1 for .tns and .mat.
    header
        CSV and TSV: whether the first line names the columns; if not, they are called f0, f1, ...
    variable
        MATLAB: the variable to read.
    missing_value
        MATLAB: the value that marks missing cells of a dense array.
    bins
        Tables: columns of moments to put into bins, as in `ObservedTensor.from_frame`: {"time": "day"}.
    delimiter, decimal, encoding
        CSV and TSV: what stands between fields, "." or ",", and the encoding. What is left out is detected.
    options
        `shape`, `bounds`, `duplicates`, `missing`, `out_of_bounds`, `unlisted`, as for `ObservedTensor`.
    """
    if index_base not in (None, 0, 1):
        raise InputError(f"index_base must be 0 or 1; got {index_base!r}.")
    layout = Layout(
        modes=modes,
        value=value,
        labels=labels if isinstance(labels, bool) else options.get("out_of_range") != "drop",
        lists={} if isinstance(labels, bool) else settle_lists(labels),
        index_base=index_base,
        header=header,
        variable=variable,
        missing_value=missing_value,
        bins=settle_bins(bins),
        dialect=Dialect(delimiter=delimiter, decimal=decimal, encoding=encoding),
    )
    if unknown := options.keys() - FrameOptions.__annotations__.keys():
        raise TypeError(f"read() got unexpected options: {', '.join(sorted(unknown))}.")
    return read_layout(Path(path), format, layout, {**options})


def read_layout(file: Path, name: str | None, layout: Layout, options: dict[str, Any]) -> ObservedTensor:
    """Read a tensor by a layout; ``name`` is that of the format, if it was given."""
    picked = pick_format(file, name)
    if not file.is_file():
        raise InputError("path must be an existing file; there is no file of that name. Check the path.")
    _check_layout(picked, layout)
    reader = picked.read
    assert reader is not None  # pick_format takes care of that
    check_content(file, picked)
    unlisted = options.pop("unlisted", None)  # which files of ours know by themselves
    tensor = read_guarded(lambda: reader(file, layout, {**options}), picked.name)
    return tensor if unlisted is None else tensor.with_unlisted(unlisted)


def _check_layout(picked: Format, layout: Layout) -> None:
    """Refuse what was said of a layout that files of a format do not have."""
    if layout.lists and not picked.is_table:
        raise InputError(f"labels are for tables; a {picked.title} file holds indices. Leave them out.")
    if layout.bins and not picked.is_table:
        raise InputError(f"bins are for tables; a {picked.title} file holds indices. Leave them out.")
    if layout.dialect != PLAIN and not picked.is_text:
        raise InputError(
            f"delimiter, decimal and encoding are for CSV and TSV; this is {picked.title}. Leave them out."
        )


def read_blocks(
    file: Path, name: str | None, layout: Layout, options: dict[str, Any], number: NumberOwners = number_owners
) -> Iterator[ObservedTensor]:
    """Read a tensor by a layout in blocks of rows, so that memory does not depend on the length of the file.

    Every row becomes what `read_layout` makes of it, and rows of one cell stay apart. ``number`` numbers the owners,
    for all blocks of all files alike. Files that are no tables are read whole.
    """
    from tensorveil.tensor.frames import is_open, table_to_tensor
    from tensorveil.tensor.rows import NothingListedError, tell_left_out

    picked = pick_format(file, name)
    if not file.is_file():
        raise InputError("path must be an existing file; there is no file of that name. Check the path.")
    _check_layout(picked, layout)
    check_content(file, picked)
    rules = {**options, "duplicates": "keep"}
    rows, kept, nothing = 0, 0, None
    unlisted = rules.pop("unlisted", None)

    def build(table: pa.Table) -> ObservedTensor:
        return table_to_tensor(
            table, layout.modes, layout.value, labels=layout.labels, index_base=layout.index_base or 0,
            lists=layout.lists, owners=layout.owners, number=number, bins=layout.bins, quiet=True, **rules,
        )  # fmt: skip

    if picked.cut is None:
        reader = picked.read
        assert reader is not None  # pick_format takes care of that
        tensor = read_guarded(lambda: reader(file, layout, rules), picked.name)
        yield tensor if unlisted is None else tensor.with_unlisted(unlisted)
        return
    tables = picked.cut(file, layout, rules)
    while (table := read_guarded(lambda: next(tables, None), picked.name)) is not None:
        if table.num_rows or rules.get("out_of_range") == "drop":
            rows += table.num_rows
            try:
                tensor = read_guarded(partial(build, table), picked.name)
            except NothingListedError as error:
                nothing = error
                continue
            kept += tensor.n_entries
            yield tensor if unlisted is None else tensor.with_unlisted(unlisted)
    if nothing is not None and not kept:
        raise nothing
    if is_open(rules):
        ranges = [name for name, each in layout.bins.items() if each.start is not None]
        tell_left_out(rows - kept, rows, dict.fromkeys(layout.lists, False) | dict.fromkeys(ranges, True))


def write(tensor: ObservedTensor, path: str | Path, format: str | None = None) -> None:  # noqa: A002
    """Write a tensor; the file appears complete or not at all."""
    file = Path(path)
    picked = pick_format(file, format)
    if not file.parent.is_dir():
        raise InputError("path must lie in an existing folder. Make the folder first.")
    assert picked.write is not None  # whatever reads tensors writes them
    with replace_file(file) as temporary:
        picked.write(tensor, temporary, file.name)


def pick_format(path: Path, name: str | None = None) -> Format:
    """Return the format of a tensor file: the one that was named, or the one of the file's ending."""
    of_tensors = {key: each for key, each in formats().items() if each.read is not None}
    if name is not None:
        if name not in of_tensors:
            raise InputError(f"format must be one of {', '.join(of_tensors)}; got {name!r}.")
        return of_tensors[name]
    found = _with_ending(path)
    if found is None or found.read is None:
        raise InputError(
            "format cannot be inferred from the file's ending. "
            f"Name it, e.g. format='csv'; the formats are {', '.join(of_tensors)}."
        )
    return found


# Tables of cells.


def table_format(path: Path) -> Format:
    """Return the format of a table by its file's ending."""
    found = _with_ending(path)
    if found is None or not found.is_table:
        tables = [each for each in formats().values() if each.is_table]
        raise InputError(f"{path.name} must be a table; its name must end in {_list_endings(tables)}.")
    return found


def read_table(path: Path, *, text: Collection[str] = (), dialect: Dialect = PLAIN) -> pa.Table:
    """Read a table of cells.

    Parameters
    ----------
    path
        The file; its ending decides the format.
    text
        Names of columns that are text even if they look like numbers: the label "007" must not turn into 7.
    dialect
        How a CSV or TSV file is written; other files know that.
    """
    found = table_format(path)
    reader = found.read_table
    assert reader is not None  # or it would be no table
    check_content(path, found)
    if found.is_text and dialect != PLAIN:
        from tensorveil.tensor.files.text import read_text_table

        return read_guarded(lambda: read_text_table(path, found.name, text, dialect), found.name, path.name)
    return read_guarded(lambda: reader(path, text=text), found.name, path.name)


def write_table(table: pa.Table, path: Path, *, safe: bool = False) -> None:
    """Write a table of cells, not compressed; the file appears complete or not at all.

    With ``safe``, texts in a text file that a spreadsheet would take for formulas get an apostrophe before them.
    """
    found = table_format(path)
    if safe and not found.magic:
        from tensorveil.tensor.files.text import defuse_formulas

        table = defuse_formulas(table)
    if path.name.lower().endswith(".gz"):
        raise InputError(f"{path.name} must end in {path.with_suffix('').suffix}: tables are written uncompressed.")
    if not path.parent.is_dir():
        raise InputError(f"folder not found: {path.parent}. Make it first.")
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the name of a file, such as cells.csv.")
    assert found.write_table is not None  # whatever reads tables writes them
    with replace_file(path) as temporary:
        found.write_table(table, temporary)


# Dense arrays.


def array_format(path: Path) -> Format:
    """Return the format of a file that holds a dense array, by its ending."""
    found = _with_ending(path)
    if found is None or found.read_array is None:
        arrays = [each for each in formats().values() if each.read_array is not None]
        raise InputError(f"{path.name} must end in {_list_endings(arrays)}.")
    return found


def read_array(path: Path, variable: str | None = None) -> DenseFile:
    """Read a dense array of numbers. Nothing is unpickled.

    Parameters
    ----------
    path
        The file; its ending decides the format. An NPY file is memory-mapped.
    variable
        NPZ: the array to read, where there are several.
    """
    found = array_format(path)
    if not path.is_file():
        raise InputError(f"there is no file {path.name}. Check the path.")
    reader = found.read_array
    assert reader is not None  # array_format takes care of that
    check_content(path, found)
    return read_guarded(lambda: reader(path, variable), found.name, path.name)

"""How a text table is written: what stands between its fields, the mark of decimals, the encoding; said, or detected.

In private runs only the line of names is looked at, which is public: what a row holds must not decide how others are
read. What that line cannot tell has to be said (docs/guarantees.md#the-gate).
"""

from __future__ import annotations

import codecs
import csv
import re
import warnings
from dataclasses import dataclass
from itertools import islice

from tensorveil.errors import GuessWarning, InputError

__all__ = [
    "GUESSED",
    "PLAIN",
    "UNKNOWN",
    "Dialect",
    "decode_text",
    "detect",
    "first_line",
    "is_windows_text",
    "reads_lines_alone",
]

DELIMITERS = ",;\t|"
WINDOWS = "cp1252"  # what is no UTF-8 mostly is, or its subset Latin-1
_NAMES = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";"}
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_SAMPLE = 5000
_COMMA = re.compile(r"[+-]?(\d+),(\d+)([eE][+-]?\d+)?", re.ASCII)
_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})*", re.ASCII)  # whole numbers, perhaps with points between thousands
_POINT = re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?", re.ASCII)
_RARE = 50  # of so many fields one may be no number
THOUSANDS = (
    "numbers such as 1.234, in a file whose fields are separated by semicolons, were read with a decimal point. If "
    "points stand between thousands, write these numbers without them; say decimal='.' if this is right."
)
GUESSED = (
    "the file is no UTF-8 and was read as Windows-1252, of which Latin-1 is a part. If names look wrong, say how it is "
    "encoded, e.g. encoding='cp1250'; to say that this is right, encoding='cp1252'."
)
UNKNOWN = (
    "encoding: the line of names is no text in UTF-8. Say how the file is encoded, e.g. encoding='latin-1' or "
    "encoding='utf-16'."
)


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """How a text table is written; what is left out is detected.

    Parameters
    ----------
    delimiter
        What stands between fields: one character.
    decimal
        The mark of decimals, "." or ",".
    encoding
        "utf-8", "utf-16", "latin-1" or another encoding that Python knows.

    >>> Dialect(delimiter="tab").delimiter
    '\\t'
    """

    delimiter: str | None = None
    decimal: str | None = None
    encoding: str | None = None

    def __post_init__(self) -> None:
        if self.delimiter is not None:
            sign = _NAMES.get(self.delimiter, self.delimiter)
            if len(sign) != 1 or not sign.isascii() or sign in '"\r\n' or sign.isalnum():
                raise InputError(
                    "delimiter must be one character that is no letter, digit or quote. Try delimiter=';'."
                )
            object.__setattr__(self, "delimiter", sign)
        if self.decimal not in (None, ".", ","):
            raise InputError("decimal must be '.' or ','. Try decimal=','.")
        if self.encoding is not None:
            object.__setattr__(self, "encoding", _name_encoding(self.encoding))


PLAIN = Dialect()  # of which nothing was said


def _name_encoding(given: str) -> str:
    """Return Python's name of an encoding of text."""
    try:
        name = codecs.lookup(given).name
        "".encode(name)
        b"a\n".decode(name, errors="replace")
    except (LookupError, TypeError, ValueError):  # rot13 and others are no encodings of text
        raise InputError(
            "encoding must be one that Python knows, such as 'utf-8', 'utf-16', 'latin-1' or 'cp1252'."
        ) from None
    return "utf-8" if name == "utf-8-sig" else name


def reads_lines_alone(encoding: str) -> bool:
    """Tell whether every line of a file in this encoding can be read by itself: no shifts, no letters of many bytes.

    >>> reads_lines_alone("latin-1"), reads_lines_alone("utf-16"), reads_lines_alone("iso2022_jp")
    (True, True, False)
    """
    if encoding.startswith(("utf-8", "utf-16")):
        return True
    each = [bytes([code]).decode(encoding, errors="replace") for code in range(256)]
    return (
        all(len(letter) == 1 for letter in each)
        and each[:128] == [chr(code) for code in range(128)]
        and bytes(range(256)).decode(encoding, errors="replace") == "".join(each)
    )


def detect(head: bytes, said: Dialect, *, default: str, header: bool, private: bool) -> Dialect:
    """Return how a table is written whose first bytes are these; ``default`` is the delimiter by its name.

    The encoding is None where nothing tells it: then it is UTF-8, unless reading shows that it is none.
    """
    blind = private and not header  # then the first line is a row
    encoding = said.encoding or (None if blind else _detect_encoding(head))
    names = first_line(head, encoding)
    if private and header and said.encoding is None and "\ufffd" in names:
        raise InputError(UNKNOWN)
    delimiter = said.delimiter or (default if blind else _detect_delimiter(names, default))
    if said.decimal is not None:
        decimal = said.decimal
    elif not private:
        decimal = _detect_decimal(head, encoding, delimiter, header=header)
    elif delimiter == ";":
        raise InputError(
            "decimal must be said where fields are separated by semicolons: such files often have decimal commas, and "
            "no row is looked at to find out in private runs, or where what is missing is dropped. Say decimal=',' if "
            "numbers have commas, else decimal='.' here."
        )
    else:
        decimal = "."
    return Dialect(delimiter=delimiter, decimal=decimal, encoding=encoding)


def _detect_encoding(head: bytes) -> str | None:
    """Return the encoding that a mark of byte order, or zeros between the letters of the first line, tell."""
    if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return encoding
    names = head.lstrip(b"\r\n").split(b"\n", 1)[0].strip(b"\r\0")
    if b"\0" not in names or len(names) < 2:
        return None
    even, odd = names[::2], names[1::2]  # the zeros before the first and behind the last letter are stripped
    if not odd.strip(b"\0") and b"\0" not in even:
        return "utf-16-be" if head.lstrip(b"\r\n").startswith(b"\0") else "utf-16-le"
    return None


def decode_text(content: bytes) -> str:
    """Return a whole text in the encoding that it is in, as far as that can be told; errors are those of codecs.

    >>> decode_text("café".encode("utf-16")), decode_text(b"plain")
    ('café', 'plain')
    """
    encoding = _detect_encoding(content) or "utf-8"
    if encoding == "utf-8":
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError:
            if not is_windows_text(content):
                raise
        warnings.warn(GUESSED, GuessWarning, stacklevel=2)
        encoding = WINDOWS
    return content.decode(encoding).removeprefix("\ufeff")


def first_line(head: bytes, encoding: str | None) -> str:
    """Return the first line that is not empty; what is no text becomes U+FFFD."""
    text = head.decode(encoding or "utf-8", errors="replace").lstrip("\ufeff\r\n")
    return re.split(r"[\r\n]", text, maxsplit=1)[0]


def _detect_delimiter(names: str, default: str) -> str:
    """Return the sign that separates most names."""
    plain = re.sub(r'"[^"]*"?', "", names)
    counts = {sign: plain.count(sign) for sign in (default, *DELIMITERS)}
    most = max(counts.values())
    return next(sign for sign, count in counts.items() if count == most) if most else default


def _detect_decimal(head: bytes, encoding: str | None, delimiter: str, *, header: bool) -> str:
    """Return the mark of decimals that the first rows show: a comma if some column is of numbers with commas alone.

    Three digits behind every comma may be thousands; where nothing else tells, the comma is not taken for a decimal.
    """
    text = head.decode(encoding or "utf-8", errors="replace")
    rows = text.splitlines()[: _SAMPLE + 1]
    rows = rows[1 if header else 0 : None if text.endswith("\n") else -1]  # the last may be cut
    columns: list[list[str]] = []
    try:
        for row in islice(csv.reader(rows, delimiter=delimiter), _SAMPLE):
            columns += [[] for _ in range(len(row) - len(columns))]
            for column, field in zip(columns, row, strict=False):
                if field.strip():
                    column.append(field.strip())
    except csv.Error:
        return "."
    return "," if any(_has_decimal_commas(column, delimiter) for column in columns) else "."


def _has_decimal_commas(fields: list[str], delimiter: str) -> bool:
    found = [_COMMA.fullmatch(field) for field in fields]
    with_comma = [match for match in found if match is not None]
    others = [field for match, field in zip(found, fields, strict=True) if not (match or _WHOLE.fullmatch(field))]
    # A few fields may be no numbers, which reading will say of them; none may be one in another writing.
    if not with_comma or _RARE * len(others) > len(fields) or any(_POINT.fullmatch(field) for field in others):
        return False
    return delimiter == ";" or any(len(match[2]) != 3 or match[1] == "0" for match in with_comma)


def may_have_thousands(head: bytes, dialect: Dialect) -> bool:
    """Tell whether some column of a table with semicolons is of numbers such as 1.234, whose point may be no decimal.

    >>> may_have_thousands(b"a;b;v\\nx;y;1.234\\nx;z;987\\n", Dialect(delimiter=";"))
    True
    """
    if dialect.delimiter != ";" or dialect.decimal == ",":
        return False
    rows = head.decode(dialect.encoding or "utf-8", errors="replace").splitlines()[1 : _SAMPLE + 1]
    columns: dict[int, list[str]] = {}
    for row in rows:
        for place, field in enumerate(row.split(";")):
            columns.setdefault(place, []).append(field.strip().strip('"'))
    return any(
        any("." in field for field in column) and all(_GROUPED.fullmatch(field) for field in column if field)
        for column in columns.values()
    )


def is_windows_text(sample: bytes) -> bool:
    """Tell whether bytes are text in Windows-1252, of which Latin-1's letters are a part: no codes that control.

    >>> is_windows_text("café".encode("latin-1")), is_windows_text(bytes(8))
    (True, False)
    """
    try:
        text = sample.decode(WINDOWS)
    except UnicodeDecodeError:
        return False
    return not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", text)

"""Move torch from requirements.lock to requirements-torch.lock: `make lock` runs this.

Everything is installed by hash but torch, which is another file at each registry: one needs the libraries of a graphics
card, which that registry has, and the other, 2.13.0+cpu, does not. A list of hashes made at one would refuse the other,
and so would the name of its build.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
HEAD = """\
# Without a hash, because registries hold different builds of it; requirements.lock pins everything else by hash, and so
# most of what torch needs. `make lock` writes this file.
"""


def main() -> None:
    """Rewrite both files."""
    lock = ROOT / "requirements.lock"
    text = lock.read_text(encoding="utf-8")
    found = re.search(r"^(torch==[^ +\\\n]+)[^\n]*\n(?: [^\n]*\n)*", text, flags=re.MULTILINE)
    if found is None:
        raise SystemExit("requirements.lock does not pin torch. Was it compiled with the extra learning?")
    lock.write_text(text[: found.start()] + text[found.end() :], encoding="utf-8")
    (ROOT / "requirements-torch.lock").write_text(f"{HEAD}{found[1]}\n", encoding="utf-8")


if __name__ == "__main__":
    main()

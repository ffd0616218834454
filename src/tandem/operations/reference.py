"""Writes the reference in `docs/reference` from the declarations, so that it cannot say anything else.

python -m tandem.operations.reference           write the pages
python -m tandem.operations.reference --check   exit status 1 if one is not current, or something has no words
"""

from __future__ import annotations

import sys
from pathlib import Path

from tandem.operations.reference_pages import PAGES
from tandem.operations.reference_schema import Undocumented

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "reference"
"""Only a checkout has it; an installed package cannot write the pages."""


def pages() -> dict[str, str]:
    """Every page's text by its file name.

    Raises:
        Undocumented: A part of the contract is not described.
    """
    return {name: render() for name, render in PAGES.items()}


def stale(folder: Path, wanted: dict[str, str]) -> list[str]:
    """What in the folder differs from the pages as they should be, in words."""
    found = {path.name: path.read_text("utf-8") for path in folder.glob("*.md")}
    missing = [f"{name} is missing" for name in wanted if name not in found]
    changed = [f"{name} is not current" for name, text in wanted.items() if name in found and found[name] != text]
    foreign = [f"{name} is no generated page" for name in sorted(found) if name not in wanted]
    return [*missing, *changed, *foreign]


def main(arguments: list[str], folder: Path = FOLDER) -> int:
    """Write the pages, or compare them with the source; the exit status."""
    try:
        wanted = pages()
    except Undocumented as error:
        for name in error.names:
            sys.stderr.write(f"{name} has no description; write one where it is declared or in reference_words.py\n")
        return 1
    if "--check" not in arguments:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in wanted.items():
            (folder / name).write_text(text, encoding="utf-8", newline="\n")
        return 0
    faults = stale(folder, wanted)
    for fault in faults:
        sys.stderr.write(f"docs/reference: {fault}; run: make docs\n")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The stylesheet of highlighted words: `python -m tandem.faces.web.diffs.stylesheet` writes it anew.

The colours stand here so that a test can compute their contrast with everything that may be behind them.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from tandem.faces.web.diffs.syntax import CLASSES

COLOURS = {
    "hk": ("#7a1fa2", "#d6a8f0"),
    "hf": ("#1d4f9c", "#8fbdf5"),
    "ht": ("#0f5a63", "#76cbd6"),
    "hs": ("#0b5a3c", "#8fd3a4"),
    "hn": ("#8a3a00", "#f0b27a"),
    "hc": ("#4f5955", "#a7b0ac"),
    "ha": ("#74500a", "#dcc27a"),
    "hm": ("#8c2050", "#f2a3c2"),
}
"""For each class its colour on light and on dark ground."""


def stylesheet() -> str:
    """The text of `static/syntax.css`."""
    lines = ["/* Written by `python -m tandem.faces.web.diffs.stylesheet`; change the colours there. */", ""]
    for name, what in CLASSES.items():
        light, dark = COLOURS[name]
        slant = " font-style: italic;" if name == "hc" else ""
        lines.append(f".{name} {{ color: light-dark({light}, {dark});{slant} }} /* {what} */")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the stylesheet where it is served from."""
    Path(str(files("tandem.faces.web") / "static" / "syntax.css")).write_text(stylesheet(), "utf-8")


if __name__ == "__main__":
    main()

"""Ready workflows for hand-off cycles, each a TOML file to copy from, with comments that explain it."""

from __future__ import annotations

from importlib.resources import files


def examples() -> dict[str, str]:
    """The text of each example by the name of its workflow, in the order of the names."""
    found = {file.name: file for file in files(__name__).iterdir() if file.name.endswith(".toml")}
    return {name.removesuffix(".toml"): file.read_text("utf-8") for name, file in sorted(found.items())}

"""Examples for the help of commands: `examples.txt` has them, under the words that call each."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from rich.markup import escape


@cache
def examples() -> dict[str, list[str]]:
    """The lines of each command, such as `review create`."""
    sections = Path(__file__).with_name("examples.txt").read_text("utf-8").strip().split("\n\n")
    return {title.strip("[]"): lines for title, *lines in map(str.splitlines, sections)}


def epilog(command: str) -> str | None:
    """What stands at the end of a command's help; None without examples."""
    lines = examples().get(command)
    return "[bold]Examples[/bold]\n\n" + "\n\n".join(f"  {escape(line)}" for line in lines) if lines else None

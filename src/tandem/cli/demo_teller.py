"""The demonstration's teller: says what happens as it happens, and insists that it is what must happen."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from rich.padding import Padding
from rich.text import Text

from tandem.cli.demo_mcp import ToolRefused
from tandem.cli.demo_stage import Finished, SceneFailed, Stage
from tandem.cli.render.parts import diff as coloured
from tandem.cli.terminal import console

_STYLES = {
    "proposer": "bold cyan",
    "reviewer": "bold magenta",
    "gate": "bold yellow",
    "log": "bold blue",
    "gemini": "bold cyan",
    "codex": "bold green",
    "writer": "bold cyan",
    "editor": "bold green",
}
_SHOWN_OF_SECRET = 3


class Teller:
    """Prints scenes, lines and commands, and no secret that it was told of.

    Attributes:
        stage: Where the demonstration plays.
    """

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self._console = console()
        self._secrets: set[str] = set()

    @property
    def secrets(self) -> frozenset[str]:
        """Every key and token that was masked."""
        return frozenset(self._secrets)

    def masked(self, secret: str) -> str:
        """A key or token as it may be shown, such as `psk_hz3…`; from now on it is never printed whole."""
        self._secrets.add(secret)
        kind, _, rest = secret.partition("_")
        # What tells one token from another is at its end; what stands before it names the session or the broker's key.
        telling = rest if kind == "psk" else rest.rpartition("_")[2]
        return f"{kind}_{telling[:_SHOWN_OF_SECRET]}…"

    def scene(self, title: str) -> None:
        """Begin a scene."""
        self._print(Text(f"\n{title}", style="bold underline"))

    def tell(self, who: str, what: str) -> None:
        """Say what somebody does, in a line."""
        self._print(Text.assemble((f"{who:>9}", _STYLES[who]), "  ", what))

    def show_diff(self, content: str) -> None:
        """Show a diff below the line of who sends it."""
        self._print(coloured(content), indent=11)

    def show_lines(self, lines: list[str]) -> None:
        """Show lines of a file or a listing below the line that speaks of them."""
        self._print(Text("\n".join(lines), style="dim"), indent=11)

    async def run(self, *arguments: str, status: int = 0) -> Finished:
        """Run `tandem`, show what it says, and insist on its exit status.

        Raises:
            SceneFailed: It ended with another one.
        """
        self._print(Text(f"  $ tandem {' '.join(_quoted(argument) for argument in arguments)}", style="bold"))
        finished = await self.stage.tandem(*arguments)
        if finished.output:
            self._print(Text(finished.output, style="dim"), indent=4)
        expect_equal(f"exit status of tandem {' '.join(arguments[:2])}", finished.status, status)
        return finished

    def _print(self, text: Text, *, indent: int = 0) -> None:
        if any(secret in text.plain for secret in self._secrets):
            raise SceneFailed("a key or a token was about to be printed whole")
        if indent:
            self._console.print(Padding(text, (0, 0, 0, indent), expand=False))
        else:
            self._console.print(text, soft_wrap=True)


def expect(condition: bool, what: str, seen: object = None) -> None:  # noqa: FBT001 - an assertion
    """Insist on something.

    Raises:
        SceneFailed: It is not so.
    """
    if not condition:
        raise SceneFailed(f"expected that {what}" + (f"; saw: {seen}" if seen is not None else ""))


def expect_equal(what: str, actual: object, expected: object) -> None:
    """Insist on a value; neither may be a secret.

    Raises:
        SceneFailed: It is another.
    """
    if actual != expected:
        raise SceneFailed(f"{what}: expected {expected!r}, got {actual!r}")


async def expect_refusal(what: str, code: str, call: Awaitable[object]) -> dict[str, Any]:
    """Insist that a call is refused; answers with the error.

    Raises:
        SceneFailed: It was taken, or refused with another code.
    """
    try:
        await call
    except ToolRefused as refusal:
        expect_equal(f"the refusal of {what}", refusal.code, code)
        return refusal.error
    raise SceneFailed(f"{what} was taken")


def _quoted(argument: str) -> str:
    return f"'{argument}'" if " " in argument else argument

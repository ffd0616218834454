"""What only a person may decide: agents are refused, and people are asked at their terminal."""

from __future__ import annotations

from tandem.cli.terminal import indented
from tandem.errors import Forbidden
from tandem.hooks import person


def refuse_agents(question: str) -> None:
    """Go on only if no agent runs the command.

    Args:
        question: What is to be decided; begins the refusal.

    Raises:
        Forbidden: An agent runs it.
    """
    mark = person.agent_mark()
    if mark is not None:
        raise Forbidden(
            f"{question} That is a person's to decide, and an agent runs this command ({mark} is set)."
            " Ask the person to run it in their own terminal.",
            needed="person",
        )


def confirm(question: str, *, unasked: Exception) -> None:
    """Go on only if the person at the terminal says yes.

    Args:
        question: With everything that has to be known to answer it.
        unasked: What to raise where there is no terminal.

    Raises:
        Forbidden: They said no.
    """
    answer = person.ask(f"{indented(question)} Type yes: ")
    if answer is None:
        raise unasked
    if answer.lower() not in {"y", "yes"}:
        raise Forbidden("Nothing was changed.", needed="person")

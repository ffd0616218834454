"""The application that a part of the screen belongs to, with its type."""

from __future__ import annotations

from textual.app import App
from textual.message_pump import MessagePump


def host(part: MessagePump) -> App[None]:
    """The application."""
    return part.app  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - Textual leaves it open

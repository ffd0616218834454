"""What a person has typed and not sent: kept until it is, whatever is refused and whichever dialog is left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class Draft:
    """A text that is being written, and what was chosen with it.

    Attributes:
        text: As far as it has been typed.
        choice: The option chosen beside it; null for the dialog's own first choice.
    """

    text: str = ""
    choice: str | None = None

    def clear(self) -> None:
        """Forget it, as it has been sent."""
        self.text, self.choice = "", None


@dataclass(frozen=True, slots=True)
class Spot:
    """A line of a round's content.

    Attributes:
        path: The file.
        line: Its number after the change; null for the file as a whole.
    """

    path: str
    line: int | None


@dataclass(slots=True)
class Drafts:
    """Everything unsent, by review."""

    _texts: dict[tuple[str, str], Draft] = field(default_factory=dict[tuple[str, str], Draft])
    _remarks: dict[tuple[str, int], dict[Spot, str]] = field(default_factory=dict[tuple[str, int], dict[Spot, str]])

    def text(self, review_id: str, purpose: str) -> Draft:
        """The draft of a dialog, which is the same one each time it is opened."""
        return self._texts.setdefault((review_id, purpose), Draft())

    def remarks(self, review_id: str, round_number: int) -> Mapping[Spot, str]:
        """The comments on lines of a round that go with the next verdict."""
        return self._remarks.get((review_id, round_number), {})

    def remark(self, review_id: str, round_number: int, spot: Spot, body: str) -> None:
        """Keep a comment on a line; an empty one is taken back."""
        kept = self._remarks.setdefault((review_id, round_number), {})
        if body.strip():
            kept[spot] = body
        else:
            kept.pop(spot, None)

    def sent(self, review_id: str, round_number: int) -> None:
        """Forget a round's comments, as they have gone with a verdict."""
        self._remarks.pop((review_id, round_number), None)

    def unsent(self) -> list[str]:
        """The reviews for which something was typed and not sent."""
        texts = [review_id for (review_id, _), draft in self._texts.items() if draft.text.strip()]
        remarks = [review_id for (review_id, _), kept in self._remarks.items() if kept]
        return sorted({*texts, *remarks})

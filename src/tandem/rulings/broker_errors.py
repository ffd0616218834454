"""How asking the broker ends without an answer that counts."""

from __future__ import annotations

from tandem.bridge.credentials import REFUSED_CODE
from tandem.bridge.http import HttpFailure, NotSent

TYPE_CHECKING = False  # as in `git`
if TYPE_CHECKING:
    from typing import Any

    from tandem.bridge.location import BrokerLocation


class Refused(Exception):
    """The broker answered, and said no.

    Attributes:
        code: Of the contract.
        details: Its facts.
    """

    def __init__(self, code: str, message: str, details: dict[str, Any]) -> None:
        super().__init__(message)
        self.code = code
        self.details = details

    @property
    def wants_token(self) -> bool:
        """Whether it was not looked at, for want of an access token that counts: with one the same call may pass."""
        return self.code == REFUSED_CODE


class Unreachable(Exception):
    """No broker answered; whether it acted is unknown.

    Attributes:
        location: Where it was looked for.
        reason: The failure, in words.
    """

    def __init__(self, location: BrokerLocation, reason: Exception | str, trouble: str = "") -> None:
        where = f" at {location.url}" if location.url else ""
        failure = reason if isinstance(reason, HttpFailure) else None
        super().__init__(f"The Tandem broker{where} cannot be reached ({reason}). {trouble}{location.advice(failure)}")
        self.location = location
        self.reason = reason

    @property
    def may_start(self) -> bool:
        """Whether a broker may be started in its place: it is the user's own, and has not been asked anything."""
        return self.location.is_own and (self.location.url is None or isinstance(self.reason, NotSent))

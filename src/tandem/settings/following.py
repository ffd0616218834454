"""The settings of a broker that runs: the user's file is read again when it changes.

An agent of the same user can write that file. Its reviewer pool is taken up as a repository's would be,
where it tightens; all of it only with the proof that a person chose it, which `tandem reviewers setup` leaves.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from tandem.core.files import stamp
from tandem.errors import TandemError
from tandem.rulings import proof
from tandem.settings import names
from tandem.settings import pool as pool_settings
from tandem.settings.config import Settings, load_settings, user_file
from tandem.settings.names import Mark
from tandem.settings.policy import Policy
from tandem.settings.pool import PoolSettings

_LOOK_SECONDS: Final = 0.5
_log = logging.getLogger("tandem.settings")


def pool_proof() -> Path:
    """Where the proof is that a person chose the reviewer pool of the user's file."""
    return user_file().with_name("reviewer_pool.proof")


def pool_facts(pool: PoolSettings) -> list[object]:
    """What that proof seals."""
    return [pool_settings.TABLE, pool.model_dump(mode="json")]


class FollowedSettings:
    """The settings that hold, and what became of the file's last change.

    Attributes:
        current: The settings that hold.
        policy: What of them services decide by.
        options: What a command line may have said, which no file changes.
        waiting: Settings that the file has otherwise by now, and that need a restart.
    """

    def __init__(self, settings: Settings, person_key: str) -> None:
        """Begin with what a start has read; the key is that of a person's proofs."""
        self._person_key = person_key
        self.waiting: list[str] = []
        self._problem: str | None = None
        self.options = {name: getattr(settings, name) for name in ("host", "port", "data_dir")}
        self._stamp = stamp(user_file())
        self._hold(settings)

    def _hold(self, settings: Settings) -> None:
        self.current = settings
        self.policy = Policy._make(getattr(settings, name) for name in Policy._fields)

    @property
    def problem(self) -> str | None:
        """Why the file as it is now has no effect; None if it has, or is about to be read."""
        return self._problem if stamp(user_file()) == self._stamp else None

    async def follow(self, apply: Callable[[Settings], Awaitable[None]]) -> None:
        """Take each change of the file over, until cancelled.

        Args:
            apply: Has the broker go by these settings; raises a `TandemError` if it cannot.
        """
        at_start = self.current
        seen = self._stamp
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            before, seen = seen, stamp(user_file())
            # Twice the same: some editors leave no file for a moment, or write it in parts.
            if seen == before != self._stamp:
                self._stamp = seen
                await self._take_over(at_start, apply)

    async def _take_over(self, at_start: Settings, apply: Callable[[Settings], Awaitable[None]]) -> None:
        try:
            now = (await asyncio.to_thread(load_settings, self.options)).settings
            changed = self.current.model_copy(update={name: getattr(now, name) for name in _AT_ONCE})
            pool, unproved = await asyncio.to_thread(self._pool_of, now.reviewer_pool)
            changed = changed.model_copy(update={pool_settings.TABLE: pool})
            await apply(changed)
        except (TandemError, OSError) as error:  # with it a supervisor that does not answer in time
            self._problem = str(error) or type(error).__name__
            _log.warning("the settings stay as they were: %s", self._problem)
            return
        taken = sorted(name for name in _AT_ONCE if getattr(changed, name) != getattr(self.current, name))
        self._hold(changed)
        self._problem = None
        self.waiting = unproved + sorted(name for name in _LATER if getattr(now, name) != getattr(at_start, name))
        said = [", ".join(found) or "nothing" for found in (taken, self.waiting)]
        _log.info("%s was read again; taken up: %s; it takes a restart for: %s", user_file(), *said)

    def _pool_of(self, wanted: PoolSettings) -> tuple[PoolSettings, list[str]]:
        """The pool that may hold at once, and the settings of it that may not."""
        if self._is_proved(wanted):
            return wanted, []
        holds = self.current.reviewer_pool
        tighter, unproved = holds.model_dump(), list[str]()
        for name in PoolSettings.model_fields:
            old, new = getattr(holds, name), getattr(wanted, name)
            if old != new and names.loosening(PoolSettings, name, old, new) is not None:
                unproved.append(f"{pool_settings.TABLE}.{name}")
            else:
                tighter[name] = new
        return pool_settings.load(tighter), sorted(unproved)

    def _is_proved(self, pool: PoolSettings) -> bool:
        try:
            stated = pool_proof().read_text("ascii").split()
        except (OSError, ValueError):
            return False
        sealed = f"{proof.PERSON}.{proof.seal(self._person_key, pool_facts(pool))}"
        return any(hmac.compare_digest(one, sealed) for one in stated)


_AT_ONCE: Final = frozenset(name for name in Settings.model_fields if names.has(Settings, name, Mark.AT_ONCE))
_LATER: Final = Settings.model_fields.keys() - _AT_ONCE

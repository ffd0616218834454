"""Starting the broker that a hook needs and does not find; the bridge starts it likewise. Imported only then."""

from __future__ import annotations

import os
import time

from tandem.bridge.broker import start_broker
from tandem.bridge.http import Stranger
from tandem.bridge.keys import without_secrets
from tandem.core.visible import say
from tandem.hooks.ask import Unreachable

TYPE_CHECKING = False  # as in `git`
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

WAIT_SECONDS = 15.0
"""The longest that a hook waits; a start takes one or two, and one that fails is noticed at once."""

_LOOK_SECONDS = 0.05
_TELL_SECONDS = 3.0


def answered(missed: Unreachable, ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The answer of the broker that is started on the data folder of the one that was missed.

    Args:
        missed: How it was missed.
        ask: Looks where it is by now, and asks again.

    Raises:
        Refused: It refuses.
        Unreachable: It could not be started, or does not answer in time; with the reason.
    """
    folder = missed.location.data_dir
    if not os.path.isdir(folder):
        raise Unreachable(missed.location, missed.reason, f"It cannot be started: there is no folder {folder}. ")
    # Git's variables say where a commit is made, which is nothing to a broker.
    environment = {name: value for name, value in without_secrets().items() if not name.startswith("GIT_")}
    port = ("--port", "0") if isinstance(missed.reason, Stranger) else ()
    try:
        launched = start_broker(folder, port, environment)
    except OSError as error:
        raise Unreachable(missed.location, missed.reason, f"It cannot be started: {error}. ") from error
    say("The broker does not run: it is being started.")
    began = told = time.monotonic()
    while True:
        # Asked once more after its end: it may have ended because another one was quicker.
        has_ended, now = launched.has_ended(), time.monotonic()
        try:
            return ask()
        except Unreachable as error:
            if has_ended or now - began > WAIT_SECONDS or not error.may_start:
                how = "ended" if has_ended else f"did not answer within {WAIT_SECONDS:g} s"
                words = launched.last_words() or "nothing"
                trouble = f"One was started and {how}. It said ({launched.log}):\n{words}\n"
                raise Unreachable(error.location, error.reason, trouble) from error
        if now - told > _TELL_SECONDS:
            told = now
            say(f"Waiting for the broker ({now - began:.0f} s) …")
        time.sleep(_LOOK_SECONDS)

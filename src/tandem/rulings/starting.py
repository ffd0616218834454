"""Starting the broker that a hook needs and does not find, and other commands of ours. Imported only then."""

from __future__ import annotations

import os
import time

from tandem.bridge.broker import start_broker, start_log
from tandem.bridge.credentials import without_secrets
from tandem.core import platforms
from tandem.core.visible import say
from tandem.rulings.broker_errors import Unreachable

TYPE_CHECKING = False  # as in `git`
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tandem.bridge.broker import Launch

_LOOK_SECONDS = 0.05
_TELL_SECONDS = 3.0


def answered(missed: Unreachable, config_dir: str, ends: float, ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The answer of the broker that is started on the data folder of the one that was missed.

    Args:
        missed: How it was missed.
        config_dir: The folder of the settings, as the gate has it on record.
        ends: Until when it is waited for, by the monotonic clock. A start takes one second or two; one that fails is
            noticed at once.
        ask: Looks where it is by now, and asks again.

    Raises:
        Refused: It refuses.
        Unreachable: It could not be started, or does not answer in time; with the reason.
    """
    folder = missed.location.data_dir
    if not os.path.isdir(folder):
        raise Unreachable(missed.location, missed.reason, f"It cannot be started: there is no folder {folder}. ")
    settings = os.environ.get("TANDEM_CONFIG_DIR") or platforms.config_dir()
    if os.path.realpath(settings) != os.path.realpath(config_dir):
        # Neither the committer nor a git folder from elsewhere chooses the settings that it judges by.
        other = f"It is not started from here: the gate's record has the settings in {config_dir}, not in {settings}. "
        missed.location.config_dir = config_dir
        raise Unreachable(missed.location, missed.reason, other)
    # Git's variables say where a commit is made, which does not concern a broker.
    environment = {name: value for name, value in without_secrets().items() if not name.startswith("GIT_")}
    # The committer sets the others: they must not say which paths the gate exempts.
    environment.pop("TANDEM_GATE_EXEMPT", None)
    began = told = time.monotonic()
    launched = None
    say("The broker does not run: it is being started.")
    try:
        with open(start_log(folder), "ab") as log:
            while True:
                # One hook at a time starts it; if it gives up, one that waits behind it tries in its place.
                is_first = launched is None and platforms.lock_file(log.fileno())
                # Before it asks: it may have ended because another one was quicker.
                has_ended, now = launched is not None and launched.has_ended(), time.monotonic()
                try:
                    return ask()
                except Unreachable as error:
                    if has_ended or now > ends or not error.may_start:
                        raise Unreachable(
                            error.location, error.reason, _trouble(launched, now - began, has_ended)
                        ) from error
                if is_first:
                    launched = start_broker(folder, environment=environment)
                if now - told > _TELL_SECONDS:
                    told = now
                    say(f"Waiting for the broker ({now - began:.0f} s) …")
                time.sleep(_LOOK_SECONDS)
    except OSError as error:
        raise Unreachable(missed.location, missed.reason, f"It cannot be started: {error}. ") from error


def in_background(*command: str, data_dir: str) -> None:
    """Have a command of ours run, without waiting for it.

    Args:
        command: The arguments of `tandem`.
        data_dir: The data folder that it works on.

    Raises:
        OSError: It cannot be started.
    """
    environment = {**without_secrets(), "TANDEM_DATA_DIR": data_dir}
    # -P: else Python would import modules that stand in the repository that we run in.
    arguments = ["-P", "-m", "tandem", *command]
    with open(os.devnull, "wb") as nowhere:
        platforms.start_detached(arguments, os.getcwd(), environment, nowhere)


def _trouble(launched: Launch | None, seconds: float, has_ended: bool) -> str:  # noqa: FBT001 - the sentence needs it
    """The outcome of a start, with the broker's last words."""
    said = f"One was started and {'ended' if has_ended else f'did not answer within {seconds:.0f} s'}."
    words = launched.last_words() if launched is not None else ""
    return f"{said} It said ({launched.log}):\n{words}\n" if launched is not None and words else f"{said} "

"""`tandem service …`: the broker is started at login, by systemd or launchd."""

from __future__ import annotations

import os
from typing import Any

from tandem.cli.broker import DataDirOption, show_facts, stop_seconds
from tandem.cli.terminal import EnvelopeOption, Exit, say, show_data, tell
from tandem.settings.config import load_settings
from tandem.settings.instance import find_running
from tandem.setup import service as services
from tandem.setup.background import is_ready
from tandem.setup.clients import home_folder


def install(*, data_dir: DataDirOption = None, as_json: EnvelopeOption = False) -> None:
    """Start the broker at each login, and now. Called again, the service takes over what has changed.

    The service has the [bold]PATH[/bold] of the shell that you call this in: reviewers' programs have to be on it.
    """
    loaded = load_settings({"data_dir": data_dir})
    folder = loaded.settings.data_dir
    service = services.required_service(home_folder(), os.environ)
    start = services.broker_start(loaded, os.environ, stop_seconds(loaded.settings))
    changed = services.install(service, start)
    running = services.wait_until_ready(
        service, folder, lambda seconds: say(f"Waiting for the broker ({round(seconds)} s) …")
    )
    stays = service.process() != running.pid
    left_out = sorted(
        name for name in loaded.origins.values() if name.startswith("TANDEM_") and name != "TANDEM_DATA_DIR"
    )
    if as_json:
        facts = {"file": str(service.file), "changed": changed, "url": running.url, "pid": running.pid}
        show_data({**facts, "runs_already": stays, "left_out": left_out})
        return
    say(f"The broker is started at each login ({service.file}).")
    if stays:
        say(
            f"One runs already (process {running.pid}) and goes on, without the service. For the service's own now:"
            " tandem down, then tandem service install"
        )
    else:
        say(f"It runs at {running.url} (process {running.pid}).")
    if left_out:
        say(f"The service does not have this shell's {', '.join(left_out)}. Put into config.toml what is to last.")


def status(*, as_json: EnvelopeOption = False) -> Exit:
    """Say whether the service is installed, whether login starts it, and whether it runs."""
    service = services.required_service(home_folder(), os.environ)
    words = service.command() if service.is_installed else []
    stated = words[words.index("--data-dir") + 1] if "--data-dir" in words else None
    running = find_running(load_settings({"data_dir": stated}).settings.data_dir)
    facts: dict[str, Any] = {
        "installed": service.is_installed,
        "enabled": service.is_enabled(),
        "running": service.process() is not None,
        "manager": service.manager,
        "file": str(service.file),
        "program": words[0] if words else None,
        "broker": running.url if running is not None and is_ready(running.url) else None,
    }
    if as_json:
        show_data(facts)
    else:
        show_facts(facts)
    return Exit.DONE


def remove(*, as_json: EnvelopeOption = False) -> Exit:
    """Stop the service, and no longer start the broker at login. Its data stays."""
    service = services.required_service(home_folder(), os.environ)
    was_running = service.process() is not None
    was_installed = services.remove(service)
    ended = "The service is removed" if was_installed else "No service was installed"
    words = f"{ended}{', and its broker has stopped' if was_running else ''}."
    return tell({"removed": was_installed, "stopped": was_running, "file": str(service.file)}, words, as_json=as_json)

"""What has to be right before any reviewer is started: found out at once, rather than by reviewers that fail."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Mapping

from tandem import pool_settings
from tandem.errors import ConfigInvalid
from tandem.pool_settings import PoolSettings
from tandem.reviewers import REENTRY_VARIABLE, providers, templates

_log = logging.getLogger("tandem.supervisor")


def check(settings: PoolSettings, environment: Mapping[str, str]) -> None:
    """Refuses what cannot work, and warns of what may come right by itself. Blocks for the disk.

    Args:
        settings: The pool's settings.
        environment: What the reviewers inherit.

    Raises:
        ConfigInvalid: This process is itself part of a reviewer, or the provider or the template cannot be used.
    """
    if environment.get(REENTRY_VARIABLE) or os.environ.get(REENTRY_VARIABLE):
        raise ConfigInvalid(
            f"{REENTRY_VARIABLE} is set: this process was started by a reviewer, and a reviewer must not run reviewers."
            " Start the supervisor outside of it.",
            setting=pool_settings.TABLE,
        )
    providers.provider(settings.provider, settings.command)
    form = templates.AGENT if settings.mode == "agent" else templates.REVIEW
    templates.load_template(settings.prompt_template_path, form)
    program = (settings.command or (settings.provider,))[0]
    search_path = environment.get("PATH", os.defpath)
    if not pool_settings.THROUGH_WSL and shutil.which(program, path=search_path) is None:
        _log.warning("the reviewers' program %r is not on the PATH; until it is, they end at once", program)

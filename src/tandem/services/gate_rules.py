"""The rules of one project's gate: what the person who runs the broker set, and what they trusted of the project."""

from __future__ import annotations

import logging
from pathlib import Path

from tandem.config import PROJECT_FILE, load_settings
from tandem.errors import TandemError
from tandem.services.context import Services

_log = logging.getLogger("tandem.gate")


def exempt_patterns(services: Services, project: str) -> tuple[str, ...]:
    """The patterns of paths that the gate of a project sets aside. Blocks: it may read the project's file."""
    usual = services.policy.gate_exempt
    root = services.projects.root(project)
    file = Path(root, PROJECT_FILE) if root is not None else None
    if root is None or file is None or not file.exists():
        return usual
    try:
        loaded = load_settings(project_root=Path(root))
    except TandemError as error:
        # A file that cannot be read must neither close the gate for good nor open it.
        _log.warning("the project's settings cannot be used", extra={"project": project, "problem": error.message})
        return usual
    return loaded.settings.gate_exempt if loaded.origins["gate_exempt"] == str(file) else usual

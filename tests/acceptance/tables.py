"""Tables of cases beside the tests that try them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


def table(name: str, folder: Path = Path(__file__).parent) -> Any:
    """The table of this name, without its ending."""
    return yaml.load((folder / f"{name}.yaml").read_text("utf-8"), yaml.CSafeLoader)

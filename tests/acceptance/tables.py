"""Tables of cases beside the tests that try them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


def table(name: str) -> Any:
    """The table of this name, without its ending."""
    return yaml.load(Path(__file__).with_name(f"{name}.yaml").read_text("utf-8"), yaml.CSafeLoader)

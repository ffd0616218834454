"""Settings as they are shown: each with its value, its origin and its purpose, and never with a password.

Imports nothing of the services, so that the command line can use it without a broker.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, cast

from tandem.rulings import planning, trust
from tandem.settings import names
from tandem.settings.config import LoadedSettings, Settings, masked, user_file

_HIDDEN: Final = "***"
_COMMANDS: Final = frozenset({"command", "verify_command"})
_SECRET_NAME: Final = re.compile(r"(?i)^(-.*|[a-z0-9_]*)(key|token|secret|passw(or)?d|authorization)$")
_SECRET_VALUE: Final = re.compile(
    r"://[^/@\s]*:[^@\s]*@|\b(?:sk|ghp|gho|xox[a-z])[-_][A-Za-z0-9_-]{16,}|(?i:bearer )\S"
)


def described(loaded: LoadedSettings) -> dict[str, Any]:
    """All settings as JSON values, secrets masked."""
    return {
        "settings": {
            key: {
                "value": shown(key, getattr(loaded.settings, key)),
                "origin": loaded.origins[key],
                "description": field.description,
                "takes_effect": names.takes_effect(Settings, key),
                "advanced": names.has(Settings, key, names.Mark.ADVANCED),
            }
            for key, field in Settings.model_fields.items()
        },
        "ignored": [{"key": one.key, "origin": one.origin, "reason": one.reason} for one in loaded.ignored],
        "trusted": list(loaded.trusted),
        "reviewer_pool_origins": dict(loaded.pool_origins),
    }


def shown(key: str, value: Any) -> Any:
    """A setting's value as JSON, without passwords and without what follows a word such as `--api-key`."""
    plain = masked(key, value)
    if isinstance(plain, dict):
        table = cast("dict[str, Any]", plain)
        return {name: shown(name, inner) for name, inner in table.items()}
    if key == "profile":
        return [shown("", one) for one in plain]
    if key in _COMMANDS:
        return [*_without_secrets(plain)]
    return plain


def _without_secrets(words: Iterable[str]) -> Iterator[str]:
    """The words of a command line, each that may be a secret left out."""
    follows = False
    for word in words:
        name, equals, value = word.partition("=")
        is_named = bool(_SECRET_NAME.search(name))
        if (follows and not word.startswith("-")) or _SECRET_VALUE.search(word):
            yield _HIDDEN
        elif is_named and equals and value:
            yield f"{name}={_HIDDEN}"
        else:
            yield word
        follows = is_named and not equals


def of_planning(root: str) -> dict[str, dict[str, Any]]:
    """GSD's three settings of Tandem's: the value that holds, its file, and a looser one that is not trusted."""
    found = planning.read(root)
    holds = planning.effective(found, trusted=trust.trusts(str(user_file().parent), found.root, found.sources))
    values: dict[str, tuple[bool | str, bool | str]] = {
        planning.ENABLED: (holds.tandem_enabled, found.tandem_enabled),
        planning.GRANULARITY: (holds.granularity, found.granularity),
        planning.MODE: (holds.mode, found.mode),
    }
    return {
        key: {
            "value": value,
            "origin": str(Path(found.root, found.origins[key])) if key in found.origins else "default",
            "ignored": stated if stated != value else None,
        }
        for key, (value, stated) in values.items()
    }

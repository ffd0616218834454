"""What `tandem init` did in a working tree, for the next `init` and for `uninit`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from tandem.errors import ConfigInvalid

FILE: Final = "init.json"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Ledger:
    """Where a manifest of the user's own files is.

    Attributes:
        file: The manifest.
        tree: The folder that the files are in.
        label: What stands before their names when they are shown.
    """

    file: str
    tree: str
    label: str


@dataclass(frozen=True, slots=True)
class Initial:
    """What was done.

    Attributes:
        project: The project's name; null before the broker gave one.
        registered: Whether it was registered for this.
        gate: Whether the agents' hooks were written.
        switched: Whether the gate was switched on for this.
        clients: The clients that were set up.
        ledgers: The manifests of files outside of the project.
        broker: The URL that the person named; null for the broker that runs for this user.
    """

    project: str | None = None
    registered: bool = False
    gate: bool = False
    switched: bool = False
    clients: tuple[str, ...] = ()
    ledgers: tuple[Ledger, ...] = ()
    broker: str | None = None

    def content(self) -> bytes:
        """As it is kept."""
        return json.dumps({"version": _VERSION, **asdict(self)}, indent=1).encode() + b"\n"


def load(folder: Path) -> Initial | None:
    """What was done, by Tandem's folder in the git folder; null if nothing was.

    Raises:
        ConfigInvalid: It cannot be read.
    """
    file = folder / FILE
    try:
        facts: dict[str, Any] = json.loads(file.read_bytes())
        if facts.pop("version") != _VERSION:
            raise ConfigInvalid(f"{file} was written by another version of Tandem; use that.", file=str(file))
        ledgers = tuple(Ledger(**ledger) for ledger in facts.pop("ledgers"))
        return Initial(clients=tuple(facts.pop("clients")), ledgers=ledgers, **facts)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigInvalid(f"{file} cannot be read: {error.strerror or error}.", file=str(file)) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigInvalid(
            f"{file} is damaged. Delete it, and run 'tandem init' again before 'tandem uninit'.", file=str(file)
        ) from error

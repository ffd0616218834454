"""Finding operations by the names that clients use."""

from __future__ import annotations

from tandem.contract.operation import Operation, Registry


def find_operation(registry: Registry, name: str) -> Operation | None:
    """The operation of that name, or of its dotted spelling (`session.open` for `session_open`)."""
    found = registry.find(name)
    if found is None and is_dotted(name):
        found = registry.find(name.replace(".", "_"))
    return found


def is_dotted(name: str) -> bool:
    """Whether a name has the spelling in which hand-off cycles were first published."""
    return "." in name

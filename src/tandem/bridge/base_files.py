"""What `create_review` takes along to a broker that has not the repository: the touched files as the base has them."""

from __future__ import annotations

from tandem.bridge.location import is_local

TYPE_CHECKING = False  # as in `credentials`
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

OPERATION = "create_review"
_FIELD = "base_files"


def is_wanted(url: str, arguments: Mapping[str, Any], projects: Mapping[str, str], project: str | None) -> bool:
    """Whether a broker may need the base's files for a proposal.

    Args:
        url: The broker's address.
        arguments: Those of `create_review`.
        projects: The folders of the broker's registered projects; empty for those without one.
        project: The one that is meant; null if that is not known.
    """
    roots = [root for name, root in projects.items() if project in {None, name}]
    # A folder on another machine may lack the base that somebody names. Without a base the broker's own counts.
    may_lack_base = not is_local(url) and arguments.get("base") is not None
    return any(not root or may_lack_base for root in roots)


def with_base_files(arguments: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """The arguments of `create_review` with the base's files; as they are where there are none to send."""
    given = dict(arguments)
    diff, path, base = given.get("diff"), given.get("path"), given.get("base")
    if (diff is None and path is None) or given.get(_FIELD) is not None or given.get("skip_diff_validation"):
        return given
    from pathlib import Path

    from tandem.errors import TandemError
    from tandem.git.repository import Repository  # for those alone whose broker is elsewhere

    try:
        with Repository.discover(Path(folder)) as repository:
            found, files = repository.base_files(diff, path, base)
    except (TandemError, TypeError, AttributeError):
        # The broker says what is wrong with the change, or that it has not the files.
        return given
    return {**given, "base": found, _FIELD: [one.as_json() for one in files]}

"""What `create_review` takes along to a broker that has not the repository: the touched files as the base has them."""

from __future__ import annotations

import os

from tandem.bridge.location import is_local
from tandem.bridge.project import places, top_level

TYPE_CHECKING = False  # as in `credentials`
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

OPERATION = "create_review"
_FIELD = "base_files"


def is_elsewhere(url: str, folder: str, projects: Mapping[str, str], project: str | None) -> bool:
    """Whether a broker has another folder for a project than the one that somebody works in, or none.

    Args:
        url: The broker's address.
        folder: Where they work.
        projects: The folders of the broker's registered projects; empty for those without one.
        project: The one that is meant; null if that is not known.
    """
    roots = [root for name, root in projects.items() if project in {None, name}]
    tops = {top_level(place) for place in places(folder)}
    # What stands under the same path on another machine is another repository.
    is_here = is_local(url) and any(root and os.path.realpath(root) in tops for root in roots)
    return bool(roots) and not is_here


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

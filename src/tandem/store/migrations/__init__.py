"""The steps from an older schema to the current one, oldest first; they only go forward.

`python tools/migration.py "what changed"` writes the next one from the difference to the tables.
"""

from __future__ import annotations

from typing import Final

REVISIONS: Final = (
    "0037_claims_beside",
    "0038_found_in",
)
"""Every revision, so that a database can be judged without importing Alembic. A test compares them."""

ADDITIVE: Final[frozenset[str]] = frozenset({"0038_found_in"})
"""The revisions that brokers of the version before can go on working with: they only add tables, indexes, or columns
that are nullable or have a default, and all that the older version writes and reads keeps its meaning. A revision that
is not named here runs only while no other broker is connected. Remove a table or column in a later release than the
one that has stopped using it."""

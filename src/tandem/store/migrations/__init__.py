"""The steps from an older schema to the current one, oldest first; they only go forward.

`python -m tandem.store.migrations "what changed"` writes the next one from the difference to the tables.
"""

from __future__ import annotations

from typing import Final

REVISIONS: Final = (
    "0001_initial",
    "0002_cycles",
    "0003_reviewer_pool",
    "0004_gates",
    "0005_viewed_files",
    "0006_access_tokens",
    "0007_ended_logins",
    "0008_acceptors",
    "0009_keyed_log",
    "0010_checks",
    "0011_gate_record",
    "0012_activity",
    "0013_webhooks",
    "0014_base_files",
    "0015_removed_contents",
    "0016_counter_slots",
    "0017_mirrors",
    "0018_removed_payloads",
    "0019_grounds",
    "0020_epochs",
    "0021_quota_pauses",
    "0022_access_mode",
)
"""Every revision, so that a database can be judged without importing Alembic. A test compares them."""

ADDITIVE: Final = frozenset({"0018_removed_payloads", "0020_epochs", "0021_quota_pauses", "0022_access_mode"})
"""The revisions that brokers of the version before can go on working with: they only add tables, indexes, or columns
that are null or have a default, and what the older version writes and reads means what it did. A revision that is not
named here runs only while no other broker is connected. What is to be removed is removed in a later release than the
one that has stopped using it.

`0017_mirrors` is not among them: who does not know the column writes events of a project that say nothing of its
mirror, so that the log would no longer give what is stored."""

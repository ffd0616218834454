"""The first version: its tables were made by Tandem 0.1.0 itself."""

from __future__ import annotations

revision = "0001_initial"
down_revision = None


def upgrade() -> None:
    """Nothing: no database is older, and a fresh one begins with the newest tables (`tandem.store.schema`)."""

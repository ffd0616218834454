"""The schema of this version of Tandem: the tables of all subjects, and the migrations that lead to them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from tandem.access import queries as access_tables
from tandem.cycles import queries as cycle_tables
from tandem.gate import queries as gate_tables
from tandem.landings import queries as landing_tables
from tandem.pool import queries as pool_tables
from tandem.projects import queries as project_tables
from tandem.reviews import tables as review_tables
from tandem.store import migrations
from tandem.store.schema import Schema
from tandem.store.tables import metadata
from tandem.webhooks import queries as webhook_tables

SUBJECTS: Final = (
    *(access_tables, project_tables, review_tables, gate_tables, cycle_tables, landing_tables, pool_tables),
    webhook_tables,
)
"""Each adds its tables to the metadata when it is imported."""

TANDEM: Final = Schema(metadata, migrations.REVISIONS, Path(migrations.__file__).parent, additive=migrations.ADDITIVE)
"""What a broker brings its database to."""
UNCHANGED: Final = replace(TANDEM, changes=False)
"""For readers beside a broker, which must not bring its database to another version."""

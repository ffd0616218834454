"""P8 for hand-off cycles: the audit names every change to their rows or events behind the broker's back.

An audit is a process of its own, so that each of these does several things at once, to subjects of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tandem.store.event import Event
from tests.acceptance.gated import DIRECT, FORK, GATED, Team, config_dir
from tests.acceptance.tables import table
from tests.acceptance.test_p8_audit import Archive, copy_of
from tests.broker import BrokerProcess, fresh_project

ANY = 424242
CYCLES: dict[str, Any] = table("forgeries")["cycles"]


class Stored(Archive):
    """What a broker that has stopped left behind, to be spoilt.

    Attributes:
        names: Subjects by their part in these tests: `{complete}` is the id of a complete cycle, and so on.
    """

    names: ClassVar[dict[str, str]] = {}

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Rows of the database, with the names filled in."""
        return self.all(statement.format_map(self.names))

    def forge(self, statement: str) -> None:
        """Change something; there must be something to change."""
        assert self.change(statement.format_map(self.names)), statement

    def missing(self, expected: list[str]) -> list[str]:
        """The expected problems that the audit does not report."""
        found = self.problems()
        return [each for each in (one.format_map(self.names) for one in expected) if each not in found]


def whole_history(url: str) -> dict[str, str]:
    """Creates cycles, sessions and keys that between them leave every kind of row behind; their names."""
    names: dict[str, str] = {}
    project = fresh_project()
    with Team(url, project, DIRECT) as team:
        team.enrol()
        for name in ("oldest", "archived", "complete"):
            team.to_refine()
            names[name] = team.cycle_id
            team.do("cycle_complete", **team.tokens("gemini"))
            if name != "complete":
                team.do("cycle_archive", **team.tokens("gemini"))
        team.do("session_close", session_token=team.sessions["gemini"])
        names["project"] = project
    with Team(url, project, GATED) as team:
        team.enrol()
        team.begin()
        refused = team.put_forward("gemini", "codex")
        team.decide(refused, "rejected")
        team.pass_on("gemini", "codex")
        team.put_forward("codex", "gemini")
        names["gated"] = team.cycle_id
        team.do("cycle_rotate", role="gemini")
        for role in ("gemini", "codex"):
            team.do("cycle_revoke", role=role)
    with Team(url, project, FORK) as team:
        team.enrol()
        team.begin()
        names["fresh"] = team.cycle_id
        # A few more, so that each forgery has a session of its own.
        for number, role in enumerate(("writer", "editor", "printer")):
            names[f"session{number}"] = team.do("session_open", role=role, psk=team.keys[role])["session_id"]
        ended = team.do("session_open", role="writer", psk=team.keys["writer"])
        team.do("session_close", session_token=ended["session_token"])
        names["ended"] = ended["session_id"]
    return names


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    """A history that is all well, and no broker running on it; rows are read and hashed alike on each database."""
    folder = tmp_path_factory.mktemp("original")
    broker = BrokerProcess(folder, config_dir=config_dir(folder / "config"))
    with broker:
        Stored.names = whole_history(broker.url)
    return Stored.left_by(broker, {})


@pytest.fixture
def stored(request: pytest.FixtureRequest, original: Stored, tmp_path: Path) -> Iterator[Stored]:
    """A copy of that history."""
    with copy_of(original, tmp_path, request) as copy:
        yield copy


def test_p8_rows_that_were_changed_are_detected(stored: Stored):
    expected: list[str] = []
    for rows, one in CYCLES["rows"].items():
        names = one["columns"].split()
        spoilt = ", ".join(f"{name[:-1]} = 'x'" if name[-1] == "*" else f"{name} = {ANY}" for name in names)
        # What no event restores may change without anybody's complaint.
        free = {"sessions": f", last_seen_at = {ANY}"}.get(rows, "")
        stored.forge(f"UPDATE {rows} SET {spoilt}{free} WHERE {one['where']}")
        expected.append(f"{one['said']} differs from the log in {', '.join(names).replace('*', '')}")
    # And what somebody might want.
    for change, said in CYCLES["changes"].items():
        stored.forge(f"UPDATE {change}")
        expected.append(said.replace("#", "differs from the log in"))
    assert stored.missing(expected) == []


def copied(stored: Stored, table: str, where: str, **changed: str) -> None:
    """Put in a copy of a row with other values in some columns."""
    names: list[str] = [row[0] for row in stored.rows(f"SELECT name FROM pragma_table_info('{table}')")]
    values = ", ".join(changed.get(name, name) for name in names)
    stored.forge(f"INSERT INTO {table} ({', '.join(names)}) SELECT {values} FROM {table} WHERE {where}")


def test_p8_rows_that_were_removed_or_put_in_are_detected(stored: Stored):
    one = "cycle_id = '{archived}' AND number = 1"
    copied(stored, "handoffs", one, number="9")
    copied(stored, "handoffs", one, cycle_id="'of-no-cycle'")
    copied(stored, "cycles", "id = '{archived}'", id="'invented'")
    copied(stored, "cycle_keys", "workflow = 'fork' AND role = 'editor'", role="'intruder'")
    copied(stored, "sessions", "id = '{session0}'", id="'ss_invented'")
    stored.forge("DELETE FROM handoffs WHERE cycle_id = '{archived}' AND number = 1")
    stored.forge("DELETE FROM cycles WHERE id = '{fresh}'")
    stored.forge("DELETE FROM cycle_keys WHERE project = '{project}' AND workflow = 'direct' AND role = 'codex'")
    stored.forge("DELETE FROM sessions WHERE id IN ('{ended}', '{session0}')")
    expected: list[str] = CYCLES["gone_or_invented"]
    assert stored.missing(expected) == []


def number_of(stored: Stored, kind: str) -> int:
    """The number of one of these events, the newest of its kind and subject."""
    subject = CYCLES["events"][kind]
    return stored.rows(f"SELECT max(seq) FROM events WHERE kind = '{kind}' AND subject = '{subject}'")[0][0]


def test_p8_events_that_were_changed_removed_or_put_in_are_detected(stored: Stored):
    expected: list[str] = []
    forgeries = ["actor = 'somebody'", "data = replace(data, 'workflow', 'job')", "delta = replace(delta, '1', '2')"]
    newest = stored.rows("SELECT max(seq) FROM events")[0][0]
    removed: set[int] = set()
    for position, (kind, subject) in enumerate(CYCLES["events"].items()):
        number, invented = number_of(stored, kind), newest + position + 1
        copied(stored, "events", f"seq = {number}", seq=str(invented))
        stored.forge(f"UPDATE events SET {forgeries[position % 3]} WHERE seq = {number}")
        said = f"({kind} of {subject}) was changed: its hash does not fit"
        expected += [f"event {each} {said}" for each in (number, invented)]
        oldest = stored.rows(f"SELECT min(seq) FROM events WHERE kind = '{kind}'")[0][0]
        stored.forge(f"DELETE FROM events WHERE seq = {oldest}")
        removed.add(oldest)
    problems = stored.problems()
    # Neighbours are told as one.
    gaps = re.findall(r"events (\d+) to (\d+) are missing", problems)
    assert {number for first, last in gaps for number in range(int(first), int(last) + 1)} == removed
    assert [each for each in expected if each.format_map(stored.names) not in problems] == []


def test_p8_who_can_make_hashes_is_betrayed_by_the_checkpoint(stored: Stored):
    """A forger who has the broker's secret too, and changes the row to go with the event."""
    number = number_of(stored, "cycle_completed")
    event = Event(*stored.rows(f"SELECT * FROM events WHERE seq = {number}")[0])
    forged = event._replace(actor="somebody").sealed(stored.broker.seal)
    stored.forge(f"UPDATE events SET actor = 'somebody', hash = '{forged.hash}' WHERE seq = {number}")
    stored.forge(f"UPDATE cycles SET event_hash = '{forged.hash}' WHERE event_hash = '{event.hash}'")
    problems = stored.audit()["problems"]
    assert len(problems) == 1
    assert "checkpoint" in problems[0]

"""The archive of a cycle: a folder that has everything about it, that can be checked, and that no secret is in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.acceptance.cycling import Crew
from tests.acceptance.gated import check_archive
from tests.broker import BrokerProcess, StartBroker, fresh_project

pytest_plugins = ["tests.acceptance.cycling_crews"]

TWICE_REWORKED = ("codex", "gemini") * 3


def content(archive: Path) -> dict[str, Any]:
    """Every file of an archive, by its name within."""
    return {
        file.relative_to(archive).as_posix(): json.loads(file.read_text("utf-8"))
        for file in archive.rglob("*")
        if file.is_file()
    }


def played(crew: Crew, *targets: str, feature: str = "Größe der Anmeldung \U0001f510") -> list[dict[str, Any]]:
    """A cycle up to its completion; the payloads that were handed over."""
    crew.start(feature)
    sent: list[dict[str, Any]] = []
    for number, target in enumerate(targets, 1):
        handing = crew.handing(target, notes=[f"Nummer {number} \u2028 \u6f22"], extras={"number": number})
        sent.append(handing["payload"])
        crew.do("handoff_write", **handing)
    crew.complete()
    return sent


def test_an_archive_has_the_whole_cycle_and_nothing_else(crew: Crew, broker: BrokerProcess):
    sent = played(crew, *TWICE_REWORKED)
    complete = crew.status()
    archive = crew.archive()
    assert archive in [folder / "archives" / crew.cycle["cycle_id"] for folder in broker.data_dirs]
    files = content(archive)
    handoffs = [f"handoffs/{number:03}-{target}.json" for number, target in enumerate(TWICE_REWORKED, 1)]
    assert sorted(files) == sorted(["manifest.json", "state.json", "lock.json", "workflow.json", *handoffs])
    assert [files[name] for name in handoffs] == sent

    history = crew.do("get_cycle", cycle_id=crew.cycle["cycle_id"])
    assert files["state.json"] == history["cycle"]
    assert files["lock.json"] == history["lock"]
    assert (files["lock.json"]["locked"], files["lock.json"]["role"]) == (False, "gemini")
    assert files["lock.json"].keys() == {"locked", "role", "acquired_at"}
    assert files["workflow.json"] == {"name": "frontend-backend", **history["definition"]}
    assert files["manifest.json"]["format"] == 1
    assert {one["status"] for one in files["manifest.json"]["handoffs"]} == {"advanced"}
    check_archive(crew, archive)
    state = files["state.json"]
    assert (state["phase"], state["active_role"], state["handoffs"]) == ("complete", "gemini", 6)
    assert state["created_at"] == complete["created_at"]
    assert state["created_at"] < state["completed_at"] < state["archived_at"]
    # It is the user's alone, and nothing is left of how it was made.
    for place in (archive.parent, archive, *archive.rglob("*")):
        assert place.stat().st_mode & 0o077 == 0, place
    assert [place for place in archive.parent.iterdir() if crew.cycle["cycle_id"] in place.name] == [archive]


def test_while_the_folder_cannot_be_written_the_cycle_stays_complete(
    start_broker: StartBroker, database_settings: dict[str, object], tmp_path: Path
):
    archives = tmp_path / "archives"
    broker = start_broker(archive_dir=archives, **database_settings)
    archives.write_text("in the way", "utf-8")
    with Crew(broker.url, fresh_project()) as crew:
        crew.prepare()
        sent = played(crew, "codex", "gemini")
        keyed = {**crew.tokens(), "idempotency_key": "archive"}
        with crew.unchanged():
            for _ in range(2):
                details = crew.refused("UNAVAILABLE", "cycle_archive", **keyed)
                assert details["folder"] == str(archives / crew.cycle["cycle_id"])
                assert json.loads(crew.refusals[-1])["error"]["retryable"] is True
            assert str(archives) in crew.refusals[-1]
        crew.refused("CYCLE_ALREADY_ACTIVE", "cycle_start", feature="Next")
        assert archives.read_text("utf-8") == "in the way"
        archives.unlink()
        # The same call again, as the refusal says; its answer stands from now on.
        answer = crew.do("cycle_archive", **keyed)
        assert answer == crew.do("cycle_archive", **keyed)
        files = content(Path(answer["archive"]))
        assert [files["handoffs/001-codex.json"], files["handoffs/002-gemini.json"]] == sent
        assert crew.status()["phase"] is None
        crew.start("Next")
    broker.assert_intact()

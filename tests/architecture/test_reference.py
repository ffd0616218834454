"""The reference pages say what the declarations do, and nothing of the contract goes without words."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

import reference
from reference_parts import Undocumented, answer_fields, request_fields
from tandem import errors
from tandem.contract.operation import READ, Operation, Role
from tandem.contract.request import Refusals, Request
from tandem.server.catalogue import REGISTRY
from tandem.settings.config import Settings
from tandem.store.event import EventKind


class Empty(Request):
    """A request without fields."""

    refusals: ClassVar[Refusals] = ()


class Unrefused(Request):
    """A request that does not say what it is refused with."""


class Silent(Request):
    """A request whose field nobody described."""

    unheard_of: int = 0


def operation(name: str, request: type[Request], answer: type[Request] = Silent) -> Operation:
    return Operation(name, "review", "quiet", request, answer, frozenset({Role.ADMIN}), READ)


def test_the_pages_in_the_repository_are_current() -> None:
    assert reference.stale(reference.FOLDER, reference.pages()) == [], "run: make docs"


def test_a_page_that_is_not_current_fails_with_the_command_to_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reference.main([], tmp_path) == 0
    assert reference.main(["--check"], tmp_path) == 0
    (tmp_path / "errors.md").write_text("old\n", "utf-8")
    (tmp_path / "events.md").unlink()
    (tmp_path / "left-over.md").write_text("old\n", "utf-8")
    assert reference.main(["--check"], tmp_path) == 1
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(": ")[2] for line in said] == [
        "events.md is missing; run: make docs",
        "errors.md is not current; run: make docs",
        "left-over.md is no generated page; run: make docs",
    ]


def test_an_error_without_words_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(errors.StaleClaim, "__doc__", "The claim is over.")
    assert reference.main(["--check"]) == 1
    assert "STALE_CLAIM has no description" in capsys.readouterr().err


def test_an_event_without_words_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_but_one(_kind: type[EventKind]) -> dict[EventKind, str]:
        return dict.fromkeys({*EventKind} - {EventKind.CHECKPOINT}, "It happened.")

    monkeypatch.setattr(reference, "member_docs", all_but_one)
    with pytest.raises(Undocumented, match="checkpoint"):
        reference.events()


def test_a_setting_without_words_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Settings.model_fields["port"], "description", None)
    with pytest.raises(Undocumented, match="port"):
        reference.settings()


def test_a_field_or_an_operation_without_words_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "REGISTRY", (operation("list_projects", Silent),))
    with pytest.raises(Undocumented, match=r"Silent\.unheard_of"):
        reference.operations()
    monkeypatch.setattr(reference, "REGISTRY", (operation("unknown", Empty, Empty),))
    reference.operations()
    monkeypatch.setattr(Empty, "__doc__", None)
    with pytest.raises(Undocumented, match="unknown"):
        reference.operations()
    monkeypatch.setattr(reference, "REGISTRY", (operation("unrefused", Unrefused, Empty),))
    with pytest.raises(Undocumented, match="unrefused"):
        reference.operations()


def test_every_operation_and_field_is_on_the_page() -> None:
    page = reference.operations()
    for one in REGISTRY:
        assert f"\n## {one.name}\n" in page
        assert f"`POST /api/v1/{one.name}`" in page
        assert f"`tandem {one.noun} {one.verb}`" in page
        for fields, inner in (request_fields(one), answer_fields(one)):
            names = [field.name for field in (*fields, *(each for those in inner.values() for each in those))]
            assert [name for name in names if f"| `{name}` |" not in page] == []


def test_limits_and_defaults_are_told() -> None:
    page = reference.operations()
    assert "| `reviewer_id` | text | required | 1 to 200 characters |" in page
    assert "| `limit` | integer | `50` | at least 1 | Rows per page, at most 200. |" in page
    assert "| `port` | `TANDEM_PORT` | integer | `8321` | 0 to 65 535 |" in reference.settings()


def test_the_life_cycle_shows_steps_guards_and_generations() -> None:
    page = reference.life_cycle()
    rows = {line.split(" ")[1]: line for line in page.splitlines() if line.startswith("| ")}
    assert rows["expire"].count("`pending`, g+1") == 2
    assert rows["revise"].endswith("| `pending`, r+1 | – | – |")
    assert "last reviewer only" in rows["reviewer_message"]
    assert "`closed`, withdrawn" in rows["close"]

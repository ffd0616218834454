"""The reference pages say what the declarations do, and nothing of the contract goes without words."""

from __future__ import annotations

from pathlib import Path

import pytest

from tandem import errors
from tandem.config import Settings
from tandem.contract.operation import READ, Operation, Role
from tandem.contract.request import Request
from tandem.domain.events import Kind
from tandem.operations import reference, reference_pages, reference_words
from tandem.operations.catalogue import REGISTRY
from tandem.operations.reference_schema import Undocumented, answer_fields, request_fields


class Empty(Request):
    """A request without fields."""


class Silent(Request):
    """A request whose field nobody described."""

    unheard_of: int = 0


def operation(name: str, request: type[Request]) -> Operation:
    return Operation(name, "review", "quiet", request, Silent, frozenset({Role.ADMIN}), READ)


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
    monkeypatch.delitem(reference_words.ADVICE, "STALE_CLAIM")
    assert reference.main(["--check"]) == 1
    assert "STALE_CLAIM has no description" in capsys.readouterr().err


def test_an_event_without_words_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(reference_words.EVENTS, Kind.CHECKPOINT)
    with pytest.raises(Undocumented, match="checkpoint"):
        reference_pages.events()


def test_a_setting_without_words_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Settings.model_fields["port"], "description", None)
    with pytest.raises(Undocumented, match="port"):
        reference_pages.settings()


def test_a_field_or_an_operation_without_words_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference_pages, "REGISTRY", (operation("list_projects", Silent),))
    with pytest.raises(Undocumented, match=r"Silent\.unheard_of"):
        reference_pages.operations()
    monkeypatch.setattr(reference_pages, "REGISTRY", (operation("unknown", Empty),))
    monkeypatch.setitem(reference_words.FIELDS, "unheard_of", "Something.")
    with pytest.raises(Undocumented, match="unknown"):
        reference_pages.operations()


def test_every_operation_and_field_is_on_the_page() -> None:
    page = reference_pages.operations()
    for one in REGISTRY:
        assert f"\n## {one.name}\n" in page
        assert f"`POST /api/v1/{one.name}`" in page
        assert f"`tandem {one.noun} {one.verb}`" in page
        for fields, inner in (request_fields(one), answer_fields(one)):
            names = [field.name for field in (*fields, *(each for those in inner.values() for each in those))]
            assert [name for name in names if f"| `{name}` |" not in page] == []


def test_limits_and_defaults_are_told() -> None:
    page = reference_pages.operations()
    assert "| `reviewer_id` | text | required | 1 to 200 characters |" in page
    assert "| `limit` | integer | `50` | at least 1 | Rows a page, at most 200. |" in page
    assert "| `port` | `TANDEM_PORT` | integer | `8321` | 0 to 65 535 |" in reference_pages.settings()


def test_the_codes_of_operations_exist_and_all_operations_have_theirs() -> None:
    named = {code for codes in reference_words.CODES.values() for code in codes}
    assert named <= errors.by_code().keys()
    assert reference_words.CODES.keys() == {one.name for one in REGISTRY}


def test_the_life_cycle_shows_steps_guards_and_generations() -> None:
    page = reference_pages.life_cycle()
    rows = {line.split(" ")[1]: line for line in page.splitlines() if line.startswith("| ")}
    assert rows["expire"].count("`pending`, g+1") == 2
    assert rows["revise"].endswith("| `pending`, r+1 | – | – |")
    assert "last reviewer only" in rows["reviewer_message"]
    assert "`closed`, withdrawn" in rows["close"]

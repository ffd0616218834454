"""Findings at the command line: listed, for other tools, answered, settled, and what keeps an approval back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.commandline import Inside

MAJOR = {"file": "a.txt", "line": 2, "severity": "major", "claim": "A word is wanted.", "suggestion": "too"}
MINOR = {"severity": "P2", "claim": "Say why.", "failure": "No one knows."}


def found(tandem: Inside, *findings: dict[str, Any], review_id: str | None = None) -> tuple[str, list[str]]:
    """A review with findings of rita's; its id and theirs, in their order."""
    review_id = review_id or tandem.created("--agent", "robot")
    tandem.run("review", "claim", review_id, "--reviewer-id", "rita")
    given = json.dumps(findings or (MAJOR, MINOR))
    verdict = ("--verdict", "request_changes", "--reason", "not yet", "--reviewer-id", "rita")
    assert tandem.run("review", "verdict", review_id, *verdict, "--findings", given).status == 0
    listed = tandem.run("findings", review_id, "--json").data["findings"]
    return review_id, [one["finding_id"] for one in listed]


def test_findings_are_listed_with_their_numbers_and_everywhere_these_are_the_same(tandem: Inside) -> None:
    another = tandem.created("--intent", "another")
    review_id, [major, minor] = found(tandem)
    said = "2 findings: 2 open (1 keeps the approval back)"
    shown = tandem.run("findings", review_id).stdout
    assert shown.startswith(f"{said}\n")
    assert f"major  open  blocking  a.txt:2  {major}  rita" in shown
    assert f"minor  open  the whole change  {minor}" in shown
    assert shown.index("A word is wanted.") < shown.index("too") < shown.index("Say why.") < shown.index("No one knows")
    assert said in tandem.run("review", "status", review_id).stdout
    assert tandem.run("review", "show", review_id).stdout.count(said) == 2
    assert major in tandem.run("findings").stdout
    listed = tandem.run("findings", "list", "--project", tandem.project, "--status", "open", "--json").data["findings"]
    assert [one["finding_id"] for one in listed] == [major, minor]
    assert tandem.run("findings", "list", review_id).stdout == shown
    assert minor not in tandem.run("findings", review_id, "--status", "blocking").stdout
    assert "No findings." in tandem.run("findings", another).stdout


def test_what_a_finding_says_is_listed_apart(tandem: Inside) -> None:
    more = {"category": "tests", "failure": "Always.", "suggestion": "", "pre_existing": True, "end_line": 2}
    review_id, [one, *_] = found(tandem, {**MAJOR, **more, "line": 1})
    shown = [" ".join(line.split()) for line in tandem.run("findings", review_id).stdout.splitlines()]
    assert any(line.startswith(f"major open was there before the change a.txt:1-2 {one} rita") for line in shown)
    at = shown.index("A word is wanted.")
    assert shown[at + 1 : at + 4] == ["kind tests", "how it fails Always.", "suggestion delete the lines"]


def test_findings_on_the_same_lines_stand_together_below_one_heading(tandem: Inside) -> None:
    apart = {"file": "a.txt", "line": 1, "severity": "nit", "claim": "A gap."}
    small = {"file": "a.txt", "line": 2, "severity": "nit", "claim": "Odd."}
    review_id, _ = found(tandem, small, apart, MAJOR)
    lines = [line.strip() for line in tandem.run("findings", review_id).stdout.splitlines() if line.strip()]
    assert lines[:2] == ["3 findings: 3 open (1 keeps the approval back)", "2 findings on the same lines"]
    claims = [line for line in lines if line in {"A word is wanted.", "Odd.", "A gap."}]
    assert claims == ["A word is wanted.", "Odd.", "A gap."]


def test_a_finding_is_answered_and_settled_and_then_the_approval_is_free(tandem: Inside) -> None:
    review_id, [major, minor] = found(tandem)
    before = tandem.run("review", "show", review_id, "--json").data
    refused = tandem.run("review", "approve", review_id, "--agent", "rita").refusal
    assert tandem.run("review", "show", review_id, "--json").data == before
    assert f"{major} (major, a.txt:2, by rita)" in refused
    assert '"answer": "verified"}' in refused
    assert minor not in refused
    unexplained = tandem.run("findings", "answer", review_id, major, "refuted", "--agent", "robot")
    assert "REASON_REQUIRED" in unexplained.refusal
    answered = tandem.run("findings", "answer", review_id, major, "refuted", "--reason", "It is one.", "--json")
    assert (answered.data["state"], answered.data["status"]) == ("refuted", "pending")
    assert "robot: It is one." in tandem.run("findings", review_id).stdout
    upheld = json.dumps([{"finding_id": major, "answer": "upheld"}])
    assert tandem.run("review", "approve", review_id, "--answers", upheld, "--agent", "rita").status == 0
    assert "2 findings: 1 upheld, 1 open" in tandem.run("findings", review_id).stdout
    lessons = tandem.run("lessons", "list", "--files", "a.txt").stdout
    assert f"{major}  a.txt  rita agreed: It is one.\n  A word is wanted.\n" in lessons
    assert tandem.run("lessons", "remove", major).status == 0
    assert tandem.run("lessons", "list").stdout == "No lessons.\n"


def test_a_finding_of_another_review_says_from_which_it_came_wherever_it_is_shown(tandem: Inside) -> None:
    whole = {"severity": "blocker", "claim": "Use the queue."}
    first, _ = found(tandem, whole)
    tandem.run("review", "close", first, "--agent", "robot")
    again = tandem.created("--agent", "robot")
    came = f"found in {first}"
    for command in (("findings", again), ("findings",), ("findings", again, "--format", "markdown")):
        assert came in tandem.run(*command).stdout
    assert f"({came})" in tandem.run("findings", again, "--format", "rdjson").stdout.replace("open, ", "")
    [result] = json.loads(tandem.run("findings", again, "--format", "sarif").stdout)["runs"][0]["results"]
    assert result["properties"]["found_in"] == first
    given = ("review", "approve", again, "--agent", "rita")
    assert f"by rita in {first})" in tandem.run(*given).refusal
    shown = tandem.run("review", "show", again).stdout
    assert f"rita  reviewer, {came}, " in shown
    assert shown.count(came) == 2
    assert came not in tandem.run("review", "show", first).stdout


def test_a_reviewer_settles_by_a_command(tandem: Inside) -> None:
    review_id, [major, _] = found(tandem)
    assert tandem.run("findings", "answer", review_id, major, "verified", "--agent", "rita").status == 0
    assert "2 findings: 1 verified, 1 open\n" in tandem.run("findings", review_id).stdout
    assert tandem.run("review", "status", review_id).stdout.count("2 findings: 1 open\n") == 1


@pytest.mark.parametrize(
    ("form", "place"),
    [
        ("json", ("findings", 0, "finding_id")),
        ("sarif", ("runs", 0, "results", 0, "properties", "finding_id")),
        ("rdjson", ("diagnostics", 0, "location", "path")),
    ],
)
def test_a_document_for_other_tools_has_all_pages(tandem: Inside, form: str, place: tuple[str | int, ...]) -> None:
    review_id, ids = found(tandem, MAJOR, *(MINOR | {"claim": f"Claim {at}."} for at in range(230)))
    assert len(ids) == 50
    said = tandem.run("findings", review_id, "--format", form)
    assert all(f"Claim {at}." in said.stdout for at in range(230))
    one: Any = json.loads(said.stdout)
    for name in place:
        one = one[name]
    assert one in {ids[0], "a.txt"}


def test_the_list_of_drafts_says_what_each_begins_with(tandem: Inside) -> None:
    review_id = tandem.created("--agent", "robot")
    said = ("--person", "rita", "--round", "1", "--kind", "finding", "--body", "A word is wanted.\nOr two.")
    place = ("--file", "a.txt", "--line", "99", "--severity", "major")
    assert tandem.run("review", "draft", "save", review_id, "--draft-id", "d1", *said, *place).status == 0
    shown = " ".join(tandem.run("review", "draft", "list", review_id, "--person", "rita").stdout.split())
    assert "a.txt:99 (lines changed or gone) major: A word is wanted." in shown
    assert "Or two." not in shown


def test_a_document_is_no_envelope(tandem: Inside) -> None:
    review_id, _ = found(tandem)
    assert tandem.run("findings", review_id, "--format", "markdown").stdout.startswith("# Findings\n")
    assert tandem.run("findings", "list", review_id, "--format", "json", "--json").status == 2


def test_whoever_waits_for_a_verdict_reads_the_findings_and_how_to_answer(tandem: Inside) -> None:
    (tandem.cwd / "a.txt").write_bytes(b"one\n2\n")
    words = ("submit", "-m", "Count", "--wait", "--timeout", "0", "--agent", "robot")
    assert tandem.run(*words).status == 12
    review_id, [major, minor] = found(
        tandem, review_id=tandem.run("review", "list", "--json").data["reviews"][0]["review_id"]
    )
    waited = tandem.run(*words)
    assert waited.status == 10
    assert f"{major} (major, blocking) a.txt:2: A word is wanted." in waited.stderr
    assert f"{minor} (minor) the whole change: Say why." in waited.stderr
    assert "suggestion:\n  too\n" in waited.stderr
    assert f"tandem findings answer {review_id} FINDING fixed --reason" in waited.stdout

"""What counts as a reviewer's answer, what does not, and what becomes of the run (P7)."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from tandem.pool.reviewers import EndedBy, Finished
from tandem.pool.reviewers.outcomes import Outcome, outcome_of
from tandem.pool.reviewers.proof import parts_of
from tandem.pool.reviewers.verdicts import (
    EXAMPLE,
    SCHEMA,
    ReviewerAnswer,
    SettledFinding,
    Unreadable,
)
from tandem.reviews.finding_rules import ReportedFinding
from tandem.reviews.requests import SubmitVerdict
from tests.reviewers.answers import APPROVAL, DELETED, DIGEST, FINDING, GOOD, GOOD_TEXT, NONCE, SURROGATE, changed, read


def found(**values: Any) -> dict[str, Any]:
    return {"findings": [changed(FINDING, **values)]}


def refusal(text: str, **how: Any) -> str:
    with pytest.raises(Unreadable) as refused:
        read(text, **how)
    return str(refused.value)


# ------------------------------------------------------------------------------------------------- accepted


def test_an_answer_becomes_what_submit_verdict_takes() -> None:
    answer = read(json.dumps(changed(counter_patch="--- a/src/a.py\n")))
    assert answer == ReviewerAnswer(
        "changes_requested",
        "The last row is lost.",
        (ReportedFinding(**FINDING),),
        "--- a/src/a.py\n",
    )
    request = SubmitVerdict.model_validate({"review_id": "rv_1", **answer.arguments()})
    assert (request.verdict, request.reason) == (answer.verdict, answer.reason)
    assert request.findings is not None
    assert [one.model_dump() for one in request.findings] == [{**FINDING, "side": "new"}]
    assert request.counter_patch == "--- a/src/a.py\n"


@pytest.mark.parametrize(
    "text",
    [
        f"\ufeff \n{GOOD_TEXT}\n",
        json.dumps(GOOD, indent=4),
        f"```json\n{GOOD_TEXT}\n```",
        f"```\r\n{GOOD_TEXT}\r\n```\r\n",
    ],
    ids=["alone", "indented", "fenced", "fenced on Windows"],
)
def test_an_object_alone_is_an_answer(text: str) -> None:
    assert read(text) == read(GOOD_TEXT)


def test_braces_and_fences_inside_the_texts_change_nothing() -> None:
    reason = 'It prints {"verdict": "approved"} and\n```json\n{"verdict": "approved"}\n```\n}}{{ "\\'
    assert read(json.dumps(changed(reason=reason))).reason == reason


def test_what_may_be_null_may_be_left_out_or_empty() -> None:
    left_out = changed(summary=DELETED, counter_patch=DELETED, findings=DELETED, answers=DELETED, digest=DELETED)
    assert read(json.dumps(left_out), digest=None) == ReviewerAnswer("changes_requested", "The last row is lost.")
    assert read(json.dumps(changed(APPROVAL, counter_patch=" ", reason="", summary=""))) == ReviewerAnswer(
        "approved", None
    )
    optional = ("file", "line", "end_line", "category", "failure", "suggestion", "pre_existing")
    bare = json.dumps(changed(**found(**dict.fromkeys(optional, DELETED))))
    nothing: dict[str, Any] = {**dict.fromkeys(optional), "pre_existing": False}
    assert read(bare).findings == (ReportedFinding(**{**FINDING, **nothing}),)


def test_a_pair_of_surrogates_is_a_character() -> None:
    assert read(json.dumps(changed(reason="🧪 fails"), ensure_ascii=True)).reason == "🧪 fails"


def test_the_summary_is_kept_in_the_reason() -> None:
    assert (
        read(json.dumps(changed(APPROVAL, summary="All callers."))).reason == "Read all of it.\n\nChecked: All callers."
    )
    assert read(json.dumps(changed(APPROVAL, summary="All callers.", reason=""))).reason == "Checked: All callers."


def test_findings_outside_the_change_stay_findings() -> None:
    found_in = [{**FINDING, "file": name} for name in ("src/b.py", "src/a.py", "README.md")]
    for files in (frozenset({"src/a.py"}), None):
        answer = read(json.dumps(changed(findings=found_in)), files=files)
        assert [one.file for one in answer.findings] == ["src/b.py", "src/a.py", "README.md"]
        assert answer.reason == "The last row is lost."


@pytest.mark.parametrize(("word", "severity"), [("P0", "blocker"), ("High", "major"), ("nit", "nit")])
def test_a_severity_is_known_by_what_other_tools_call_it(word: str, severity: str) -> None:
    assert read(json.dumps(changed(**found(severity=word)))).findings[0].severity == severity


@pytest.mark.parametrize("file", ["a/src/a.py", "b/src/a.py", "./src/a.py", "src\\a.py"])
def test_a_file_is_known_by_how_a_diff_or_another_system_names_it(file: str) -> None:
    assert read(json.dumps(changed(**found(file=file)))).findings[0].file == "src/a.py"


# -------------------------------------------------------------------------------------------------- refused

UNREADABLE: dict[str, tuple[str, str]] = {
    "nothing": ("", "it is empty"),
    "words": ("I approve this change. LGTM!", "not one JSON object and nothing else: 'I approve this"),
    "words before": (f"My verdict: {json.dumps(APPROVAL)}", "not one JSON object"),
    "words after": (f"{json.dumps(APPROVAL)} Thanks!", "follows the JSON object, which has to stand alone: 'Thanks!'"),
    "two fences": (f"```json\n{json.dumps(APPROVAL)}\n```\n```json\n{GOOD_TEXT}\n```", "follows the JSON object"),
    "a fence in a fence": (f"```\n```json\n{json.dumps(APPROVAL)}\n```\n```", "not one JSON object"),
    "a text": ('"approved"', "not one JSON object"),
    "null, and an empty object": ("null {}", "not one JSON object"),
    "an array": (f"[{json.dumps(APPROVAL)}]", "not one JSON object"),
    "half": (json.dumps(APPROVAL)[:-1], "ends before its JSON object does"),
    "half, then whole": (
        f'{{"verdict": "rejected", "rea\n{json.dumps(APPROVAL)}',
        "no JSON (Invalid control character",
    ),
    "whole, then half": (f'{json.dumps(APPROVAL)} {{"verdict": "rejec', "follows the JSON object"),
    "two": (f"{GOOD_TEXT}\n{json.dumps(APPROVAL)}", "follows the JSON object"),
    "wrapped": (f'{{"answer": {json.dumps(APPROVAL)}}}', "has the property 'answer'"),
    "wrapped in a text": (json.dumps(json.dumps(APPROVAL)), "not one JSON object"),
    "python": ("{'verdict': 'rejected'} " + json.dumps(APPROVAL), "no JSON (Expecting property name"),
    "a trailing comma": (GOOD_TEXT[:-1] + ",}", "no JSON"),
    "a key twice": ('{"verdict": "rejected", ' + json.dumps(APPROVAL)[1:], "property 'verdict' is there twice"),
    "a key twice, escaped": ('{"\\u0076erdict": "rejected", ' + json.dumps(APPROVAL)[1:], "'verdict' is there twice"),
    "a finding's key twice": (GOOD_TEXT.replace('"line": 3', '"line": 3, "line": 4'), "'line' is there twice"),
    "NaN": (GOOD_TEXT.replace('"line": 3', '"line": NaN'), "NaN is no number"),
    "a large power": (GOOD_TEXT.replace('"line": 3', '"line": 1e999'), "findings[0].line must be a whole number"),
    "many digits": (GOOD_TEXT.replace('"line": 3', f'"line": {"9" * 5000}'), "too long to be read"),
    "deep and whole": ('{"x":' * 50_000 + "1" + "}" * 50_000, "nested too deeply"),
    "megabytes": (json.dumps(changed(APPROVAL, counter_patch="x" * 1_000_000)), "the answer has 1000"),
    "megabytes in UTF-8": (json.dumps(changed(reason="é" * 500_000), ensure_ascii=False), "the answer has 1000"),
    "NUL": (f"{GOOD_TEXT}\0", "NUL character in the answer"),
    "a lone surrogate": (f"{GOOD_TEXT}{SURROGATE}", "lone surrogate in the answer"),
}


@pytest.mark.parametrize(("text", "why"), UNREADABLE.values(), ids=UNREADABLE.keys())
def test_p7_what_is_not_one_whole_object_is_refused(text: str, why: str) -> None:
    assert why in refusal(text)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no nonce": ({"nonce": DELETED}, "nonce is missing"),
    "nonce null": ({"nonce": None}, "nonce must be a text, not null"),
    "nonce empty": ({"nonce": ""}, "nonce is not the one that this run was told to name"),
    "another nonce": ({"nonce": "00" * 16}, "nonce is not the one"),
    "no verdict": ({"verdict": DELETED}, "verdict is missing"),
    "verdict null": ({"verdict": None}, "verdict must be a text, not null"),
    "verdict true": ({"verdict": True}, "verdict must be a text, not true or false"),
    "verdict a list": ({"verdict": ["approved"]}, "verdict must be a text, not an array"),
    "verdict unknown": ({"verdict": "lgtm"}, "the verdict 'lgtm' is unknown; it must be one of approved, changes_"),
    "verdict in capitals": ({"verdict": "APPROVED"}, "is unknown"),
    "a comment": ({"verdict": "comment"}, "the verdict 'comment' decides nothing"),
    "no reason": ({"reason": DELETED}, "reason is missing"),
    "reason empty": ({"reason": " \n"}, "reason is empty, and changes_requested needs one"),
    "reason long": ({"reason": "x" * 64_001}, "reason has 64001 bytes; 64000 is the most"),
    "reason with NUL": ({"reason": "a\0b"}, "NUL character in reason"),
    "reason with surrogate": ({"reason": f"a{SURROGATE}b"}, "or a byte that is not UTF-8: 'a\\ud800b'"),
    "summary a number": ({"summary": 1}, "summary must be a text, not a number"),
    "digest a number": ({"digest": 5}, "digest must be a text"),
    "findings null": ({"findings": None}, "findings must be an array, not null"),
    "findings an object": ({"findings": {}}, "findings must be an array, not an object"),
    "a finding a text": ({"findings": ["Wrong."]}, "findings[0] must be an object, not a text"),
    "201 findings": ({"findings": [FINDING] * 201}, "there are 201 findings; 200 is the most"),
    "comments": ({"comments": []}, "the answer has the property 'comments'"),
    "no severity": (found(severity=DELETED), "findings[0].severity is missing"),
    "severity null": (found(severity=None), "findings[0].severity must be a text, not null"),
    "severity unknown": (found(severity="bad"), "findings[0].severity is 'bad'; it must be one of blocker, major, min"),
    "severity empty": (found(severity=""), "findings[0].severity is ''; it must be one of"),
    "pre-existing a text": (found(pre_existing="no"), "findings[0].pre_existing must be true, false or null, not a te"),
    "a line of no file": (found(file=None), "findings[0].file is null; a line is one of a file"),
    "an end alone": (found(line=None, end_line=4), "findings[0].line is null; end_line and suggestion go with a line"),
    "a suggestion alone": (found(line=None, suggestion="x"), "findings[0].line is null; end_line and suggestion"),
    "an end before": (found(end_line=2), "findings[0].end_line is before its line"),
    "file long": (found(file="x" * 4097), "findings[0].file has 4097 characters"),
    "file with NUL": (found(file="src/a.py\0"), "NUL character in findings[0].file"),
    "no claim": (found(claim=DELETED), "findings[0].claim is missing"),
    "claim empty": (found(claim=""), "findings[0].claim is empty"),
    "claim long": (found(claim="x" * 64_001), "findings[0].claim has 64001 bytes"),
    "claim with surrogate": (found(claim=SURROGATE), "lone surrogate in findings[0].claim"),
    "line 0": (found(line=0), "findings[0].line must be from 1"),
    "line large": (found(line=2**31), "findings[0].line must be from 1 to 2147483647"),
    "line true": (found(line=True), "findings[0].line must be a whole number or null, not true or false"),
    "line a text": (found(line="3"), "findings[0].line must be a whole number or null, not a text"),
    "a finding's property": (found(body="x"), "findings[0] has the property 'body'; it may have file"),
    "a property": ({"confidence": 1}, "the answer has the property 'confidence'; it may have nonce"),
    "patch with NUL": ({"counter_patch": "x\0"}, "NUL character in counter_patch"),
    "patch with approval": ({"verdict": "approved", "counter_patch": "x"}, "goes with changes_requested, not with app"),
    "patch with rejection": ({"verdict": "rejected", "counter_patch": "x"}, "not with rejected"),
    "too long together": (
        {"reason": "x" * 40_000, "summary": "y" * 30_000},
        "the reason, with the summary, has 70",
    ),
}


ASKED = {"fn_1": "refuted", "fn_2": "fixed", "fn_3": "open"}
SETTLED: list[dict[str, Any]] = [
    {"finding_id": "fn_1", "answer": "upheld", "reason": "So it is."},
    {"finding_id": "fn_2", "answer": "reopened", "reason": "It still fails."},
    {"finding_id": "fn_3", "answer": "verified", "reason": None},
]


def test_each_earlier_finding_is_settled() -> None:
    answer = read(json.dumps(changed(answers=SETTLED)), asked=ASKED)
    assert answer.answers == tuple(SettledFinding(**one) for one in SETTLED)
    request = SubmitVerdict.model_validate({"review_id": "rv_1", **answer.arguments()})
    assert [one.finding_id for one in request.answers or ()] == ["fn_1", "fn_2", "fn_3"]
    # A finding without an answer is open, and stays open.
    open_still = [*SETTLED[:2], {**SETTLED[2], "answer": "reopened"}]
    assert read(json.dumps(changed(answers=open_still)), asked=ASKED).answers == answer.answers[:2]


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ([], "answers says nothing of 3 earlier findings: fn_1, fn_2, fn_3"),
        (SETTLED[:2], "answers says nothing of 1 earlier findings: fn_3"),
        ([*SETTLED, SETTLED[0]], "answers[3].finding_id 'fn_1' is answered twice"),
        ([*SETTLED, {**SETTLED[0], "finding_id": "fn_9"}], "answers[3].finding_id 'fn_9' is none that the task asks"),
        ([{**SETTLED[0], "answer": "fixed"}], "answers[0].answer is 'fixed', which a finding that is refuted does not"),
        ([{**SETTLED[2], "answer": "upheld"}], "answers[0].answer is 'upheld', which a finding that is open does not"),
        ([{**SETTLED[1], "reason": " "}], "answers[0].reason is missing: reopened needs one"),
    ],
)
def test_an_answer_that_does_not_settle_the_earlier_findings_is_refused(answers: list[Any], why: str) -> None:
    for verdict in (GOOD, APPROVAL):
        assert why in refusal(json.dumps(changed(verdict, answers=answers)), asked=ASKED)


def test_nesting_that_can_just_be_read_is_refused_too() -> None:
    for depth in range(sys.getrecursionlimit() - 300, sys.getrecursionlimit(), 10):
        nested = '{"x":' * depth + "1" + "}" * depth
        refusal(f"{nested} {nested}")


@pytest.mark.parametrize(("values", "why"), WRONG.values(), ids=WRONG.keys())
def test_p7_what_does_not_have_the_form_is_refused(values: dict[str, Any], why: str) -> None:
    assert why in refusal(json.dumps(changed(**values)))


def test_at_the_limits_it_still_counts() -> None:
    findings = [{**FINDING, "line": 2**31 - 1, "claim": "é"}] * 200
    answer = read(json.dumps(changed(reason="x" * 64_000, findings=findings, counter_patch="y" * 880_000)))
    assert (len(answer.findings), len(answer.reason or ""), len(answer.counter_patch or "")) == (200, 64_000, 880_000)


@pytest.mark.parametrize("text", ["x" * 5000, "\x1b[2J" * 500, f'{{"{"y" * 5000}": 1}}', '{"verdict": "' + "é" * 5000])
def test_a_refusal_quotes_little_and_nothing_that_a_terminal_obeys(text: str) -> None:
    why = refusal(text)
    assert len(why) < 350
    assert why.isprintable()


@pytest.mark.parametrize("named", ["5f" * 31, DIGEST.upper(), f" {DIGEST}", "0" * 64, "x" * 50_000, "", None, DELETED])
def test_p7_another_digest_is_refused(named: object) -> None:
    why = refusal(json.dumps(changed(APPROVAL, digest=named)))
    assert DIGEST in why
    assert len(why) < 350


def test_p7_a_digest_is_refused_where_there_is_none() -> None:
    assert "the round under review has no digest" in refusal(json.dumps(APPROVAL), digest=None)
    assert read(json.dumps(changed(APPROVAL, digest=None)), digest=None).verdict == "approved"


def test_p7_the_example_in_the_prompt_is_an_answer_to_nothing() -> None:
    for known in ({}, {"digest": DIGEST}, {"nonce": NONCE}):
        with pytest.raises(Unreadable):
            read(json.dumps({**EXAMPLE, **known}))
    assert read(json.dumps({**EXAMPLE, "nonce": NONCE, "digest": DIGEST}), files=None).verdict == "changes_requested"


# --------------------------------------------------------------------------------------------------- the schema


def test_the_schema_is_as_strict_as_structured_outputs_demand() -> None:
    inner = (SCHEMA["properties"][name]["items"] for name in ("files", "findings", "answers"))
    for each in (SCHEMA, *inner):
        assert each["additionalProperties"] is False
        assert each["required"] == list(each["properties"])
    assert SCHEMA["properties"]["verdict"]["enum"] == ["approved", "changes_requested", "rejected"]
    known = {"type", "description", "properties", "items", "enum", "required", "additionalProperties"}
    assert keywords(SCHEMA) <= known


def keywords(schema: dict[str, Any]) -> set[str]:
    inner = [*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])]
    return set(schema).union(*map(keywords, inner))


# ------------------------------------------------------------------------------------------ what became of it


def ended(exit_code: int | None = 0, ended_by: EndedBy = "itself", *, output_was_cut: bool = False) -> Finished:
    return Finished(exit_code, b"", b"", ended_by, 1.0, output_was_cut=output_was_cut)


ANSWER = read(json.dumps(APPROVAL))
RUNS: dict[str, tuple[Finished, ReviewerAnswer | Unreadable | None, Outcome]] = {
    "answered": (ended(), ANSWER, Outcome.VERDICT),
    "silent": (ended(), None, Outcome.NO_VERDICT),
    "unreadable": (ended(), Unreadable("no"), Outcome.UNREADABLE),
    "cut": (ended(output_was_cut=True), ANSWER, Outcome.UNREADABLE),
    "too much": (ended(-9, "too_much_output", output_was_cut=True), ANSWER, Outcome.UNREADABLE),
    "failed": (ended(1), None, Outcome.CRASHED),
    "failed with an answer": (ended(1), ANSWER, Outcome.CRASHED),
    "killed": (ended(-9), ANSWER, Outcome.CRASHED),
    "no exit code": (ended(None), ANSWER, Outcome.CRASHED),
    "timeout": (ended(-15, "timeout"), ANSWER, Outcome.TIMEOUT),
    "timeout, ended in order": (ended(0, "timeout"), ANSWER, Outcome.TIMEOUT),
    "silence": (ended(-9, "silence"), None, Outcome.TIMEOUT),
    "cancelled": (ended(0, "cancelled"), ANSWER, Outcome.CANCELLED),
}


@pytest.mark.parametrize(("run", "answer", "outcome"), RUNS.values(), ids=RUNS.keys())
def test_p7_only_an_answer_of_a_program_that_ended_well_counts(
    run: Finished, answer: ReviewerAnswer | Unreadable | None, outcome: Outcome
) -> None:
    assert outcome_of(run, answer) == outcome


# -------------------------------------------------------------------------------------------- files looked at

DIFF = (
    "".join(
        f"diff --git a/{name} b/{name}\n--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-one\n+two\n"
        for name in ("a.py", "package-lock.json")
    )
    + "diff --git a/logo.png b/logo.png\nindex 1..2 100644\nBinary files a/logo.png and b/logo.png differ\n"
)
PARTS = parts_of(DIFF, None, unread={"package-lock.json", "logo.png"})


def entries(**of_first: Any) -> list[dict[str, Any]]:
    """What an answer says that it read, of the first file with these changes."""
    whole = [
        {"file": number, "nonce": part.nonce, "looked_at": "The one line.", "unread": None}
        for number, part in enumerate(PARTS, 1)
    ]
    return [changed(whole[0], **of_first), *whole[1:]]


def test_an_approval_shows_what_was_read() -> None:
    assert [part.path for part in PARTS] == ["a.py", "package-lock.json", "logo.png"]
    assert "".join(part.text for part in PARTS) == DIFF
    assert read(json.dumps(changed(APPROVAL, files=entries())), parts=PARTS).reason == "Read all of it."


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ([], "without a word on file 1 of 3, 'a.py'"),
        (entries()[1:], "without a word on file 1 of 3"),
        (entries()[:2], "without a word on file 3 of 3, 'logo.png'"),
        (entries(nonce=PARTS[1].nonce), "without the nonce behind it"),
        (entries(nonce=parts_of(DIFF, None)[0].nonce), "without the nonce behind it"),
        (entries(nonce=None), "without the nonce behind it"),
        (entries(nonce=NONCE), "without the nonce behind it"),
        (entries(looked_at=" "), "does not say which parts were looked at"),
        (entries(unread="It is generated."), "although that has lines to read"),
    ],
)
def test_p7_an_approval_of_what_was_not_read_is_none(files: list[dict[str, Any]], words: str) -> None:
    assert words in refusal(json.dumps(changed(APPROVAL, files=files)), parts=PARTS)
    assert not read(json.dumps(changed(GOOD, files=files)), parts=PARTS).read_all
    assert read(json.dumps(changed(GOOD, files=entries())), parts=PARTS).read_all


def test_what_nobody_can_read_is_named_with_the_reason() -> None:
    files = entries()
    for entry, why in zip(files[1:], ("made by npm", "an image"), strict=True):
        entry |= {"nonce": None, "looked_at": None, "unread": why}
    reason = read(json.dumps(changed(APPROVAL, files=files)), parts=PARTS).reason
    assert reason == "Read all of it.\n\nNot read:\n- package-lock.json: made by npm\n- logo.png: an image"


def test_a_text_is_read_to_its_end_too() -> None:
    parts = parts_of(None, "# Plan\n", "PLAN.md")
    assert "file 1 of 1, 'PLAN.md'" in refusal(json.dumps(APPROVAL), parts=parts)
    assert parts_of(None, None) == ()
    assert [part.text for part in parts_of("no diff at all", None)] == ["no diff at all"]

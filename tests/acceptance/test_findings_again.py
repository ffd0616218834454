"""P11: a finding goes on with the lines that it is on, whichever file, review or round makes them again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.finding import MAJOR, answered, found
from tests.acceptance.reviewing import OTHER, AgentDesk, Desk, edited
from tests.broker import BrokerProcess
from tests.databases import ON_BOTH_DATABASES
from tests.modes import VARIATION


def added(path: str, *lines: str) -> str:
    """A diff that adds a file."""
    body = "".join(f"+{line}\n" for line in lines)
    header = f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n"
    return f"{header}@@ -0,0 +1,{len(lines)} @@\n{body}"


def comes_again(agents: AgentDesk, shop: Desk, first: str, finding: dict[str, Any], then: str) -> list[dict[str, Any]]:
    """The findings of a change that follows one that was objected to for a finding, and closed."""
    review = shop.put_up(diff=first)
    agents.decide(review, "changes_requested", findings=[finding])
    shop.do("close_review", review_id=review)
    return found(shop, shop.put_up(diff=then))


CODE = (
    "def pay(total):",
    "    cents = total * 100 + surcharge",
    "    if total:",
    "        send(cents)",
    "    }",
    "    return cents",
)
MOVED = ("import x", *CODE[:1], "", *CODE[1:], "x()")
PAY = {**MAJOR, "file": "pay.py", "line": 2}


@ON_BOTH_DATABASES
@pytest.mark.parametrize(
    ("line", "lines", "ended"),
    [
        pytest.param(2, MOVED, "closed", id="lines-that-tell-among-others"),
        pytest.param(2, MOVED, "open", id="lines-that-tell-of-one-beside", marks=VARIATION),
        pytest.param(5, CODE, "open", id="a-bracket-with-the-same-lines-around"),
    ],
)
def test_p11_a_finding_goes_on_with_a_copy_of_its_lines_at_another_path(
    agents: AgentDesk, shop: Desk, line: int, lines: tuple[str, ...], ended: str
):
    review, two = shop.put_up(diff=added("pay.py", *CODE)), {"line": line, "end_line": line + (line == 2)}
    agents.decide(review, "changes_requested", findings=[{**MAJOR, "file": "pay.py", **two}])
    if ended == "closed":
        shop.do("close_review", review_id=review)
    other = shop.put_up(diff=added("lib/billing.py", *lines))
    (kept,) = found(shop, other)
    assert (kept["file"], kept["line"], kept["blocking"]) == ("lib/billing.py", lines.index(CODE[line - 1]) + 1, True)
    agents.refused(
        "OPEN_FINDINGS", "submit_verdict", review_id=other, verdict="approved", reviewer_id=OTHER, claim=True
    )
    # Of both there comes one again, and once.
    shop.do("close_review", review_id=other)
    last = shop.put_up(diff=added("lib/third.py", *CODE))
    (again,) = found(shop, last)
    assert (again["file"], again["line"]) == ("lib/third.py", line)


def test_p11_lines_that_any_file_has_bring_no_finding_of_another_file(agents: AgentDesk, shop: Desk):
    bracket, other = {**PAY, "line": 5}, added("other.c", "int main() {", "    run();", "    }", "/* end */")
    assert comes_again(agents, shop, added("pay.py", *CODE), bracket, other) == []


WHOLE_FILE = {"file": "pay.py", "severity": "major", "claim": "All of it."}
WHOLE_CHANGE = {"severity": "major", "claim": "Of the change."}


def refused(agents: AgentDesk, review: str) -> None:
    """No agent approves without a word on the open findings."""
    agents.refused(
        "OPEN_FINDINGS", "submit_verdict", review_id=review, verdict="approved", reviewer_id=OTHER, claim=True
    )


@pytest.mark.parametrize("path", ["pay.py", "money.py"])
def test_p11_a_later_round_brings_the_findings_of_the_lines_that_it_makes(agents: AgentDesk, shop: Desk, path: str):
    review = shop.put_up(diff=added("pay.py", *CODE))
    agents.decide(review, "changes_requested", findings=[PAY])
    shop.do("close_review", review_id=review)
    other = shop.put_up(diff=added(path, CODE[0]))
    assert found(shop, other) == []
    digest = shop.revise(other, diff=added(path, *CODE, "# end"))["digest"]
    (kept,) = found(shop, other)
    assert (kept["file"], kept["line"], kept["round"], kept["blocking"]) == (path, 2, 2, True)
    refused(agents, other)
    assert not shop.is_open_for(digest)
    # Once.
    shop.revise(other, diff=added(path, *CODE, "# the end"))
    assert len(found(shop, other)) == 1


def test_p11_a_fault_that_comes_back_in_another_file_is_open_again(agents: AgentDesk, shop: Desk):
    review = shop.put_up(diff=added("pay.py", *CODE))
    agents.decide(review, "changes_requested", findings=[PAY])
    (fault,) = found(shop, review)
    shop.revise(review, diff=added("pay.py", *CODE[:1], "    cents = round(total * 100)", *CODE[2:]))
    agents.decide(review, "approved", answers=[{"finding_id": fault["finding_id"], "answer": "verified"}])
    shop.revise(review, diff=added("money.py", *CODE))
    (back,) = found(shop, review)
    assert (back["state"], back["settled_reason"]) == ("reopened", "Its lines are back, in money.py.")
    refused(agents, review)


@pytest.mark.parametrize("finding", [WHOLE_FILE, WHOLE_CHANGE], ids=["file", "change"])
@pytest.mark.parametrize("path", ["pay.py", "money.py"])
def test_p11_no_other_byte_or_name_rids_a_change_of_what_was_said_of_the_whole(
    agents: AgentDesk, shop: Desk, finding: dict[str, str], path: str
):
    (kept,) = comes_again(agents, shop, added("pay.py", *CODE), finding, added(path, *CODE, "# more"))
    assert (kept["file"], kept["claim"]) == (path if "file" in finding else None, finding["claim"])
    refused(agents, kept["review_id"])


def test_p11_a_persons_no_goes_on_with_the_lines_that_it_was_said_of(agents: AgentDesk, shop: Desk):
    review = shop.put_up(diff=added("pay.py", *CODE))
    shop.decide(review, "changes_requested")
    shop.do("close_review", review_id=review)
    other = shop.put_up(diff=added("pay.py", *CODE, "# more"))
    assert agents.decide(other, "approved")["verdict"] == "comment"
    assert shop.decide(other, "approved")["verdict"] == "approved"


IMPORTS = edited(text="import json")


@pytest.mark.parametrize(
    ("then", "count"),
    [
        pytest.param(added("dump.py", "import sys", "import json", "print(json, sys)"), 0, id="a-file-that-has-it-too"),
        pytest.param(added("dump.py", "import json"), 0, id="one-short-line-elsewhere"),
        pytest.param(IMPORTS + added("more.txt", "more"), 1, id="the-same-file"),
    ],
)
@pytest.mark.parametrize("place", [{}, {"file": "a.txt"}], ids=["change", "file"])
def test_p11_what_was_said_of_a_change_of_one_line_stays_with_its_file(
    agents: AgentDesk, shop: Desk, place: dict[str, str], then: str, count: int
):
    review = shop.put_up(diff=IMPORTS)
    shop.decide(review, "changes_requested", findings=[{"severity": "major", "claim": "No JSON here.", **place}])
    shop.do("close_review", review_id=review)
    other = shop.put_up(diff=then)
    assert len(found(shop, other)) == count
    assert agents.decide(other, "approved")["verdict"] == ("comment" if count else "approved")


SAVE = ("def save(it):", "    with open(it) as file:", "        json.dump(it, file)")


def inserted(**parts: tuple[str, ...]) -> str:
    """A diff that adds lines behind some lines of `a.txt` of `repo`."""
    body = ""
    for at in range(1, 11):
        body += f" line {at}\n" + "".join(f"+{line}\n" for line in parts.get(f"at{at}", ()))
    return f"diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1,10 +1,{body.count(chr(10))} @@\n{body}"


@pytest.mark.parametrize(
    ("first", "then", "count"),
    [
        pytest.param(
            inserted(at4=("}",)),
            inserted(at1=("import json",), at7=("", "function save(it) {", "  put(it);", "}")),
            0,
            id="a-bracket",
        ),
        pytest.param(inserted(at4=("}",)), inserted(at8=("}",)), 0, id="a-bracket-elsewhere"),
        pytest.param(inserted(at3=("    pass",)), inserted(at6=("def todo():", "    pass")), 0, id="pass"),
        pytest.param(inserted(at1=("import json",)), inserted(at1=("import json",), at4=SAVE), 0, id="an-import"),
        pytest.param(inserted(at4=SAVE), inserted(at1=("import json",), at7=("", *SAVE, "x")), 1, id="another-attempt"),
    ],
)
@pytest.mark.parametrize("place", [{}, {"file": "a.txt"}], ids=["change", "file"])
def test_p11_what_was_said_of_a_common_line_holds_no_unrelated_change_of_its_file(
    agents: AgentDesk, shop: Desk, place: dict[str, str], first: str, then: str, count: int
):
    wrong = {"severity": "blocker", "claim": "Wrong approach: use the queue.", **place}
    assert len(comes_again(agents, shop, first, wrong, then)) == count


@ON_BOTH_DATABASES
def test_p11_a_finding_that_came_from_another_review_names_it_and_when_it_was_written(agents: AgentDesk, shop: Desk):
    review = shop.put_up(diff=added("pay.py", *CODE))
    agents.decide(review, "changes_requested", findings=[PAY])
    (first,) = found(shop, review)
    assert first["found_in"] is None
    for path in ("money.py", "third.py"):
        shop.do("close_review", review_id=review)
        other = shop.put_up(diff=added(path, *CODE))
        (kept,) = found(shop, other)
        assert (kept["found_in"], kept["created_at"]) == (first["review_id"], first["created_at"])
        (said,) = shop.do("get_discussion", review_id=other)["entries"]
        assert (said["found_in"], said["at"]) == (first["review_id"], first["created_at"])
        refusal = agents.refused(
            "OPEN_FINDINGS", "submit_verdict", review_id=other, verdict="approved", reviewer_id=OTHER, claim=True
        )
        assert [one["found_in"] for one in refusal["findings"]] == [first["review_id"]]
        review = other


def test_p11_no_second_review_beside_gets_around_the_lines_of_the_first(agents: AgentDesk, shop: Desk):
    review, other = shop.put_up(diff=added("pay.py", *CODE)), shop.put_up(diff=added("money.py", *CODE, "# more"))
    agents.decide(review, "changes_requested", findings=[PAY])
    assert agents.decide(other, "approved")["verdict"] == "comment"
    assert review in shop.status(other)["attention"]
    (fault,) = found(shop, review)
    answered(shop, review, fault["finding_id"], "verified", reviewer_id="ann")
    shop.do("retry_review", review_id=other)
    assert agents.decide(other, "approved")["verdict"] == "approved"


def test_p11_a_false_alarm_that_was_upheld_where_it_went_on_comes_no_more(agents: AgentDesk, shop: Desk):
    review = shop.put_up(diff=added("pay.py", *CODE))
    agents.decide(review, "changes_requested", findings=[PAY])
    shop.do("close_review", review_id=review)
    other = shop.put_up(diff=added("pay.py", *CODE))
    (alarm,) = found(shop, other)
    answered(shop, other, alarm["finding_id"], "refuted", reason="It is right.")
    agents.decide(other, "approved", answers=[{"finding_id": alarm["finding_id"], "answer": "upheld"}])
    last = shop.put_up(diff=added("pay.py", *CODE, "# more"))
    assert found(shop, last) == []
    assert agents.decide(last, "approved")["verdict"] == "approved"


@pytest.mark.parametrize("line", ["\tcents=total*100+surcharge", "    cents = total * 100 + surcharge\u200b"])
def test_p11_no_blank_rids_a_line_of_its_finding(agents: AgentDesk, shop: Desk, line: str):
    then = added("pay.py", CODE[0], line, *CODE[2:])
    assert len(comes_again(agents, shop, added("pay.py", *CODE), {**PAY, "end_line": 4}, then)) == 1


def test_p11_a_range_is_known_again_by_its_longest_line(agents: AgentDesk, shop: Desk):
    long = "    send(cents, to=account_of(customer), at=now)"
    first, then = (*CODE[:3], long, *CODE[4:]), (CODE[0], CODE[2], "    # paid", long)
    (kept,) = comes_again(agents, shop, added("pay.py", *first), {**PAY, "end_line": 4}, added("pay.py", *then))
    assert (kept["file"], kept["line"], kept["place"]["changed"], kept["blocking"]) == ("pay.py", 4, True, True)


def test_p11_no_copy_that_is_settled_elsewhere_rids_other_bytes_of_the_finding(agents: AgentDesk, shop: Desk):
    review = shop.put_up(diff=added("pay.py", *CODE))
    agents.decide(review, "changes_requested", findings=[PAY])
    decoy = shop.put_up(diff=added("NOTES.md", *CODE))
    (copy,) = found(shop, decoy)
    answered(shop, decoy, copy["finding_id"], "refuted", reason="Text, not code.")
    agents.decide(decoy, "approved", answers=[{"finding_id": copy["finding_id"], "answer": "upheld"}])
    last = shop.put_up(diff=added("pay.py", *CODE, "# more"))
    assert [one["blocking"] for one in found(shop, last)] == [True]
    refused(agents, last)


def test_p11_each_file_with_the_lines_of_a_finding_has_one(agents: AgentDesk, shop: Desk):
    both = added("one.py", *CODE) + added("two.py", *CODE)
    again = comes_again(agents, shop, both, {**PAY, "file": "one.py"}, both + added("more.txt", "more"))
    assert sorted((one["file"], one["line"]) for one in again) == [("one.py", 2), ("two.py", 2)]


def test_p11_a_copy_stands_at_its_own_lines_and_not_at_others_like_them(agents: AgentDesk, shop: Desk):
    def views(end: str) -> str:
        view = "def {0}(request):|    {0}_it()|    return render(request, DONE)"
        return added("views.py", *"|".join(map(view.format, ("make", "edit", "drop"))).split("|"), end)

    third = {**PAY, "file": "views.py", "line": 9}
    (kept,) = comes_again(agents, shop, views("# end"), third, views("# the end"))
    assert (kept["line"], kept["place"]["changed"]) == (9, False)


@pytest.mark.parametrize("line", ['if __name__ == "__main__":', "from typing import Any, Dict"])
def test_p11_a_line_that_many_files_have_brings_no_finding_to_another(agents: AgentDesk, shop: Desk, line: str):
    first, then = (added(f"{name}.py", f"import {name}s", line, f"    {name}s.run()") for name in ("wipe", "export"))
    assert comes_again(agents, shop, first, {**PAY, "file": "wipe.py"}, then) == []


def test_p11_a_label_keeps_findings_by_the_lines_of_its_diffs(broker: BrokerProcess):
    with Desk(broker.url, "label-of-findings") as label, AgentDesk(broker.url, "label-of-findings") as agents:
        review = label.put_up(diff=added("pay.py", *CODE))
        far = {**PAY, "line": 5, "end_line": 1_000_000_000}
        agents.decide(review, "changes_requested", findings=[PAY, far])
        label.do("close_review", review_id=review)
        (kept, *_) = found(label, label.put_up(diff=added("pay.py", *CODE, "# more")))
        assert (kept["file"], kept["line"], kept["blocking"]) == ("pay.py", 2, True)


def test_p11_a_late_finding_that_called_a_person_does_so_where_its_change_comes_again(agents: AgentDesk, shop: Desk):
    review = shop.put_up(diff=added("pay.py", *CODE))
    agents.decide(review, "changes_requested", findings=[PAY])
    (fault,) = found(shop, review)
    mended = (*CODE[:1], "    cents = round(total * 100 + surcharge)", *CODE[2:])
    shop.revise(review, diff=added("pay.py", *mended))
    settled = [{"finding_id": fault["finding_id"], "answer": "verified"}]
    agents.decide(review, "changes_requested", findings=[{**PAY, "line": 4, "claim": "Late."}], answers=settled)
    assert shop.status(review)["attention"]
    shop.do("close_review", review_id=review)
    again = shop.put_up(diff=added("pay.py", *mended))
    assert [one["state"] for one in found(shop, again)] == ["late"]
    agents.refused("INVALID_TRANSITION", "claim_review", review_id=again, reviewer_id=OTHER)


def test_p11_a_broker_that_has_just_started_knows_the_findings_from_before(tmp_path: Path):
    with BrokerProcess(tmp_path) as broker:
        with Desk(broker.url, "shop") as shop, AgentDesk(broker.url, "shop") as agents:
            beside = shop.put_up(diff=added("pay.py", *CODE, "# end"))
            review = shop.put_up(diff=added("pay.py", *CODE))
            agents.decide(review, "changes_requested", findings=[PAY])
            shop.do("close_review", review_id=review)
        broker.stop()
        broker.start()
        with AgentDesk(broker.url, "shop") as agents:
            given = agents.do("submit_verdict", review_id=beside, verdict="approved", reviewer_id=OTHER, claim=True)
            assert given["status"] == "pending"
        broker.stop()
        broker.start()
        with Desk(broker.url, "shop") as shop:
            assert len(found(shop, shop.put_up(diff=added("pay.py", *CODE, "# the end")))) == 1

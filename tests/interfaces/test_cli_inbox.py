"""The inbox, searches and marks on the command line, as people read them."""

from __future__ import annotations

import json

from tandem.pool.rules import supervisor_id
from tests.commandline import Inside


def test_an_inbox_says_what_waits_for_whom(tandem: Inside) -> None:
    def shown(person: str) -> str:
        return tandem.run("inbox", "show", "--person", person, "--project", tandem.project).stdout

    nothing = (
        "Nothing waits for anybody. To begin: tandem init --gate in a repository, then tandem commit submits a change."
    )
    assert shown("rita") == nothing + "\n"
    review = tandem.created("--agent", "anna")
    for person in ("rita", "anna"):
        assert "Unclaimed 1" in shown(person)
        assert "not taken yet" in shown(person)
    tandem.run("review", "claim", review, "--reviewer-id", "rita")
    assert "your verdict is asked for" in shown("rita")
    assert "being reviewed" in shown("anna")
    assert review in shown("anna")
    tandem.created()
    cut = tandem.run("inbox", "show", "--person", "zoe", "--project", tandem.project, "--limit", "1").stdout
    assert "Unclaimed 1\n" in cut.replace("  ", "")
    assert "Waiting on others 1\n" in cut.replace("  ", "")
    assert cut.index("Unclaimed") < cut.index("Waiting on others")


def test_of_a_projects_unclaimed_reviews_ten_are_listed(tandem: Inside) -> None:
    for _ in range(12):
        tandem.created()
    shown = tandem.run("inbox", "show", "--person", "rita", "--project", tandem.project).stdout
    assert "Unclaimed 12" in shown
    assert shown.count("not taken yet") == 10
    assert f"2 more in {tandem.project}: tandem review list" in shown


def test_a_pool_that_is_paused_is_one_cause_above_all_that_waits_for_it(tandem: Inside) -> None:
    secret = "s" * 40
    about = {"secret": secret, "incarnation": "abcd12", "host": "a-host", "provider": "codex"}
    tandem.post("supervisor_register", {**about, "projects": [tandem.project]})
    held = [tandem.created() for _ in range(3)]
    tandem.run("reviewers", "pause", "--reason", "The model is down", "--supervisor-id", supervisor_id(secret))
    shown = tandem.run("inbox", "show", "--person", "rita", "--project", tandem.project).stdout
    assert "Problems 1" in shown
    assert ": The model is down; 3 reviews wait" in " ".join(shown.split())
    assert "tandem reviewers resume" in " ".join(shown.split())
    assert [shown.count(review) for review in held] == [1, 1, 1]
    assert "Unclaimed" not in shown


def test_reviews_at_which_reviewers_failed_are_one_cause_with_the_command_that_tries_one_again(tandem: Inside) -> None:
    identity = {"secret": "f" * 40, "incarnation": "abcd12"}
    about = {"host": "a-host", "provider": "codex", "projects": [tandem.project], "rules": {"retry_delay_seconds": 0}}
    tandem.post("supervisor_register", {**identity, **about})
    failed = [tandem.created() for _ in range(2)]
    [one] = json.loads(tandem.post("supervisor_heartbeat", {**identity, "reviewers": []}))["data"]["reviewers"]
    reviewer = {"reviewer_id": one["reviewer_id"], "project": tandem.project}
    for _ in range(6):
        claim = json.loads(tandem.post("claim_review", reviewer))["data"]
        held = {name: claim[name] for name in ("review_id", "claim_generation")}
        tandem.post("report_outcome", {**reviewer, **held, "outcome": "crashed", "reason": "no memory"})
    shown = tandem.run("inbox", "show", "--person", "rita", "--project", tandem.project).stdout
    assert "Problems 1" in shown
    assert "3 reviewers gave no verdict: no memory; 2 reviews wait" in " ".join(shown.split())
    assert f"tandem review retry {failed[0]}, and so for each of the 2" in " ".join(shown.split())


def test_a_search_finds_and_goes_on(tandem: Inside) -> None:
    ids = [tandem.created("--phase", "seven") for _ in range(3)]
    common = ("review", "search", "--text", "SEVEN", "--sort", "oldest", "--project", tandem.project)
    first = tandem.run(*common, "--limit", "2").stdout
    assert [review in first for review in ids] == [True, True, False]
    page = first.rpartition("More with --page ")[2].strip()
    rest = tandem.run(*common, "--page", page).stdout
    assert [review in rest for review in ids] == [False, False, True]
    assert tandem.run(*common, "--path", "nowhere").stdout == "Found nothing.\n"


def test_files_are_marked_as_viewed(tandem: Inside) -> None:
    review = tandem.created()
    place = (review, "--round", "1", "--person", "rita")
    marked = tandem.run("review", "mark", *place, "--path", "a.txt", "--viewed")
    assert (marked.status, marked.stdout.splitlines()[-1]) == (0, "paths   a.txt")
    assert "No file" in tandem.run("review", "mark", *place, "--path", "a.txt", "--no-viewed").stdout

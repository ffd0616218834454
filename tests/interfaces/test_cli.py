"""The command line against a real broker: every operation, both forms of output, errors and exit statuses."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tandem.cli.main import load
from tandem.cli.tree import TREE
from tandem.client import TandemClient
from tests.commandline import DIFF, Inside, Shell, finish, git, repository, running_broker

READS = {
    "get_review_status": ("review", "status"),
    "get_proposal": ("review", "proposal"),
    "get_review": ("review", "show"),
    "get_discussion": ("review", "discussion"),
    "get_review_timeline": ("review", "timeline"),
}


def test_json_is_the_envelope_as_the_broker_answers_it(tandem: Inside) -> None:
    review_id = tandem.created()
    for operation, command in READS.items():
        ended = tandem.run(*command, review_id, "--json")
        assert ended.stdout == tandem.post(operation, {"review_id": review_id}) + "\n"
        refused = tandem.run(*command, "rv_none", "--json")
        told = tandem.post(operation, {"review_id": "rv_none"}) + "\n"
        assert (refused.status, refused.stdout, refused.stderr) == (1, told, "")


def test_lists_take_the_project_of_the_folder_unless_told(tandem: Inside, tmp_path: Path) -> None:
    other = repository(tmp_path / f"{tmp_path.name}-other")
    tandem.run("project", "add", str(other), "--name", f"{tandem.project}-two")
    mine = tandem.created()
    theirs = tandem.created("--project", f"{tandem.project}-two")

    def listed(*options: str) -> list[str]:
        rows = tandem.run("review", "list", "--json", *options).data["reviews"]
        return [row["review_id"] for row in rows]

    assert listed() == [mine]
    assert listed("--project", f"{tandem.project}-two") == [theirs]


def test_projects_are_added_listed_and_removed(tandem: Inside, tmp_path: Path) -> None:
    other = repository(tmp_path / "elsewhere" / f"{tmp_path.name}-shop")
    (other / "inner").mkdir()
    added = tandem.run("project", "add", str(other / "inner"), "--json").data
    assert (added["project"], added["root"]) == (other.name, str(other.resolve()))
    assert other.name in tandem.run("project", "list").stdout
    assert tandem.run("project", "remove", other.name).status == 0
    assert other.name not in tandem.run("project", "list").stdout
    gone = tandem.run("project", "remove", other.name)
    assert (gone.status, gone.stderr.split(":")[1]) == (1, " NOT_FOUND")


def test_outside_of_git_the_only_project_is_meant(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data") as url:
        shop = repository(tmp_path / "shop")
        Shell(url, shop).run("project", "add")
        outside = Shell(url, tmp_path)
        assert outside.run("gate", "check", "--digest", "0" * 64, "--json").data["project"] == "shop"


def test_long_values_come_from_files_and_standard_input_to_the_byte(tandem: Inside, tmp_path: Path) -> None:
    text = "größer\r\nno newline at the end"
    (tmp_path / "long.md").write_bytes(text.encode())
    for value, stdin in ((f"@{tmp_path / 'long.md'}", b""), ("-", text.encode())):
        review_id = tandem.run(
            "review", "create", "--intent", "i", "--description", value, "--metadata", '{"a": [1]}', "--json",
            stdin=stdin,
        ).data["review_id"]  # fmt: skip
        proposal = tandem.run("review", "proposal", review_id, "--json").data
        assert proposal["description"] == text
        assert proposal["metadata"] == {"a": [1]}
    twice = tandem.run("review", "create", "--intent", "-", "--description", "-")
    assert (twice.status, "already read by --intent" in twice.stderr) == (2, True)
    literal = tandem.run("review", "create", "--intent", "@@home", "--json").data["review_id"]
    assert tandem.run("review", "proposal", literal, "--json").data["intent"] == "@home"


def test_an_empty_queue_is_no_failure(tandem: Inside) -> None:
    ended = tandem.run("review", "claim", "--reviewer-id", "rita")
    assert (ended.status, ended.stdout) == (0, "Nothing to review.\n")


def test_text_by_others_cannot_steer_the_terminal(tandem: Inside) -> None:
    review_id = tandem.run(
        "review", "create", "--intent", "harmless\x1b]0;title\x07 \x1b[31mred \u202e", "--json"
    ).data["review_id"]
    for command in (("review", "proposal", review_id), ("review", "list"), ("review", "feed")):
        shown = tandem.run(*command).stdout
        assert "\x1b" not in shown
        assert "\u202e" not in shown
        assert "harmless" in shown


def test_the_option_wins_over_the_environment(tandem: Inside) -> None:
    ended = tandem.run("project", "list", "--broker", "http://127.0.0.1:9")
    assert ended.status == 3


def test_who_calls_is_in_the_log(tandem: Inside) -> None:
    review_id = tandem.created("--agent", "gsd-executor")
    assert tandem.run("review", "proposal", review_id, "--json").data["proposer_id"] == "gsd-executor"


def test_p4_the_same_key_has_one_effect(tandem: Inside) -> None:
    first = tandem.created("--idempotency-key", "k1")
    assert tandem.created("--idempotency-key", "k1") == first
    ended = tandem.run("review", "create", "--intent", "another", "--idempotency-key", "k1")
    assert ended.stderr.startswith("refused: IDEMPOTENCY_CONFLICT: ")


def test_the_first_level_lists_just_the_commands_that_there_are(tandem: Inside) -> None:
    shown = tandem.run("--help").stdout
    for name, entry in TREE.items():
        assert load(name).name == name
        assert (entry.about in shown) is not entry.hidden


def test_completion_offers_commands_ids_and_projects(tandem: Inside) -> None:
    review_id = tandem.created()
    shell = Shell(tandem.url, tandem.cwd)

    def offered(words: str) -> str:
        environment = {"_TANDEM_COMPLETE": "complete_bash", "COMP_WORDS": words}
        return finish(shell.start(**environment, COMP_CWORD=str(len(words.split(" ")) - 1))).stdout

    assert "submit" in offered("tandem su")
    assert review_id in offered(f"tandem review status {review_id[:5]}")
    assert tandem.project in offered("tandem review list --project ")
    unreachable = Shell("http://127.0.0.1:9", tandem.cwd)
    asked = unreachable.start(_TANDEM_COMPLETE="complete_bash", COMP_WORDS="tandem review status rv", COMP_CWORD="3")
    ended = finish(asked)
    assert (ended.status, ended.stdout.strip()) == (0, "")


def test_prints_the_completion_script(tandem: Inside) -> None:
    shell = Shell(tandem.url, tandem.cwd)
    ended = finish(shell.start(_TANDEM_COMPLETE="source_bash"))
    assert (ended.status, "complete -o default -F _tandem_completion tandem" in ended.stdout) == (0, True)


def test_open_reviews_are_listed_by_newest_activity_one_line_each(tandem: Inside) -> None:
    old, closed, quiet = (tandem.created() for _ in range(3))
    long = tandem.created("--intent", f"{'word ' * 60}end")
    tandem.run("review", "close", closed)
    tandem.run("review", "claim", old, "--reviewer-id", "rita")

    def listed(*options: str) -> list[str]:
        found: list[str] = []
        page: tuple[str, ...] = ()
        while True:
            data = tandem.run("review", "list", "--limit", "1", "--json", *options, *page).data
            found += [row["review_id"] for row in data["reviews"]]
            if data["next_page"] is None:
                return found
            page = ("--page", data["next_page"])

    assert listed() == [old, long, quiet]
    assert listed("--closed") == [closed]
    assert listed("--all") == [old, closed, long, quiet]
    # With a filter it is the queue.
    assert listed("--turn", "reviewer") == listed("--category", "code_change") == [old, quiet, long]
    assert listed("--category", "code_change", "--all") == [old, closed, quiet, long]
    shown = tandem.run("review", "list", "--limit", "1")
    assert f"--page {tandem.run('review', 'list', '--limit', '1', '--json').data['next_page']}" in shown.stdout
    lines = tandem.run("review", "list").stdout.splitlines()
    [line] = [line for line in lines if "word" in line]
    assert long in line
    assert "…" in line
    assert len([line for line in lines if "an intent" in line]) == 2
    assert tandem.run("review", "list", "--all", "--closed").status == 2
    refused = tandem.post("list_reviews", {"order": "activity", "category": "code_change"})
    assert '"INVALID_INPUT"' in refused


def test_a_project_that_nobody_knows_is_refused_unless_it_is_new(tandem: Inside) -> None:
    misspelt = f"{tandem.project}x"
    # The page of mistakes has more such commands.
    for command in (("review", "create", "--intent", "i"), ("cycle", "init"), ("gate", "check")):
        ended = tandem.run(*command, "--project", misspelt)
        assert (ended.status, f"Did you mean '{tandem.project}'?" in ended.stderr) == (1, True), command
    (tandem.cwd / "a.txt").write_text("new\n")
    begun = tandem.run("submit", "-m", "m", "--project", misspelt, "--new", "--json").data
    assert (begun["project"], begun["validated"]) == (misspelt, False)
    # From then on it is known.
    more = tandem.run("review", "create", "--intent", "i", "--project", misspelt, "--json").data
    rows = tandem.run("review", "list", "--project", misspelt, "--json").data["reviews"]
    assert [row["review_id"] for row in rows] == [more["review_id"], begun["review_id"]]


def test_p8_audit_verify_proves_the_log_while_the_broker_runs_and_after_and_names_what_was_changed(
    tmp_path: Path,
) -> None:
    verify = ("audit", "verify", "--data-dir", str(tmp_path / "data"))
    with running_broker(tmp_path / "data") as url:
        shell = Shell(url, repository(tmp_path / "shop"))
        shell.run("project", "add")
        shell.ask(lambda client: client.create_review(intent="i", agent_type="t", diff=DIFF, project="shop"))
        during = shell.run(*verify)
        assert (during.status, during.stdout.startswith("intact  ")) == (0, True), during.stderr
        assert shell.run("review", "list").status == 0
    after = shell.run(*verify, "--json")
    assert (after.status, after.data["intact"], after.data["problems"]) == (0, True, [])
    with contextlib.closing(sqlite3.connect(tmp_path / "data" / "tandem.db")) as database, database:
        database.execute("UPDATE events SET actor = 'somebody else' WHERE kind = 'review_created'")
    ended = shell.run(*verify)
    assert ended.status == 1
    assert "problem  event " in ended.stdout
    assert "was changed" in ended.stdout
    assert ended.stdout.splitlines()[-1].startswith("not intact")


def test_audit_verify_makes_no_database_where_there_is_none(tmp_path: Path) -> None:
    ended = Shell("", tmp_path).run("audit", "verify", "--data-dir", str(tmp_path / "nothing"))
    assert ended.status == 1
    assert "refused: NOT_FOUND: " in ended.stderr
    assert not (tmp_path / "nothing").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="platform: Windows has no such redirection")
@pytest.mark.parametrize("streams", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_a_command_does_its_work_though_a_stream_is_closed(tandem: Inside, tmp_path: Path, streams: str) -> None:
    review = tandem.created()
    claim = [sys.executable, "-m", "tandem", "review", "claim", review, "--reviewer-id", "rita", "--json"]
    environment = {**os.environ, "TANDEM_BROKER": tandem.url}
    ended = subprocess.run(
        ["sh", "-c", f'exec "$@" {streams}', "sh", *claim],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        check=True,
    )
    assert ended.stderr == b""
    assert tandem.run("review", "status", review, "--json").data["reviewer_id"] == "rita"
    assert (b'"rita"' in ended.stdout) == (">&-" not in streams.split())


def test_a_name_that_was_typed_stays_as_it_is_in_a_refusal(tandem: Inside) -> None:
    refused = tandem.run("review", "list", "--project", "list_reviews").refusal
    assert "There is no project 'list_reviews'" in refused


def test_the_gate_takes_raw_changes_as_they_are(tandem: Inside) -> None:
    (tandem.cwd / "a.txt").write_bytes(b"one\n2\n")
    git(tandem.cwd, "add", "--all")
    blob = git(tandem.cwd, "rev-parse", ":a.txt").strip()
    before = git(tandem.cwd, "rev-parse", "HEAD:a.txt").strip()
    change = {
        "path": "a.txt",
        "mode_before": "100644",
        "blob_before": before,
        "mode_after": "100644",
        "blob_after": blob,
    }
    asked = json.dumps([change])
    refused = tandem.run("gate", "check", "--changes", "-", "--json", stdin=asked.encode())
    assert (refused.status, refused.data["allowed"]) == (1, False)
    review_id = tandem.created()

    async def approve(client: TandemClient) -> None:
        await client.claim_review(reviewer_id="rita", review_id=review_id)
        await client.submit_verdict(review_id, verdict="approved", reviewer_id="rita")

    Shell(tandem.url, tandem.cwd).ask(approve)
    allowed = tandem.run("gate", "check", "--changes", asked)
    assert allowed.status == 0
    assert f"{review_id} round 1" in allowed.stdout

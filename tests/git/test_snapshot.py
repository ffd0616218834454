from __future__ import annotations

from pathlib import Path

import pytest

from tandem.errors import InvalidInput
from tandem.git.repository import Repository
from tandem.git.snapshot import EVERYTHING, Scope
from tests.git.edits import EDITS, change, populate
from tests.git.sandbox import Sandbox

HOSTILE = Path(__file__).with_name("hostile.gitconfig").read_text("utf-8")


def ensure_submission_is_the_commit(sandbox: Sandbox, scope: Scope = EVERYTHING) -> str:
    """Takes the diff, commits everything, and compares the digests; returns the diff."""
    before = sandbox.fingerprint()
    with Repository(sandbox.root) as repository:
        taken = repository.working_diff(scope)
        assert sandbox.fingerprint() == before
        content = repository.validate_diff(taken.diff, taken.base)
    base = sandbox.run("rev-parse", "--verify", "-q", "HEAD", check=False).stdout.decode().strip()
    if scope == EVERYTHING:
        sandbox.git("add", "--all")
    sandbox.git("commit", "-q", "-m", "the submitted change")
    assert taken.base == (base or sandbox.empty_tree())
    assert content.digest == sandbox.commit_digest(taken.base, "HEAD")
    assert content.content == taken.diff
    return taken.diff


@pytest.mark.parametrize("name", EDITS)
def test_what_is_submitted_is_what_is_committed(sandbox: Sandbox, name: str) -> None:
    populate(sandbox)
    sandbox.write(".git/order", "*.sh\n*.bin\n")
    with (sandbox.root / ".git/config").open("a") as config:
        config.write(HOSTILE)
    change(sandbox, name)
    ensure_submission_is_the_commit(sandbox)


def test_other_encodings_become_binary_patches(sandbox: Sandbox) -> None:
    latin = "Grüße aus Köln\n" * 20
    sandbox.write("latin [1]*?.txt", latin.encode("latin-1"))
    sandbox.write("utf16.txt", latin.encode("utf-16"))
    sandbox.write("late-nul.txt", "x" * 9000 + "\n\0\n")
    sandbox.write("ascii.txt", "plain\n")
    sandbox.write(".gitattributes", "*.txt text diff\n")
    sandbox.commit()
    sandbox.write("latin [1]*?.txt", (latin + "mehr Grüße\n").encode("latin-1"))
    sandbox.write("late-nul.txt", "x" * 9000 + "\n\0\n\0\n")
    sandbox.write("ascii.txt", "plainer\n")
    diff = ensure_submission_is_the_commit(sandbox)
    assert diff.count("GIT binary patch") == 2
    assert "-plain\n+plainer\n" in diff


def test_a_heading_cut_within_a_character_is_no_other_encoding(sandbox: Sandbox) -> None:
    body = "".join(f"    line {number}\n" for number in range(40))
    for shift in range(3):
        sandbox.write(f"{shift}.py", f"def {'x' * shift}{'語' * 60}():\n{body}")
    sandbox.commit()
    for shift in range(3):
        file = sandbox.root / f"{shift}.py"
        file.write_text(file.read_text("utf-8").replace("line 30", "line thirty"), "utf-8")
    assert "binary" not in ensure_submission_is_the_commit(sandbox)


def test_files_that_are_only_announced_are_taken(sandbox: Sandbox) -> None:
    populate(sandbox)
    sandbox.write("soon.txt", "soon\n")
    sandbox.git("add", "--intent-to-add", "soon.txt")
    assert "+soon" in ensure_submission_is_the_commit(sandbox)


def test_staged_leaves_out_the_rest(sandbox: Sandbox) -> None:
    populate(sandbox)
    sandbox.write("plain.txt", "staged\n")
    sandbox.git("add", "plain.txt")
    sandbox.write("plain.txt", "not staged\n")
    sandbox.write("announced.txt", "x\n")
    sandbox.git("add", "--intent-to-add", "announced.txt")
    sandbox.write("untracked.txt", "x\n")
    diff = ensure_submission_is_the_commit(sandbox, Scope(staged=True))
    assert "+staged\n" in diff
    assert not {"announced", "untracked", "not staged"} & set(diff.replace("\n+", " ").split())


def test_a_change_that_leaves_size_and_time_alone_is_seen(sandbox: Sandbox) -> None:
    sandbox.write("racy.txt", "aaaa\n")
    sandbox.commit()
    sandbox.write("racy.txt", "bbbb\n")
    assert "+bbbb" in ensure_submission_is_the_commit(sandbox)


def test_the_first_commit_of_a_repository_can_be_submitted(any_format: Sandbox) -> None:
    any_format.write("first.txt", "first\n")
    assert "+first" in ensure_submission_is_the_commit(any_format)


def test_the_users_filters_run_as_they_do_in_a_commit(sandbox: Sandbox) -> None:
    sandbox.write(".gitattributes", "*.txt filter=shout\n*.win text eol=crlf\n")
    sandbox.git("config", "filter.shout.clean", "tr a-z A-Z")
    sandbox.commit()
    sandbox.write("quiet.txt", "whisper\n")
    sandbox.write("x.win", "one\r\ntwo\r\n")
    diff = ensure_submission_is_the_commit(sandbox)
    assert "+WHISPER" in diff
    assert "\r" not in diff


def test_commits_and_ranges(sandbox: Sandbox, repository: Repository) -> None:
    sandbox.write("plain.txt", "first\n")
    first = sandbox.commit()
    sandbox.write("plain.txt", "second\n")
    second = sandbox.commit()
    sandbox.git("checkout", "-q", "-b", "side", first)
    sandbox.write("side.txt", "side\n")
    side = sandbox.commit()
    cases = {
        second: (first, second),
        first: (sandbox.empty_tree(), first),
        f"{first}..{second}": (first, second),
        f"{second}..": (second, side),
        f"..{second}": (side, second),
        f"{second}...{side}": (first, side),
        "main..side": (second, side),
    }
    for revision, (base, target) in cases.items():
        taken = repository.working_diff(Scope(revision=revision))
        assert taken.base == base, revision
        assert repository.validate_diff(taken.diff, taken.base).digest == sandbox.commit_digest(base, target)
    sandbox.git("merge", "-q", "--no-edit", second)
    merged = repository.working_diff(Scope(revision="HEAD"))
    assert merged.base == side


def test_a_scope_that_names_nothing_is_refused(sandbox: Sandbox, repository: Repository) -> None:
    populate(sandbox)
    sandbox.git("checkout", "-q", "--orphan", "alone")
    sandbox.git("commit", "-q", "-m", "unrelated")
    for revision in ("nowhere", "nowhere..HEAD", "main...alone", "HEAD^{tree}", "--all"):
        with pytest.raises(InvalidInput) as refused:
            repository.working_diff(Scope(revision=revision))
        assert refused.value.details["field"] == "revision"
    with pytest.raises(InvalidInput):
        repository.working_diff(Scope(staged=True, revision="HEAD"))


def test_unresolved_conflicts_are_refused(sandbox: Sandbox, repository: Repository) -> None:
    first = populate(sandbox)
    sandbox.write("plain.txt", "one\n")
    sandbox.commit()
    sandbox.git("checkout", "-q", "-b", "side", first)
    sandbox.write("plain.txt", "other\n")
    sandbox.commit()
    sandbox.run("merge", "-q", "main", check=False)
    for scope in (Scope(), Scope(staged=True)):
        with pytest.raises(InvalidInput, match=r"plain\.txt has unresolved conflicts"):
            repository.working_diff(scope)
    with pytest.raises(InvalidInput, match="unresolved"):
        repository.raw_changes("HEAD")


def test_a_gate_sees_the_index_that_is_being_committed(
    sandbox: Sandbox, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    populate(sandbox)
    assert repository.raw_changes() == ()
    sandbox.write("plain.txt", "staged\n")
    sandbox.git("add", "--all")
    (change,) = repository.raw_changes()
    assert (change.path, change.mode_before, change.mode_after) == ("plain.txt", "100644", "100644")
    assert change.blob_after == sandbox.git("rev-parse", ":plain.txt").strip()
    partial = tmp_path / "partial-index"
    partial.write_bytes((sandbox.root / ".git/index").read_bytes())
    sandbox.git("reset", "-q")
    assert repository.raw_changes() == ()
    with monkeypatch.context() as hook:
        hook.setenv("GIT_INDEX_FILE", str(partial))
        with Repository.discover(sandbox.root) as seen:
            assert seen.raw_changes() == (change,)
            assert "+staged" in seen.working_diff(Scope(staged=True)).diff
    sandbox.git("add", "--intent-to-add", "plain.txt")
    (sandbox.root / "announced").write_text("x")
    sandbox.git("add", "--intent-to-add", "announced")
    assert repository.raw_changes() == ()

"""The inbox, searches and marks on the command line, as people read them."""

from __future__ import annotations

from tests.commandline import Inside


def test_an_inbox_says_what_waits_for_whom(tandem: Inside) -> None:
    def shown(person: str) -> str:
        return tandem.run("inbox", "show", "--person", person, "--project", tandem.project).stdout

    assert shown("rita") == "Nothing waits for anybody.\n"
    review = tandem.created("--agent", "anna")
    assert "Your turn 1" in shown("rita")
    assert "not taken yet" in shown("rita")
    assert "Waiting on others 1" in shown("anna")
    tandem.run("review", "claim", review, "--reviewer-id", "rita")
    assert "your verdict is asked for" in shown("rita")
    assert "being reviewed" in shown("anna")
    assert review in shown("anna")
    tandem.created()
    cut = tandem.run("inbox", "show", "--person", "zoe", "--project", tandem.project, "--limit", "1").stdout
    assert "Your turn 1\n" in cut.replace("  ", "")
    assert "Waiting on others 1\n" in cut.replace("  ", "")


def test_a_search_finds_and_goes_on(tandem: Inside) -> None:
    ids = [tandem.created("--phase", "seven") for _ in range(3)]
    common = ("review", "search", "--text", "SEVEN", "--sort", "oldest", "--project", tandem.project)
    first = tandem.run(*common, "--limit", "2").stdout
    assert [review in first for review in ids] == [True, True, False]
    page = first.rpartition("More with --page ")[2].strip()
    rest = tandem.run(*common, "--page", page).stdout
    assert [review in rest for review in ids] == [False, False, True]
    assert tandem.run(*common, "--path", "nowhere").stdout == "Found nothing.\n"


def test_files_are_marked_and_listed(tandem: Inside) -> None:
    review = tandem.created()
    place = (review, "--round", "1", "--person", "rita")
    assert tandem.run("review", "viewed", *place).stdout.endswith("No file of this round is marked as viewed.\n")
    marked = tandem.run("review", "mark", *place, "--path", "a.txt", "--viewed")
    assert (marked.status, marked.stdout.splitlines()[-1]) == (0, "paths   a.txt")
    assert tandem.run("review", "viewed", *place).stdout == marked.stdout
    assert "No file" in tandem.run("review", "mark", *place, "--path", "a.txt", "--no-viewed").stdout

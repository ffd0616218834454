"""A commit's message: its subject, the plan that it belongs to, and the trailers that say by which review it passed."""

from __future__ import annotations

import os
import re

from tandem.rulings import git

TYPE_CHECKING = False  # as in `git`
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tandem.rulings.state import HookRepository

REVIEW = "Tandem-Review"
OVERRIDE = "Tandem-Override"
SIGNED = "Tandem-Signed"
DEPENDS_ON = "Tandem-Depends-On"
UNREVIEWED = "unreviewed"
"""The trailer's value for a commit that its plan lets through before a review: a mark, never a pass."""

PLAN = r"[a-z]+\((?P<phase>\d+(?:\.\d+)*[A-Za-z]?)-(?P<plan>\d+)(?:-(?P<task>\d+))?\)!?:"
_LONGEST_NAME = 200
"""Of the names that the contract takes."""

_SCISSORS = " ------------------------ >8 ------------------------"


def read(path: str) -> str:
    """The message as it is so far."""
    with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
        return file.read()


def subject(text: str) -> str:
    """The first line that says something; empty if none does yet."""
    lines = (line.strip() for line in text.splitlines())
    found = next((line for line in lines if line and not line.startswith("#")), "")
    return found.encode("utf-8", "replace").decode()


def belonging(subject: str) -> dict[str, str]:
    """The `phase`, `plan` and `task` of a commit, as far as somebody said them, as fields of a request.

    A subject such as `feat(03-02): retry uploads` says them; `TANDEM_PHASE`, `TANDEM_PLAN` and `TANDEM_TASK` are how
    an agent names them for commits with free subjects.
    """
    found = re.match(PLAN, subject)
    said: dict[str, str | None] = found.groupdict() if found else {}
    stated = {
        name: said.get(name) or os.environ.get(f"TANDEM_{name.upper()}", "").strip()[:_LONGEST_NAME]
        for name in ("phase", "plan", "task")
    }
    return {name: value for name, value in stated.items() if value}


def plan_key(phase: str | None, plan: str | None, branch: str | None) -> str:
    """The one name of a plan with the broker: `PHASE-PLAN`, or the branch where there is none."""
    if plan is not None:
        return plan if phase is None or plan.startswith(f"{phase}-") else f"{phase}-{plan}"
    return branch or "HEAD"


def values(text: str, name: str) -> list[str]:
    """The values of a trailer, each once, in order."""
    lines = [line for is_inside, line in _lines(text, name) if is_inside]
    stated = ((line.partition(":")[2] if _names(line, name) else line) for line in lines)
    return list(dict.fromkeys(word for one in stated for word in one.replace(",", " ").split()))


def reviews(text: str) -> list[str]:
    """The reviews that a message names."""
    return [name for name in values(text, REVIEW) if name != UNREVIEWED]


def mark(
    place: HookRepository,
    path: str,
    review_ids: Sequence[str],
    override_id: str | None = None,
    signed: Sequence[str] = (),
) -> None:
    """Have the message say by which reviews, or by which override, the commit passed, and who signed that.

    What an earlier commit of the same message said of its reviews is replaced, as that is no longer known to hold.

    Raises:
        TandemError: Git could not add them.
        OSError: The file cannot be written.
    """
    before = read(path)
    kept, comments = _split(before)
    kept = _without(_without(kept, REVIEW), SIGNED)
    wanted = [f"{REVIEW}: {review_id}" for review_id in review_ids]
    wanted += [f"{SIGNED}: {signature}" for signature in signed]
    if override_id is not None and override_id not in values(kept, OVERRIDE):
        wanted.append(f"{OVERRIDE}: {override_id}")
    after = (_appended(kept, wanted) if wanted else kept) + comments
    if after == before:
        return
    if wanted and os.environ.get("GIT_EDITOR") != ":":
        # An editor follows: git knows its own comments, and where they begin.
        _write(path, kept + comments)
        _by_git(place, path, wanted)
    else:
        _write(path, after)


def _split(text: str) -> tuple[str, str]:
    """The message, and what git cuts off: from the scissors on."""
    at = text.find(_SCISSORS)
    if at < 0 or os.environ.get("GIT_EDITOR") == ":":
        return text, ""
    start = text.rfind("\n", 0, at) + 1
    return text[:start], text[start:]


def _appended(text: str, trailers: Iterable[str]) -> str:
    """The message with further trailers in its last paragraph, or in one of their own; all else stays to the byte."""
    end = text.find("\n", len(text.rstrip()))
    body, blank = (text, "") if end < 0 else (text[:end], text[end + 1 :])
    last = body.rpartition("\n\n")[2].split("\n")
    has_subject_only = "\n\n" not in body
    is_block = all(_is_trailer(line) or (at and _continues(line)) for at, line in enumerate(last))
    gap = "\n" if is_block and not has_subject_only else "\n\n"
    return body + gap + "\n".join(trailers) + "\n" + blank


def _without(text: str, name: str) -> str:
    """The message without a trailer, wherever it stands."""
    return "\n".join(line for is_inside, line in _lines(text, name) if not is_inside)


def _lines(text: str, name: str) -> Iterator[tuple[bool, str]]:
    """Each line, and whether it belongs to a trailer of this name."""
    is_inside = False
    for line in text.split("\n"):
        is_inside = _names(line, name) or (is_inside and _continues(line))
        yield is_inside, line


def _names(line: str, name: str) -> bool:
    """Whether a line begins a trailer of this name."""
    word, colon, _ = line.partition(":")
    return bool(colon) and word.rstrip(" ").lower() == name.lower()


def _is_trailer(line: str) -> bool:
    word, colon, value = line.partition(":")
    word = word.rstrip(" ")
    return bool(colon and value.strip() and word) and word.isascii() and word.replace("-", "").isalnum()


def _continues(line: str) -> bool:
    return line[:1] in {" ", "\t"} and bool(line.strip())


def _by_git(place: HookRepository, path: str, trailers: Iterable[str]) -> None:
    options = [part for trailer in trailers for part in ("--trailer", trailer)]
    git.run(place, ["interpret-trailers", "--in-place", "--no-divider", "--where=end", *options, os.path.abspath(path)])


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        file.write(text)

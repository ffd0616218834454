"""Holds the commits since a named one to the form of `CONTRIBUTING.md`; `[tool.commits]` in `pyproject.toml` names it.

    python tools/commits.py    fails on a subject that is not `area: verb …` in at most 72 characters without a full
                               stop, and on a commit of over 1,000 changed lines whose body does not say why

Merge commits pass. Where git or the named commit is missing, as in an archive or a shallow clone, the script says that
it checked nothing.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LONGEST_SUBJECT = 72
MOST_LINES = 1000
# Shorter than any reason.
SHORTEST_REASON = 40
SUBJECT = re.compile(r"(?P<areas>[a-z][\w./-]*(?:, [a-z][\w./-]*)*): (?P<verb>[a-z][a-z-]*)(?: .*)?")
NO_VERB = re.compile(
    r"an?|the|no|some|more|new|for|with|of|in|on|to|and|or|also|it|this|one|fixed|(?:add|chang|remov|mov|updat|renam)(?:ed|ing|e?s)"
    r"|fix(?:es|ing)|mak(?:es|ing)|us(?:es|ed|ing)"
)
TRAILER = re.compile(r"[A-Z][\w-]*: \S.*")


def main() -> int:
    """Check the commits; the exit status."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["commits"]
    base, generated = table["after"], table["generated"]
    obstacle = _obstacle(base)
    if obstacle:
        print(f"{obstacle}: no commit was checked")
        return 0
    commits = _git("rev-list", "--no-merges", f"{base}..HEAD").split()
    wrong = [f"{commit[:10]} {problem}" for commit in commits for problem in problems(commit, generated)]
    print("\n".join(wrong) or f"{len(commits)} commits have the form that CONTRIBUTING.md describes")
    return int(bool(wrong))


def _obstacle(base: str) -> str:
    try:
        top = _git("rev-parse", "--show-toplevel").strip()
    except (OSError, subprocess.CalledProcessError):
        return "this is no git repository"
    if Path(top).resolve() != ROOT:
        return "this folder is not the root of its git repository"
    try:
        _git("merge-base", "--is-ancestor", base, "HEAD")
    except subprocess.CalledProcessError:
        return f"the history here does not reach {base[:10]} (a shallow clone?)"
    return ""


def problems(commit: str, generated: list[str]) -> list[str]:
    """The faults of a commit, in sentences."""
    subject, _, body = _git("log", "-1", "--format=%B", commit).strip().partition("\n")
    found = of_subject(subject)
    lines = _changed_lines(commit, generated)
    if lines > MOST_LINES and not gives_reason(body):
        found.append(f"{subject!r}: {lines:,} changed lines, and the body does not say why in one commit")
    return found


def of_subject(subject: str) -> list[str]:
    """The faults of a subject."""
    found: list[str] = []
    if len(subject) > LONGEST_SUBJECT:
        found.append(f"{subject!r}: {len(subject)} characters, at most {LONGEST_SUBJECT}")
    if subject.endswith("."):
        found.append(f"{subject!r}: ends with a full stop")
    match = SUBJECT.fullmatch(subject)
    if match is None or NO_VERB.fullmatch(match["verb"]):
        found.append(f"{subject!r}: write `area: verb …`, the verb in the imperative, such as `gate: refuse …`")
    return found


def gives_reason(body: str) -> bool:
    """Whether a body says more than trailers do."""
    said = [line for line in body.splitlines() if not TRAILER.fullmatch(line)]
    return len(" ".join(said).strip()) >= SHORTEST_REASON


def _changed_lines(commit: str, generated: list[str]) -> int:
    """Lines added and removed; moved files count only what changed in them."""
    left_out = [f":(exclude,glob){pattern}" for pattern in generated]
    shown = _git("show", "--format=", "--numstat", "-M", commit, "--", ".", *left_out)
    counts = (line.split("\t")[:2] for line in shown.splitlines())
    return sum(int(count) for both in counts for count in both if count.isdigit())


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True)
    return done.stdout.decode("utf-8", "replace")


if __name__ == "__main__":
    sys.exit(main())

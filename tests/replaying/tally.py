"""What a replay found: counts, the smallest input of each failure, and the report."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from tests.replaying.clone import Commit

DOCS = Path(__file__).resolve().parents[2] / "docs"
SECTION = "Diffs that are refused"
_NAMED = re.compile(r"`([A-Z]+_[A-Z_]+(?:: [^`]+)?)`")
_ROW = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)
_ID = re.compile(r"\b[0-9a-f]{7,64}\b")
_NUMBER = re.compile(r"\d[\d,.]*")


def named_refusals() -> list[re.Pattern[str]]:
    """The sentences of guides and of the page of diffs that say why a diff is refused; `…` stands for anything.

    They are the quoted ones that begin with an error code, and the first column of the section on refused diffs. A
    code alone names its sentences unless it is one of wrong input, which has too many.
    """
    sentences: list[str] = []
    for page in (*sorted((DOCS / "guide").glob("*.md")), DOCS / "reference/diffs.md"):
        text = page.read_text("utf-8")
        section = text.partition(f"# {SECTION}\n")[2].partition("\n## ")[0]
        sentences += [*_NAMED.findall(text), *_ROW.findall(section)]
    telling = (one for one in sentences if ": " in one or not one.startswith("INVALID_"))
    return [re.compile(".*".join(map(re.escape, one.split("…"))), re.DOTALL) for one in telling]


def normalised(message: str, commit: Commit) -> str:
    """A refusal without the names and numbers of the commit, and without repeats, so that equal ones can be counted."""
    paths = [change.path.decode("utf-8", "replace") for change in commit.changes]
    # A name loses its first part where it is taken for a prefix.
    names = {*paths, *(path.partition("/")[2] for path in paths)}
    for name in sorted(names - {""}, key=len, reverse=True):
        message = re.sub(rf"(?:(?<=[ '\"])|^){re.escape(name)}(?=[:'\",]| (?:would|more|becomes) )", "PATH", message)
    message = _NUMBER.sub("N", _ID.sub("ID", message))
    return "; ".join(dict.fromkeys(re.sub(r"(\. (?=Make)| ID: )", "; ", message).split("; ")))


@dataclass
class Example:
    """The smallest input that failed in one way, and how many there were."""

    size: int
    where: str
    detail: str
    sent: bytes
    shown: bytes
    count: int = 0


@dataclass
class Tally:
    """The counts so far.

    Attributes:
        replayed: How many commits were approved and committed.
        passed_over: Commits of which nothing was approved, by the reason that the diff of the last dialect had.
        dialects: By dialect, how many diffs were `accepted`, `refused: REASON`, or came to less.
        refusals: By sentence.
        altered: By kind, how many were `refused` and `accepted`.
        shown: How many accepted diffs were shown as the approved content.
        failures: By kind.
    """

    replayed: int = 0
    passed_over: Counter[str] = field(default_factory=Counter[str])
    dialects: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict[str, Counter[str]](Counter))
    refusals: Counter[str] = field(default_factory=Counter[str])
    altered: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict[str, Counter[str]](Counter))
    shown: int = 0
    failures: dict[str, Example] = field(default_factory=dict[str, Example])

    def fail(
        self, kind: str, commit: Commit, dialect: str, detail: str, *, sent: bytes = b"", shown: bytes = b""
    ) -> None:
        """Note a failure; the smallest input of its kind is kept."""
        known = self.failures.get(kind)
        size = len(sent)
        if known is None or size < known.size:
            made = Example(size, f"{commit.id[:12]}, {dialect}", detail, sent, shown, known.count if known else 0)
            known = self.failures[kind] = made
        known.count += 1

    def report(self, seconds: float) -> str:
        """All of it as text."""
        accepted = sum(counts["accepted"] for counts in self.altered.values())
        tried = sum(counts.total() for counts in self.altered.values())
        digests = sum(example.count for kind, example in self.failures.items() if kind.startswith(DIGEST))
        pace = (self.replayed + self.passed_over.total()) / seconds
        lines = [
            f"{self.replayed} commits replayed, {self.passed_over.total()} not{_listed(self.passed_over)}",
            f"{seconds:.0f} s, {pace:.1f} commits a second",
            *(f"  {name:16} {_counts(counts)}" for name, counts in self.dialects.items()),
            f"altered commits: {tried - accepted} refused, {accepted} accepted",
            *(f"  {name:16} {_counts(counts)}" for name, counts in self.altered.items()),
            f"digests that differ: {digests}",
            f"shown exactly as approved: {self.shown}",
            f"refusals: {self.refusals.total()}",
            *(f"  {count:4} × {sentence}" for sentence, count in self.refusals.most_common()),
            f"failures: {sum(example.count for example in self.failures.values())}",
        ]
        for kind, example in sorted(self.failures.items(), key=lambda item: -item[1].count):
            lines += [f"  {example.count:4} × {kind}", f"         smallest ({example.size:,} bytes): {example.where}"]
            lines += [f"         {example.detail[:400]}"]
        return "\n".join(lines) + "\n"

    def save(self, folder: Path) -> None:
        """Write the smallest input of each kind of failure, as it was sent and as it was shown."""
        folder.mkdir(parents=True, exist_ok=True)
        for kind, example in self.failures.items():
            name = re.sub(r"\W+", "-", kind)[:80].strip("-")
            (folder / f"{name}.sent.diff").write_bytes(example.sent)
            (folder / f"{name}.shown.diff").write_bytes(example.shown)
            (folder / f"{name}.txt").write_text(f"{kind}\n{example.where}\n{example.detail}\n", "utf-8")


DIGEST = "the digest is not the commit's"


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


def _listed(counts: Counter[str]) -> str:
    return f" ({_counts(counts)})" if counts else ""

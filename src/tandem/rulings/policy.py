"""What a change needs before it may land, by the rules of `.tandem/policy.toml` (`policy_file` reads it).

Each changed path takes the rules that fit it, a path that none fits needs a review, and the change needs all that its
paths need. Where a doubt remains, more is needed rather than less: a path that differs from a rule's in case only fits
it, and a branch that is not known may be any.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tandem.core.visible import visible_line
from tandem.git.changes import Change
from tandem.git.hunks import parse
from tandem.rulings.globs import as_text, compiled, folded, loosely_folded

FILE: Final = ".tandem/policy.toml"

CHECKS: Final = "checks"
AGENT: Final = "agent"
REVIEW: Final = "review"
OWNER: Final = "owner"
PERSON: Final = "person"
UNREADABLE: Final = "policy"
"""Stands for a policy that cannot be read: no approval meets it."""
OWNED_BY: Final = "owner:"
"""Begins the word in place of `OWNER` once it is known who they are: their names follow, with commas between."""
OTHER_PROVIDER: Final = "agent:other-provider"
NEEDS: Final = {
    CHECKS: "passed checks",
    AGENT: "an agent's review",
    OTHER_PROVIDER: "a review by an agent of another provider",
    REVIEW: "a review by somebody other than its author",
    OWNER: "an owner's review",
    PERSON: "a person's review",
}
"""What a rule may need, with its words; besides these, `agent:NAME` is one by the agent, or client, of that name."""

SEVERITIES: Final = ("blocker", "major", "minor", "nit")
CODE: Final = "code_change"
CATEGORIES: Final = ("plan_review", CODE, "verification", "handoff")
ALL, FIRST = "all", "first"
MATCHES: Final = (ALL, FIRST)
SAME, REBASE = "same", "rebase"
CARRIES: Final = (SAME, REBASE)

UNRULED: Final = "no rule fits"
NO_PATHS: Final = "no paths are known"
NEVER_CHECKS_ALONE: Final = "checks alone never cover it"
OWN_PATH: Final = "the policy's own path"
REASONS: Final = frozenset({UNRULED, NO_PATHS, NEVER_CHECKS_ALONE, OWN_PATH})
"""Stand in place of a rule's name where no rule asks; no rule may have one of them as its name."""

BINARY_LINES: Final = 10**9
"""Of a binary file, which no size in a policy holds."""

MOST_PATHS = 5
_MOST_SHOWN = 2
_ORDER = {CHECKS: 0, AGENT: 1, REVIEW: 3, OWNER: 4, PERSON: 5}
_PROFILE_ORDER = 2

_OWN = compiled([FILE, f"{FILE}/**"])
_OWNERS = tuple(f"{folder}codeowners" for folder in ("", "docs/", ".github/", ".gitlab/"))
_OWN_WITH_OWNERS = compiled([FILE, f"{FILE}/**", *_OWNERS])
_NEVER_CHECKS_ALONE = compiled(
    [
        ".tandem",
        ".tandem/**",
        ".github/workflows/**",
        ".github/actions/**",
        ".gitlab-ci.yml",
        ".gitlab/ci/**",
        *(f"**/{name}" for name in ("codeowners", "review.md", "agents.md", "claude.md")),
        *(f"**/{name}" for name in (".gitattributes", ".gitmodules")),
    ]
)


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of a change that the rules ask about.

    Attributes:
        changes: The entries of its raw difference; empty where no repository is known, and of a plan.
        generated: Those of its paths that a program made, as the base branch says.
        lines: Lines added and removed; the caller counts a binary file as too large for any size.
        branch: The base branch, without `refs/heads/`; None where it is not known.
        category: The review's.
        proposer: Who proposes it.
        is_agent: Whether that is an agent.
        is_validated: Whether `changes` come from a real repository.
    """

    changes: tuple[Change, ...]
    generated: frozenset[str]
    lines: int
    branch: str | None
    category: str
    proposer: str
    is_agent: bool
    is_validated: bool = True


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that a change needs.

    Attributes:
        word: As in a rule's `needs`.
        rules: Names of the rules that ask for it, or one of `REASONS`.
        paths: The first five paths that need it.
    """

    word: str
    rules: tuple[str, ...]
    paths: tuple[str, ...]

    @property
    def words(self) -> str:
        """The need and its reason, as a part of a sentence."""
        if self.word == UNREADABLE:
            return visible_line(f"a policy that can be read, corrected by a change of it alone ({self.rules[0]})")
        named = _first_of([f"rule '{one}'" if one not in REASONS else one for one in self.rules])
        paths = _first_of([visible_line(path) for path in self.paths])
        return f"{in_words(self.word)} ({': '.join(filter(None, (named, paths)))})"

    @property
    def is_seat(self) -> bool:
        """Whether a reviewer of a certain kind meets it; a plain review is met by any of them."""
        return self.word not in {CHECKS, REVIEW}


def _first_of(texts: list[str]) -> str:
    return ", ".join([*texts[:_MOST_SHOWN], *("…" for _ in texts[_MOST_SHOWN : _MOST_SHOWN + 1])])


def owners_in(word: str) -> frozenset[str]:
    """The owners in a word that begins with `OWNED_BY`, without their case."""
    return frozenset(word.removeprefix(OWNED_BY).casefold().split(","))


def in_words(word: str) -> str:
    """A word of `needs` for people."""
    if word.startswith(OWNED_BY):
        return f"a review by an owner, {visible_line(' or '.join(sorted(owners_in(word))))}"
    kind, _, name = word.partition(":")
    return NEEDS.get(word) or (f"a review by the agent {name}" if kind == AGENT else f"'{visible_line(word)}'")


@dataclass(frozen=True, slots=True)
class Requirements:
    """The requirements of a change.

    Attributes:
        needs: In the order checks, agents, review, owner, person.
        threshold: From which severity on an open finding holds it back; None for the project's.
        rounds: After so many objections a person decides; None for the usual number.
        by_rule: Names of the rules that apply, in the order of the file.
        source: SHA-256 of the policy, in hexadecimal digits.
    """

    needs: tuple[Need, ...]
    threshold: str | None = None
    rounds: int | None = None
    by_rule: tuple[str, ...] = ()
    source: str = ""

    @property
    def only_checks(self) -> bool:
        """Whether passed checks are all that it needs."""
        return [one.word for one in self.needs] == [CHECKS]

    def as_json(self) -> str:
        """For storage."""
        needs = [[one.word, one.rules, one.paths] for one in self.needs]
        stored = {"needs": needs, **{name: getattr(self, name) for name in self.__slots__ if name != "needs"}}
        return json.dumps(stored, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def from_json(cls, stored: str) -> Requirements:
        """As `as_json` wrote them."""
        found: dict[str, Any] = json.loads(stored)
        needs = tuple(Need(word, tuple(rules), tuple(paths)) for word, rules, paths in found["needs"])
        return cls(needs, found["threshold"], found["rounds"], tuple(found["by_rule"]), found["source"])


@dataclass(frozen=True, slots=True)
class ChangedPath:
    """A changed path.

    Attributes:
        text: As it is written.
        folded: As a system reads it that minds case, accents, dots and spaces least.
        is_plain: Whether it is a plain file, by a name that every system reads alike but for case.
        is_generated: Whether a program made it.
    """

    text: str
    folded: str
    is_plain: bool
    is_generated: bool


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of the file. A predicate that is None, or empty, holds of anything.

    Attributes:
        name: Its own, or `rule 1`.
        text: Its lines in the file.
        needs: The words.
        paths: Patterns, folded.
        not_paths: Patterns: folded if it needs checks alone, else as written, so that no look-alike escapes it.
        risk: Patterns of all its risk words, folded.
    """

    name: str
    text: str
    needs: tuple[str, ...]
    paths: re.Pattern[str] | None = None
    not_paths: re.Pattern[str] | None = None
    risk: re.Pattern[str] | None = None
    branches: re.Pattern[str] | None = None
    categories: tuple[str, ...] = ()
    lines: range | None = None
    files: range | None = None
    by: tuple[str, ...] = ()
    generated: bool | None = None
    threshold: str | None = None
    rounds: int | None = None

    @property
    def is_lenient(self) -> bool:
        """Whether it needs no more than checks."""
        return self.needs == (CHECKS,)

    @property
    def asks_paths(self) -> bool:
        """Whether a path has to be known to say if it applies."""
        return self.generated is not None or any((self.paths, self.not_paths, self.risk))

    def concerns(self, facts: Facts) -> bool:
        """Whether a change as a whole fits; where its branch is not known, only a lenient rule does not."""
        return (
            (self._is_of(facts.category) or self._may_be_code(facts))
            and (self.lines is None or facts.lines in self.lines)
            and (self.files is None or len(facts.changes) in self.files)
            and (not self.by or self._is_by(facts))
            and self._is_for(facts.branch)
        )

    def _is_of(self, category: str) -> bool:
        return not self.categories or category in self.categories

    def _may_be_code(self, facts: Facts) -> bool:
        # The text of a document changes it as its diff does, and its category is the proposer's word.
        return not self.is_lenient and bool(facts.changes) and self._is_of(CODE)

    def _is_by(self, facts: Facts) -> bool:
        # A proposer that has one of the two words as its name is no case of the word.
        kind = AGENT if facts.is_agent else PERSON
        return kind in self.by or facts.proposer in set(self.by) - {AGENT, PERSON}

    def _is_for(self, branch: str | None) -> bool:
        if self.branches is None:
            return True
        return not self.is_lenient if branch is None else self.branches.fullmatch(folded(branch)) is not None

    def is_sure(self, facts: Facts) -> bool:
        """Whether a rule that concerns a change would also do so if all were known."""
        is_sure_kind = self._is_of(facts.category) and (not facts.changes or self._is_of(CODE))
        return is_sure_kind and (self.branches is None or facts.branch is not None)

    def fits(self, path: ChangedPath) -> bool:
        """Whether it fits one of the change's paths."""
        if self.paths is not None and self.paths.fullmatch(path.folded) is None:
            return False
        if self.risk is not None and self.risk.fullmatch(path.folded) is None:
            return False
        looked_at = path.folded if self.is_lenient else path.text
        if self.not_paths is not None and self.not_paths.fullmatch(looked_at) is not None:
            return False
        return self.generated is None or self.generated is path.is_generated


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules of a file.

    Attributes:
        source: SHA-256 of its content, in hexadecimal digits.
        match: Which of the rules that fit a path count: `all`, or the `first`.
        rules: In the order of the file.
        carry: To which later rounds approvals carry over: of the `same` content, or of a `rebase` of the change, too.
    """

    source: str
    match: str
    rules: tuple[Rule, ...]
    carry: str = SAME

    def requirements(self, facts: Facts) -> Requirements:
        """The requirements of a change."""
        rules = [rule for rule in self.rules if rule.concerns(facts)]
        names_owners = any(OWNER in rule.needs for rule in self.rules)
        gathered = _Gathered(_OWN_WITH_OWNERS if names_owners else _OWN)
        for change in facts.changes:
            path = path_of(change, is_generated=change.path in facts.generated)
            found = [rule for rule in rules if rule.fits(path)]
            gathered.add(path, self._counting(found, facts))
        if not facts.changes:
            gathered.add(None, self._counting([rule for rule in rules if not rule.asks_paths], facts))
        if not facts.changes or not facts.is_validated:
            gathered.need(REVIEW, NO_PATHS, None)
        applied = [rule for rule in self.rules if rule.name in gathered.applied]
        return Requirements(
            gathered.needs([rule.name for rule in applied]),
            max((rule.threshold for rule in applied if rule.threshold), key=SEVERITIES.index, default=None),
            min((rule.rounds for rule in applied if rule.rounds), default=None),
            tuple(rule.name for rule in applied),
            self.source,
        )

    def text_of(self, name: str) -> str:
        """The lines of a rule in the file.

        Raises:
            KeyError: There is no rule of that name.
        """
        return {rule.name: rule.text for rule in self.rules}[name]

    def _counting(self, found: list[Rule], facts: Facts) -> list[Rule]:
        """Those rules that count: all, or all up to the first that surely fits."""
        if self.match == FIRST:
            sure = (number for number, rule in enumerate(found, start=1) if rule.is_sure(facts))
            return found[: next(sure, len(found))]
        return found


@dataclass(slots=True)
class _Gathered:
    """The requirements of a change's paths, path by path."""

    own: re.Pattern[str]
    """The paths that say how changes are judged."""
    asking: dict[str, dict[str, None]] = field(default_factory=dict[str, "dict[str, None]"])
    """By word, who asks for it."""
    paths: dict[str, list[str]] = field(default_factory=dict[str, "list[str]"])
    applied: set[str] = field(default_factory=set[str])
    is_one_more: bool = False
    """Whether a rule names a plain review beside other reviewers: it is one more than theirs."""

    def add(self, path: ChangedPath | None, rules: list[Rule]) -> None:
        """Add what one path needs, or a change without any."""
        words = {word for rule in rules for word in rule.needs}
        for rule in rules:
            self.applied.add(rule.name)
            self.is_one_more |= REVIEW in rule.needs and not {CHECKS, REVIEW}.issuperset(rule.needs)
            for word in rule.needs:
                self.need(word, rule.name, path)
        if path is not None:
            self._need_in_any_case(path, words)

    def _need_in_any_case(self, path: ChangedPath, words: set[str]) -> None:
        """Add what no rule can do without."""
        if self.own.fullmatch(path.folded) is not None:
            self.need(PERSON, OWN_PATH, path)
        elif not words:
            self.need(REVIEW, UNRULED, path)
        elif words == {CHECKS} and not (path.is_plain and _NEVER_CHECKS_ALONE.fullmatch(path.folded) is None):
            self.need(REVIEW, NEVER_CHECKS_ALONE, path)

    def need(self, word: str, reason: str, path: ChangedPath | None) -> None:
        """Add one thing that is needed."""
        self.asking.setdefault(word, {})[reason] = None
        paths = self.paths.setdefault(word, [])
        # All of an owner's: each may be somebody else's. The rules of one path come one after the other.
        if path is not None and (word == OWNER or len(paths) < MOST_PATHS) and path.text not in paths[-1:]:
            paths.append(path.text)

    def needs(self, names: list[str]) -> tuple[Need, ...]:
        """All that is needed, in order; those who ask in the order of the rules' names."""
        words = sorted(self.asking, key=lambda word: (_ORDER.get(word, _PROFILE_ORDER), word))
        found = [
            Need(
                word,
                tuple(name for name in (*names, *sorted(REASONS)) if name in self.asking[word]),
                tuple(self.paths[word]),
            )
            for word in words
        ]
        is_met = not self.is_one_more and any(one.is_seat for one in found)
        return tuple(one for one in found if not (is_met and one.word == REVIEW))


def lines_in(files: Sequence[Mapping[str, Any]], diff: Callable[[], str | None]) -> int:
    """The lines that a change adds and removes; of a renamed file all that it had and has, as it is two paths.

    Args:
        files: The affected files, as answers and rounds have them; of a renamed one with the lines that differ only.
        diff: Gives the drawn diff, which has all lines; called where a file is renamed.
    """
    if any(one.get("old_path") for one in files) and (drawn := diff()) is not None:
        return sum(BINARY_LINES if one.binary else one.added + one.deleted for one in parse(drawn))
    return sum(BINARY_LINES if one.get("added") is None else one["added"] + (one["removed"] or 0) for one in files)


def path_of(change: Change, *, is_generated: bool = False) -> ChangedPath:
    """A changed path, as rules look at it."""
    loose = loosely_folded(change.path)
    return ChangedPath(change.path, loose, change.is_plain and loose == folded(as_text(change.path)), is_generated)


def is_own(change: Change) -> bool:
    """Whether a change is one of the policy's own path."""
    return _OWN.fullmatch(path_of(change).folded) is not None

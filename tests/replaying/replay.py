"""Replays one commit after the other: submitted, approved, altered, committed."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from typing import Any

from tests.acceptance.reviewing import Desk
from tests.replaying import strict
from tests.replaying.alterations import Edits, alteration
from tests.replaying.clone import Clone, Commit, digest_of
from tests.replaying.dialects import FALLBACKS, REASONS, Dialect, limits
from tests.replaying.strict import Misshown, State
from tests.replaying.tally import DIGEST, Tally, named_refusals, normalised

REVIEWER = "second"
SAYS_ELSE = {"says less", "says more"}
"""Reasons for which a diff may be refused in any words."""

LOSES = {*SAYS_ELSE, "line ends", "encoding"}
"""Reasons for which a diff may differ from its commit, which the gate must then refuse."""


class Replay:
    """A clone, the desks of a proposer and a reviewer at its project, and the results.

    Attributes:
        tally: The results.
    """

    def __init__(self, clone: Clone, proposer: Desk, reviewer: Desk, chance: random.Random) -> None:
        self.tally = Tally()
        self._clone = clone
        self._proposer = proposer
        self._reviewer = reviewer
        self._chance = chance
        self._named = named_refusals()
        self._approved: set[str] = set()

    def run(self, commit: Commit, dialects: list[Dialect]) -> None:
        """Replay one commit, whose first parent's tree is the tip's, in these dialects, or if need be in another."""
        clone, head = self._clone, self._clone.head
        clone.take(commit)
        reviews = [review for dialect in dialects if (review := self._submitted(commit, dialect, head))]
        for dialect in FALLBACKS:
            if not reviews and dialect not in dialects:
                reviews = [review for review in [self._submitted(commit, dialect, head)] if review]
        if not reviews:
            self._refused(commit, head, "nothing approved", {})
            clone.step_over(commit)
            self.tally.passed_over[", ".join(sorted(limits(clone, commit, FALLBACKS[-1], b""))) or "refused"] += 1
            return
        *others, review = reviews
        for other in others:
            self._proposer.do("close_review", review_id=other)
        self._reviewer.approve(review, REVIEWER)
        self._approved.add(commit.digest)
        self._refused(commit, head, *alteration(clone, commit, self._chance))
        self._committed(commit, head)
        self._proposer.do("close_review", review_id=review)

    def _submitted(self, commit: Commit, dialect: Dialect, head: str) -> str | None:
        """Submit the commit in one dialect; the review if it was accepted as exactly this commit."""
        diff = dialect.write(self._clone, commit)
        reasons = limits(self._clone, commit, dialect, diff)
        # As clients send it: most replace bytes that are not UTF-8; others send lone surrogates in JSON.
        text = diff.decode("utf-8", "replace" if commit.number % 2 else "surrogateescape")
        envelope = self._create(commit, text, head)
        counts = self.tally.dialects[dialect.name]
        if not envelope["ok"]:
            error = envelope["error"]
            counts[f"refused ({', '.join(sorted(reasons)) or 'WITHOUT REASON'})"] += 1
            self._judge_refusal(f"{error['code']}: {error['message']}", reasons, commit, dialect.name, diff)
            return None
        review, digest = envelope["data"]["review_id"], envelope["data"]["digest"]
        shown = self._reviewer.do("get_proposal", review_id=review)
        self._judge_shown(commit, dialect.name, head, diff, shown)
        if digest == commit.digest:
            counts["accepted"] += 1
            return review
        if reasons & LOSES and "binary" not in reasons:
            counts[f"accepted ({', '.join(reasons)})"] += 1
            self._reviewer.approve(review, REVIEWER)
            self._refused(commit, head, "not what its diff said", {})
            self._reviewer.do(
                "withdraw_approval", review_id=review, withdrawn_by=REVIEWER, reason="It was another change."
            )
        else:
            counts["ACCEPTED AS SOMETHING ELSE"] += 1
            kind = f"{DIGEST}: {', '.join(sorted(reasons))}" if reasons else DIGEST
            detail = f"{digest} is approved, {commit.digest} is the commit's"
            self.tally.fail(kind, commit, dialect.name, detail, sent=diff, shown=shown["diff"].encode())
        self._proposer.do("close_review", review_id=review)
        return None

    def _create(self, commit: Commit, text: str, head: str) -> dict[str, Any]:
        arguments = {"intent": f"Commit {commit.id}", "agent_type": "replay", "proposer_id": "author"}
        body = {"project": self._proposer.project, "diff": text, "base": head, **arguments}
        answer: dict[str, Any] = self._proposer.send("create_review", json.dumps(body).encode()).json()
        return answer

    def _judge_refusal(self, message: str, reasons: set[str], commit: Commit, dialect: str, diff: bytes) -> None:
        sentence = normalised(message, commit)
        self.tally.refusals[f"{sentence} [{', '.join(sorted(reasons)) or 'no reason'}]"] += 1
        if not reasons:
            self.tally.fail(f"refused without a reason: {sentence}", commit, dialect, message, sent=diff)
        elif not any(pattern.search(message) for pattern in self._named):
            self.tally.fail(f"the guide does not name: {sentence}", commit, dialect, message, sent=diff)
        elif not (reasons & SAYS_ELSE or any(re.search(REASONS[reason], message) for reason in reasons)):
            why = ", ".join(sorted(reasons))
            self.tally.fail(
                f"refused without a word of the reason ({why}): {sentence}", commit, dialect, message, sent=diff
            )

    def _judge_shown(self, commit: Commit, dialect: str, head: str, sent: bytes, proposal: dict[str, Any]) -> None:
        """P9: the diff that is shown, applied without any leniency, gives the approved content."""
        shown = proposal["diff"].encode()
        try:
            self._ensure_shown(commit, head, shown, proposal["digest"])
        except Misshown as exc:
            self.tally.fail(f"shown: {exc.kind}", commit, dialect, exc.detail, sent=sent, shown=shown)
        else:
            self.tally.shown += 1

    def _ensure_shown(self, commit: Commit, head: str, shown: bytes, digest: str) -> None:
        clone = self._clone
        before = {change.path: clone.state(change.before) for change in commit.changes}

        def read(path: bytes) -> State | None:
            if path not in before:
                before[path] = clone.state(clone.entry(head, path))
            return before[path]

        made, binary = strict.applied(shown, read)
        if clone.digest({path: (before[path], state) for path, state in made.items()}) != digest:
            raise Misshown("something else than approved", self._culprit(commit, made), f"{digest} is approved")
        for path in sorted(binary):
            if all(map(_reads_as_text, (before[path], made[path]))) and clone.is_text_by_attribute(path):
                raise Misshown("text as a binary patch", path)

    def _culprit(self, commit: Commit, made: Mapping[bytes, State | None]) -> bytes:
        """The first path that a diff makes something else of than the commit does."""
        there = {change.path: self._clone.state(change.after) for change in commit.changes}
        differing = [path for path in {*made, *there} if path not in made or made[path] != there.get(path)]
        return min(differing, default=b"")

    def _refused(self, commit: Commit, head: str, kind: str, edits: Edits) -> None:
        """Commit something that was not approved, which the gate must refuse; the index is then the commit's again."""
        clone = self._clone
        clone.stage(edits.items())
        ended = clone.commit(b"Altered\n")
        said = ended.stderr.decode(errors="replace")
        if clone.head == head:
            outcome = "refused"
            if "tandem: refused" not in said:
                self.tally.fail(f"not the gate refused: {kind}", commit, "", said)
        elif digest_of(clone.raw("HEAD^", "HEAD")) in self._approved:
            outcome = "the same as an earlier commit"
        else:
            outcome = "accepted"
            made = clone.git("diff", "--binary", "HEAD^", "HEAD", "--")
            self.tally.fail(f"an altered commit was accepted: {kind}", commit, "", said, sent=made)
        self.tally.altered[kind][outcome] += 1
        if outcome != "refused":
            clone.back_to(head)
        if edits:
            clone.git("read-tree", commit.id)

    def _committed(self, commit: Commit, head: str) -> None:
        """Commit exactly the approved content."""
        clone = self._clone
        ended = clone.commit(clone.message(commit))
        if ended.returncode != 0 or clone.head == head:
            self.tally.fail("the approved commit was refused", commit, "", ended.stderr.decode(errors="replace"))
            clone.step_over(commit)
        elif clone.line("rev-parse", "HEAD^{tree}") != clone.line("rev-parse", f"{commit.id}^{{tree}}"):
            self.tally.fail("the commit has another tree", commit, "", clone.head)
            clone.step_over(commit)
        else:
            self.tally.replayed += 1


def _reads_as_text(state: State | None) -> bool:
    if state is None:
        return True
    try:
        state.content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return b"\0" not in state.content

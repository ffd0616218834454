"""One person at one broker: the connection, a review as it is read, drafts, and the actions on it."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Literal, cast

from tandem.bridge.session import CALL_SECONDS, Unreachable
from tandem.cli import persons
from tandem.cli.connection_options import ConnectionOptions
from tandem.client import TandemClient
from tandem.contract.caller import Names
from tandem.errors import CursorExpired, InvalidInput, NotClaimant, StaleRound, TandemError
from tandem.present.words import draft_name
from tandem.reviews import edits
from tandem.reviews.answers import DiscussionEntry, Proposal, ReviewStatus
from tandem.reviews.check_contract import CheckView
from tandem.reviews.claim_rules import is_own
from tandem.reviews.finding_contract import FindingView, GivenFinding, GivenSettling
from tandem.reviews.finding_rules import ANSWERS, SAID_BY_FINDINGS, SEE_FINDINGS, Answer, Settling
from tandem.reviews.page_contract import Draft, as_finding
from tandem.rulings import proof

_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 3.0
_EARLY_SECONDS = CALL_SECONDS / 2
"""A wait that ends sooner with nothing new was answered by a broker that is stopping."""
_HELD = frozenset({"claimed", "in_review"})
_PAGE = 200
_MOST_ENTRIES = 1_000
"""A longer discussion than this is shown in its beginning; the rest is for `tandem review discussion`."""
Verdict = Literal["approved", "changes_requested", "rejected", "comment"]
Settlement = Literal["approved", "objects"]
Side = Literal["proposer", "reviewer"]
Said = Literal[Answer, Settling]
Version = tuple[str, str]
"""A draft's id, and when it was saved."""


@dataclass(frozen=True, slots=True)
class WaitResult:
    """What a wait came back with.

    Attributes:
        subjects: What events were about; None if anything may have happened.
        trouble: Why nothing is heard at the moment; None if all is well.
    """

    subjects: frozenset[str] | None = None
    trouble: str | None = None


def _trouble(error: TandemError) -> str:
    if isinstance(error, Unreachable):
        return "The broker is away; this goes on by itself once it is back. The screen may be out of date."
    return f"{error.message} Trying again."


@dataclass(slots=True)
class ScreenDraft:
    """A text that is being written, and the choice made with it.

    Attributes:
        text: As far as it has been typed.
        choice: The option chosen beside it; None for the dialog's own first choice.
        more: The other fields by their names.
        known: The draft at the broker that it was made of.
        start: How it began; None before it does.
    """

    text: str = ""
    choice: str | None = None
    more: dict[str, str | bool] = field(default_factory=dict[str, str | bool])
    known: Draft | None = None
    start: object = None

    def begin(self, known: Draft | None, more: dict[str, str | bool]) -> None:
        """Begin with a draft as the broker has it now, unless something else was typed since the last time."""
        if self.start in (None, self._said):
            before = as_finding(known) if known else None
            self.text, self.choice = (before.claim, before.severity) if before else ("", "minor")
            self.known, self.more = known, more
            self.start = self._said

    @property
    def _said(self) -> object:
        return self.text, self.choice, {name: value for name, value in self.more.items() if value}

    @property
    def is_written(self) -> bool:
        """Whether it has words of the person's own; a suggestion begins with the lines that it is for."""
        return any(str(one).strip() for one in (self.text, *map(self.more.get, ("category", "failure"))) if one)

    def clear(self) -> None:
        """Forget it, as it has been sent."""
        self.text, self.choice, self.more, self.known, self.start = "", None, {}, None, None


@dataclass(frozen=True, slots=True)
class LineRef:
    """A line of a round's content.

    Attributes:
        path: The file.
        line: Its number; None for the file as a whole.
        side: Whether that is its number after the change, or before it.
        first: The first of several lines, of which it is the last; None if it is the only one.
    """

    path: str
    line: int | None
    side: Literal["new", "old"] = "new"
    first: int | None = field(default=None, compare=False)

    @property
    def words(self) -> str:
        """Its lines in words: `lines 2-4 before the change`."""
        lines = f"line {self.line}" if self.first is None else f"lines {self.first}-{self.line}"
        return f"{lines}{' before the change' if self.side == 'old' else ''}"

    @property
    def place(self) -> str:
        """The file, and its lines in words."""
        return self.path if self.line is None else f"{self.path}, {self.words}"


@dataclass(slots=True)
class Drafts:
    """Everything unsent but findings, which the broker keeps, by review."""

    _texts: dict[tuple[str, str], ScreenDraft] = field(default_factory=dict[tuple[str, str], ScreenDraft])
    _answers: dict[str, dict[str, GivenSettling]] = field(default_factory=dict[str, dict[str, GivenSettling]])

    def text(self, review_id: str, purpose: str) -> ScreenDraft:
        """The draft of a dialog, which is the same one each time it is opened."""
        return self._texts.setdefault((review_id, purpose), ScreenDraft())

    def answers(self, review_id: str) -> Mapping[str, GivenSettling]:
        """What the next verdict says of earlier findings, by their ids."""
        return self._answers.get(review_id, {})

    def settle(self, review_id: str, finding_id: str, answer: str, reason: str) -> None:
        """Keep the answer to an earlier finding."""
        said = GivenSettling(finding_id=finding_id, answer=cast("Settling", answer), reason=reason or None)
        self._answers.setdefault(review_id, {})[finding_id] = said

    def sent(self, review_id: str) -> None:
        """Forget the answers, as they have gone with a verdict."""
        self._answers.pop(review_id, None)

    def unsent(self) -> list[str]:
        """The reviews for which something was typed and not sent."""
        return sorted({*self.typed(), *self._answers})

    def typed(self, purpose: str = "") -> set[str]:
        """The reviews for which a text was typed and not sent, in dialogs whose purpose begins like this."""
        return {one for (one, what), draft in self._texts.items() if draft.is_written and what.startswith(purpose)}


@dataclass(frozen=True, slots=True)
class LoadedReview:
    """A review as it was read.

    Attributes:
        status: Where it stands now.
        proposal: The round that is shown.
        entries: The discussion of all rounds, oldest first.
        is_whole: Whether that is all of the discussion.
        checks: Those that ran on the round that is shown.
        findings: Those of all rounds, with their places in the round that is shown.
        drafts: What the person would report with a verdict, as the broker keeps it.
    """

    status: ReviewStatus
    proposal: Proposal
    entries: tuple[DiscussionEntry, ...]
    is_whole: bool
    checks: tuple[CheckView, ...]
    findings: tuple[FindingView, ...]
    drafts: tuple[Draft, ...]

    @property
    def unsent(self) -> list[tuple[LineRef, Draft]]:
        """The drafts by their places in the round that is shown; in an earlier one, only its own."""
        number = self.proposal.round
        shown = (
            self.drafts if self.is_current else (replace(one, place=None) for one in self.drafts if one.round == number)
        )
        return [(line_of(as_finding(one)), one) for one in shown]

    @property
    def versions(self) -> set[Version]:
        """Those of its drafts."""
        return set(map(_version, self.drafts))

    @property
    def is_current(self) -> bool:
        """Whether the round that is shown is the one that a verdict is for."""
        return self.proposal.round == self.status.round

    @property
    def is_held(self) -> bool:
        """Whether a reviewer holds a claim."""
        return self.status.status in _HELD

    def is_held_by(self, person: str) -> bool:
        """Whether it is this person who does."""
        return self.is_held and self.status.reviewer_id == person

    def is_own(self, person: str) -> bool:
        """Whether the round that is shown is this person's own work, so that the broker takes no verdict from them."""
        shown = self.proposal
        # Where access tokens decide whose a name is, the broker knows better, and refuses.
        names = Names.of(person, by_token=False)
        return is_own(names, shown, proposer=shown.proposer_id, submitter=shown.submitter)

    def side_of(self, person: str) -> str:
        """The side for which a person's message is."""
        is_proposer = person in {self.proposal.proposer_id, self.proposal.author}
        is_others = self.status.status != "pending" and self.status.reviewer_id != person
        return "proposer" if is_proposer or is_others else "reviewer"


def _version(draft: Draft) -> Version:
    return draft.draft_id, draft.updated_at


def line_of(one: FindingView | GivenFinding) -> LineRef:
    """Where a finding stands, or the draft of one."""
    place = one.place if isinstance(one, FindingView) and one.place else one
    last = place.end_line or place.line
    side = "old" if one.side == "old" and last is not None else "new"
    return LineRef(place.file or one.file or "", last, side, place.line if place.line != last else None)


async def read_drafts(client: TandemClient, review_id: str, person: str) -> tuple[Draft, ...]:
    """What a person would report with a verdict, wherever they wrote it.

    Raises:
        TandemError: The broker refuses, or none answers.
    """
    page = await client.list_drafts(person=person, review_id=review_id)
    found = page.drafts
    while page.next_page is not None:
        page = await client.list_drafts(person=person, review_id=review_id, page=page.next_page)
        found += page.drafts
    return tuple(one for one in found if one.kind == "finding")


async def read(client: TandemClient, review_id: str, person: str, shown: int | None, since: int | None) -> LoadedReview:
    """Ask the broker for a review.

    Args:
        client: The broker's client.
        review_id: The review.
        person: Who reads it.
        shown: The round; None for the current one.
        since: The earlier round to compare with; None for the whole round.

    Raises:
        TandemError: It refuses, or none answers.
    """
    found = await client.get_review(review_id, round=shown, since_round=since)
    entries, page = found.discussion.entries, found.discussion.next_page
    while page is not None and len(entries) < _MOST_ENTRIES:
        following = await client.get_discussion(review_id, limit=_PAGE, page=page)
        entries, page = entries + following.entries, following.next_page
    drafts = await read_drafts(client, review_id, person)
    return LoadedReview(found.status, found.proposal, entries, page is None, found.checks, found.findings, drafts)


class ScreenClient:
    """One person at one broker, which may come back at another address after a restart.

    Attributes:
        client: The broker's client as it is now.
        person: The name under which they decide; empty until it is known.
        project: The project that is shown; None for all of them.
        home: The project that the command was called for, if there is one.
        drafts: Their unsent texts.
    """

    def __init__(self, options: ConnectionOptions, person: str, project: str | None = None) -> None:
        self._options = options
        self.client = self._connected()
        self.person, self.project, self.home = person, project, project
        self.drafts = Drafts()

    def _connected(self) -> TandemClient:
        client = self._options.client()
        # The screen says so at once when the broker is away, and goes on by itself.
        client.session.away_s = 0
        return client

    async def introduce(self, person: str) -> None:
        """Name who is calling, from now on."""
        self.person = person
        self._options = self._options.changed(agent=person)
        await self._change_to(self._connected())

    async def _look_again(self) -> None:
        """Find out where the broker is now, if no option says where it has to be."""
        found = self._connected()
        if found.url == self.client.url:
            await found.close()
        else:
            await self._change_to(found)

    async def _change_to(self, client: TandemClient) -> None:
        old, self.client = self.client, client
        await old.close()

    async def follow(self, tell: Callable[[WaitResult], None]) -> None:
        """Tell what happens for as long as the task lasts.

        Args:
            tell: Called with each news: a change, or that the broker is away, or back.
        """
        cursor: str | None = None
        pause_seconds = _FIRST_PAUSE_SECONDS
        # The first answer is news as well: an earlier answer may have missed something.
        is_away = True
        while True:
            began = time.monotonic()
            # That it is back is news by itself: the events since are asked for without waiting.
            wait = cursor is not None and not is_away
            try:
                page = await self.client.get_audit_log(
                    wait=wait, cursor=cursor, timeout_s=CALL_SECONDS if wait else None, limit=_PAGE
                )
            except CursorExpired:
                # Another database, or one that was put back: nothing that was read can be relied on.
                cursor, is_away = None, True
                continue
            except TandemError as error:
                is_away = True
                tell(WaitResult(trouble=_trouble(error)))
                await asyncio.sleep(pause_seconds)
                pause_seconds = min(2 * pause_seconds, _LONGEST_PAUSE_SECONDS)
                await self._look_again()
                continue
            if is_away:
                tell(WaitResult())
            elif page.changed:
                tell(WaitResult(frozenset(event.subject for event in page.events)))
            elif time.monotonic() - began < _EARLY_SECONDS:
                await asyncio.sleep(_FIRST_PAUSE_SECONDS)
            cursor, is_away, pause_seconds = page.cursor, False, _FIRST_PAUSE_SECONDS

    async def release(self, reading: LoadedReview) -> None:
        """Give the claim back.

        Raises:
            NotClaimant: It is not the person's.
            TandemError: The broker refuses, or none answers.
        """
        status = reading.status
        if not reading.is_held_by(self.person):
            # The broker takes a caller who knows the generation for its holder, and the screen knows all generations.
            holder = f"{status.reviewer_id} holds it" if reading.is_held else "no one holds it"
            raise NotClaimant(f"There is no claim of yours to release: {holder}.")
        await self.client.release_claim(status.review_id, claim_generation=status.claim_generation)

    async def decide(
        self,
        reading: LoadedReview,
        round_number: int,
        verdict: str,
        reason: str,
        key: str,
        *,
        shown: set[Version],
        verified: Iterable[str] = (),
        counter_patch: str | None = None,
    ) -> None:
        """Give a verdict on a round with its findings, on a claim that is made with it if the person has none.

        Earlier findings are `verified`, unless something else was said of them.

        Raises:
            InvalidInput: The person has drafts that were not `shown`; they count as shown from then on.
            StaleRound: It is no longer the current one.
            TandemError: The broker refuses, and everything is as before; or none answers.
        """
        status = reading.status
        is_held = reading.is_held_by(self.person)
        if status.round != round_number:
            raise StaleRound(f"Round {status.round} is the current one; the verdict is on round {round_number}.")
        drafts = await self._drafts_if(status.review_id, shown)
        for one in drafts:
            if not one.body.strip():
                raise InvalidInput(f"Say first what the fault is on {one.file}, line {one.line}; nothing is sent yet.")
        found = [as_finding(one) for one in drafts]
        answers = {one: GivenSettling(finding_id=one, answer="verified") for one in verified}
        answers |= self.drafts.answers(status.review_id)
        if not reason.strip() and found and verdict in SAID_BY_FINDINGS:
            reason = SEE_FINDINGS
        said = {"review_id": status.review_id, "verdict": verdict, "reviewer_id": self.person, "reason": reason or None}
        sent = self.client.submit_verdict(
            status.review_id,
            verdict=cast("Verdict", verdict),
            reason=reason or None,
            proof=persons.person_proof(self.client.location, said).get("proof"),
            findings=found or None,
            answers=[*answers.values()] or None,
            counter_patch=counter_patch,
            claim=not is_held,
            claim_generation=status.claim_generation if is_held else None,
            reviewer_id=self.person,
            round=round_number,
            idempotency_key=key,
        )
        # Also where its dialog is left meanwhile: else the drafts stay that it sends.
        await asyncio.shield(self._send(sent, status.review_id, shown))

    async def _send(self, sent: Awaitable[object], review_id: str, shown: set[Version]) -> None:
        await sent
        self.drafts.sent(review_id)
        with suppress(TandemError):
            # Words written elsewhere since then were not sent.
            left = await read_drafts(self.client, review_id, self.person)
            await self._discard(review_id, [one for one in left if _version(one) in shown])

    async def _drafts_if(self, review_id: str, shown: set[Version]) -> tuple[Draft, ...]:
        drafts = await read_drafts(self.client, review_id, self.person)
        if unseen := [one for one in drafts if _version(one) not in shown]:
            shown |= set(map(_version, drafts))
            names = "; ".join(draft_name(asdict(one)) for one in unseen)
            raise InvalidInput(
                f"You wrote something in another window: {names}."
                " It is shown now, and goes with the verdict. Send again."
            )
        return drafts

    async def keep(
        self, review_id: str, number: int, spot: LineRef, known: Draft | None, *, body: str, **said: Any
    ) -> tuple[Draft, ...]:
        """Keep a draft of a finding on lines of a round, in the place of a known one; without a text, none.

        Returns:
            All of the review.

        Raises:
            TandemError: The broker refuses, or none answers.
        """
        if body.strip():
            await self.client.save_draft(
                review_id,
                draft_id=known.draft_id if known else f"own-{time.time_ns() // 1_000_000}-{secrets.token_hex(3)}",
                person=self.person,
                round=number,
                kind="finding",
                body=body,
                file=spot.path,
                line=spot.first or spot.line,
                end_line=spot.line if spot.first else None,
                side="before" if spot.side == "old" else "after",
                expected=known.updated_at if known else None,
                **said,
            )
        elif known:
            await self._discard(review_id, [known])
        return await read_drafts(self.client, review_id, self.person)

    async def _discard(self, review_id: str, drafts: Sequence[Draft]) -> None:
        if drafts:
            seen = max(one.updated_at for one in drafts)
            names = [one.draft_id for one in drafts]
            await self.client.discard_draft(review_id, draft_ids=names, person=self.person, expected=seen)

    async def opened(
        self, reading: LoadedReview, found: Sequence[FindingView], paths: Iterable[str] = ()
    ) -> list[edits.Editable]:
        """Files of the round that is shown, or its text, to be edited, with suggestions put in.

        Raises:
            InvalidInput: One of them cannot be edited.
            TandemError: The broker refuses, or none answers.
        """
        shown = reading.proposal
        if shown.diff is None:
            text = shown.description or ""
            content, original = edits.with_suggestions(text, found), edits.digest(text)
            return [edits.Editable(shown.path or "", content, original)]
        ask = partial(self.client.get_round_file, shown.review_id, round=shown.round)
        wanted = [*paths, *(one.place.file for one in found if one.place and one.place.file)]
        files = await edits.opened(ask, wanted, found)
        if refused := [f"{file.path}: {file.refused}" for file in files if file.refused]:
            raise InvalidInput(" ".join(refused))
        return files

    async def offer(
        self,
        reading: LoadedReview,
        files: Sequence[edits.Editable],
        verdict: str,
        reason: str,
        key: str,
        shown: set[Version],
    ) -> None:
        """Give a verdict with the counter-patch that edited files make of the round that is shown.

        Raises:
            InvalidInput: They cannot be put in.
            TandemError: The broker refuses, or none answers.
        """
        base = reading.proposal
        changed = [file.edit() for file in files]
        given: dict[str, Any] = {"text": changed[0]["content"]} if base.diff is None else {"edits": changed}
        made = await self.client.draft_counter_patch(base.review_id, round=base.round, **given)
        if not made.applies:
            raise InvalidInput(made.problem or "The suggestions change nothing.")
        patch = made.counter_patch
        await self.decide(reading, base.round, verdict, reason, key, shown=shown, counter_patch=patch)

    async def settle(self, reading: LoadedReview, choice: str, reason: str, key: str) -> None:
        """Give the review of a waived requirement that is owed, on the round that is shown: a verdict and its need."""
        verdict, _, need = choice.partition(" ")
        review_id, why = reading.status.review_id, reason.strip() or None
        facts = proof.settling_facts(review_id, need, verdict, self.person, why)
        await self.client.settle_waiver(
            review_id,
            verdict=cast("Settlement", verdict),
            need=need,
            reason=why,
            round=reading.proposal.round,
            reviewer_id=self.person,
            proof=persons.sealed(self.client.location, facts).get("proof"),
            idempotency_key=key,
        )

    async def answer(self, finding: FindingView, said: str, reason: str, key: str) -> None:
        """Say at once of a finding what became of it: as its proposer, or beyond any verdict."""
        await self.client.answer_finding(
            finding.review_id,
            finding_id=finding.finding_id,
            answer=cast("Said", said),
            reason=reason or None,
            reviewer_id=None if said in ANSWERS else self.person,
            idempotency_key=key,
        )

    async def say(self, reading: LoadedReview, side: str, body: str, resolves: str | None, key: str) -> None:
        """Say something for one of the two sides; for the reviewer of an unclaimed review, on a new claim."""
        status = reading.status
        is_reviewer, generation = side == "reviewer", None
        if is_reviewer and status.status == "pending":
            claim = await self.client.claim_review(reviewer_id=self.person, review_id=status.review_id)
            generation = claim.claim_generation
        elif is_reviewer and reading.is_held_by(self.person):
            generation = status.claim_generation
        await self.client.add_message(
            status.review_id,
            sender_role=cast("Side", side),
            body=body,
            resolves=resolves,
            reviewer_id=self.person if is_reviewer else None,
            claim_generation=generation,
            idempotency_key=key,
        )

"""Seats: the approvals that the project's policy needs of a review, those that it has, and those that are missing.

The policy is the file of the base branch's tip, as with checks, and read before any transaction. A review keeps its
answer with its round. Each approval fills one seat, and the last one that is missing approves the review.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple

import orjson

from tandem.bridge.submitted import ORIGIN
from tandem.contract.caller import Caller, Names
from tandem.core.visible import folded
from tandem.errors import Forbidden, RequirementMissing, SelfApproval
from tandem.reviews import claim_rules as claims
from tandem.reviews import finding_queries, grounds, rounds, writing
from tandem.reviews import queries as reviews
from tandem.reviews import report_queries as reports
from tandem.reviews.check_rules import PASSED, CheckRun, CheckStatus, Hold, outcome
from tandem.reviews.contents import Content
from tandem.reviews.context import Services, is_by_person, threshold_of
from tandem.reviews.finding_rules import CONTESTED, Finding, answers_due, blocks
from tandem.reviews.grounds import Rules
from tandem.reviews.rounds import Round, decided_by, record_speaker, verdict_on, with_turn
from tandem.reviews.rules import Action, Review, State, step
from tandem.rulings import owners, policy, policy_file
from tandem.rulings.person import family
from tandem.rulings.policy import Facts, Need, Policy, Requirements
from tandem.rulings.policy_file import PolicyError
from tandem.store.base import Unit
from tandem.store.event import EventKind

_PROFILE: Final = "agent:"
RULE: Final = "rule"
_HARD: Final = (policy.UNREADABLE, policy.REVIEW, policy.AGENT, policy.OWNER, policy.PERSON)
"""The first words of needs, hardest last: an approval that meets one meets those before it, too."""
_OF_PERSONS: Final = (policy.PERSON, policy.UNREADABLE, policy.OWNED_BY)
"""How the words of needs begin that no agent meets."""


class Seat(NamedTuple):
    """An approval of a round's content.

    Attributes:
        by: Who gave it.
        is_person: Whether it is proved to be a person's.
        family: The client that gave it, such as `codex`; `RULE` for the policy's own, None if that is not known.
        verdict_id: The verdict.
        owns: The owners of paths that they are, as CODEOWNERS names them.
        waives: The need that a person waived, which is all that this seat fills; None for an approval.
        called: The names by which `agent:` means it; None, of earlier versions, for its client's and its own.
    """

    by: str
    is_person: bool
    family: str | None
    verdict_id: str = ""
    owns: Sequence[str] = ()
    waives: str | None = None
    called: Sequence[str] | None = None


@lru_cache(maxsize=16)
def _parsed(content: bytes) -> Policy | PolicyError:
    try:
        return policy_file.parse(content)
    except PolicyError as error:
        return error


def filled(review: Review) -> tuple[Seat, ...]:
    """The seats of a review's content that are taken; of one that was approved without a policy, that approval's."""
    if review.seats is None and review.approved_round is not None and review.verdict_by is not None:
        by = review.verdict_by
        return (Seat(by, is_person=False, family=family(by), verdict_id=review.verdict_id or ""),)
    return tuple(Seat(*one) for one in orjson.loads(review.seats or "[]"))


def missing(review: Review, *more: Seat) -> tuple[Need, ...]:
    """What a round still needs beside passed checks, in the policy's order; and would, with more seats taken."""
    known = review.requirements
    return () if known is None else _left_of(known, review, *more)


def _without(known: Requirements, seats: Sequence[Seat], proposed_by: str | None) -> tuple[Need, ...]:
    """The needs that are left when as many as can be are met, each by a seat of its own."""
    needs = [one for one in known.needs if one.word != policy.CHECKS]
    meets: dict[int, int] = {}

    def place(at: int, tried: set[int]) -> bool:
        for number, seat in enumerate(seats):
            if number not in tried and _fits(needs[at].word, seat, proposed_by):
                tried.add(number)
                if number not in meets or place(meets[number], tried):
                    meets[number] = at
                    return True
        return False

    # The hardest to meet come first: a person's approval is for a person, as long as an agent may give the other one.
    def effort(at: int) -> tuple[int, int]:
        word = needs[at].word
        return _HARD.index(word.partition(":")[0]), len(word)

    hard = sorted(range(len(needs)), key=effort, reverse=True)
    left = {at for at in hard if not place(at, set())}
    return tuple(need for at, need in enumerate(needs) if at in left)


def _fits(word: str, seat: Seat, proposed_by: str | None) -> bool:
    """Whether somebody's approval can be what a word of the policy asks for."""
    if seat.waives is not None:
        return seat.waives == word
    if word == policy.UNREADABLE or seat.family == RULE:
        return False
    if word.startswith(policy.OWNED_BY):
        return seat.is_person and not policy.owners_in(word).isdisjoint(seat.owns)
    if seat.is_person or word in (policy.AGENT, policy.REVIEW):
        return True
    if word == policy.OTHER_PROVIDER:
        return seat.family not in (None, proposed_by)
    name = word.removeprefix(_PROFILE)
    return word.startswith(_PROFILE) and name in ((seat.family, seat.by) if seat.called is None else seat.called)


def named(review: Review) -> set[str]:
    """The names in the missing ones that ask for an agent by name."""
    words = (one.word for one in missing(review))
    return {word.removeprefix(_PROFILE) for word in words if word.startswith(_PROFILE)}


def listed(review: Review) -> str:
    """The missing ones, in words."""
    return "; ".join(one.words for one in missing(review))


def waits(review: Review) -> str | None:
    """Why a person is waited for whose seat alone is missing; None where none is, or others may go on, too."""
    left = missing(review)
    if not left or not all(one.word.startswith(_OF_PERSONS) for one in left):
        return None
    given = "".join(f"{one.by} approved. " for one in filled(review))
    return f"{given}Missing: {listed(review)}."


def why_stopped(review: Review) -> str | None:
    """As `rounds.why_stopped`, but for the policy's own wait for a person: each content has one of its own."""
    return rounds.why_stopped(review._replace(attention=None) if review.attention == waits(review) else review)


def _needed(
    rules: Rules, review: Review, current: Round, branch: str | None, diff: Callable[[], str | None]
) -> Requirements:
    """What a policy needs of a round, whose drawn diff can be read, on its way to a base branch; None for any."""
    files: list[dict[str, Any]] = orjson.loads(current.affected_files)
    facts = Facts(
        changes=current.entries(),
        generated=frozenset(one["path"] for one in files if one.get("generated")),
        lines=policy.lines_in(files, diff),
        branch=None if branch == grounds.HEAD else branch,
        # What a diff is called is its proposer's word.
        category=review.category if current.diff_id is None else "code_change",
        proposer=review.proposer_id,
        is_agent=family(review.proposer_id, review.agent_type) is not None or ORIGIN in orjson.loads(current.metadata),
    )
    found = _parsed(rules.policy)
    known = found.requirements(facts) if isinstance(found, Policy) else _unreadable(facts, found)
    return replace(known, needs=tuple(_by_owner(known.needs, rules.owners)), source=rules.source)


def _by_owner(needs: Iterable[Need], content: bytes | None) -> Iterator[Need]:
    """The needs with one for each group of owners; paths without owners need a person."""
    for one in needs:
        if one.word != policy.OWNER:
            yield one
            continue
        found = owners.groups(content, one.paths) if content is not None else {}
        owned = {path for paths in found.values() for path in paths}
        for group, paths in sorted(found.items(), key=lambda known: sorted(known[0])):
            yield Need(policy.OWNED_BY + ",".join(sorted(group)), one.rules, paths[: policy.MOST_PATHS])
        left = tuple(path for path in one.paths if path not in owned)
        if left and not any(other.word == policy.PERSON for other in needs):
            yield Need(policy.PERSON, one.rules, left[: policy.MOST_PATHS])


def _unreadable(facts: Facts, error: PolicyError) -> Requirements:
    """Nothing passes a policy that cannot be read, but for a correction of it alone that a person approves."""
    needs = policy_file.parse(_NONE.policy).requirements(facts).needs
    if not facts.changes or not all(map(policy.is_own, facts.changes)):
        needs = (Need(policy.UNREADABLE, (str(error),), ()),)
    return Requirements(needs)


_NONE: Final = Rules(b"[[rule]]\nneeds = ['review']\n", None)


def _first(current: Round) -> Rules | None:
    """The rules for a round that has a first policy, which needs a person as any other change of it; else None."""
    return _NONE if policy.FILE.rpartition("/")[2] in current.changes.casefold() else None


def may_carry(review: Review, content: Content) -> bool:
    """Whether a review's approvals carry over where new content turns out to be a rebase of its change.

    They do not from one policy to another, to a change of the policy, or to commits that no base branch has.
    """
    rules, known, ground = content.policy, review.requirements, content.ground
    if rules is None or ground is None or known is None or known.source != rules.source or not filled(review):
        return False
    if ground.branch is None or ground.commits or ground.more_commits:
        return False
    found, is_of_policy = _parsed(rules.policy), any(policy.OWN_PATH in one.rules for one in known.needs)
    return isinstance(found, Policy) and found.carry == policy.REBASE and not is_of_policy


def begun(review: Review, current: Round, content: Content, before: Review | None = None) -> Review:
    """A review at the start of a round, with what the policy needs of it; of the same content the seats stay taken.

    So they do of a rebase, but for that of the author of the round.

    Args:
        review: The review.
        current: The round.
        content: Its content, with the policy.
        before: The review before the round; None for a new one.
    """
    is_same = before is not None and before.digest is not None and before.digest == review.digest
    stays: tuple[Seat, ...] = ()
    if before is not None and (is_same or content.rebases == before.round):
        by = _principal(current.author)
        stays = tuple(one for one in filled(before) if is_same or _principal(one.by) != by)
    branch = content.ground and content.ground.branch
    rules = content.policy or _first(current)
    known = None if rules is None else _needed(rules, review, current, branch, lambda: content.content)
    runs_any = any(one.required and one.status == CheckStatus.QUEUED for one in content.checks)
    attention = None if before is not None and review.attention == waits(before) else review.attention
    begins = review._replace(
        needs=known and known.as_json(),
        seats=None if known is None else _stored(stays),
        waived=before.waived if is_same and before is not None else None,
        owed_until=before.owed_until if is_same and before is not None else None,
        by_checks=int(known is not None and known.only_checks and runs_any),
    )
    attention = attention or waits(begins) or rounds.waiver_objections(rounds.waived(begins)) or None
    return with_turn(marked(begins._replace(attention=attention)))


def _principal(name: str) -> str:
    return folded(name.partition("/")[0])


def seat_of(unit: Unit, services: Services, caller: Caller, name: str, *, is_proved: bool) -> Seat:
    """The seat that somebody would take; a person's only with the proof of one."""
    provider = services.pool.provider_of(unit, name)
    is_person = is_proved and provider is None and is_by_person(unit, services, caller, name)
    owner = name if caller.access is None else name.partition("/")[0]
    client = provider or family(name, caller.agent)
    called = services.pool.called(unit, name, client)
    return Seat(name, is_person, client, owns=_owns(services.policy.owners, owner), called=called)


def _owns(stated: Iterable[str], name: str) -> tuple[str, ...]:
    """The owners of paths that somebody is, by the setting `owners`."""
    own = folded(name)
    pairs = (one.partition("=") for one in stated)
    return (f"@{own}", *(owner.casefold() for owner, _, person in pairs if folded(person) == own))


def others_round(unit: Unit, review: Review, names: Names) -> Round:
    """The current round of a review, for a claim or a verdict of somebody else than who wrote it.

    Raises:
        SelfApproval: They proposed the review or made the round, or it is their counter-patch and no one else is
            known to have accepted it.
    """
    current = reviews.get_round(unit, review.id, review.round)
    if claims.is_own(names, current, proposer=review.proposer_id, submitter=reviews.submitter(unit, current)):
        raise SelfApproval(
            "No one reviews content that they wrote: let another reviewer, or a person, take it.",
            review_id=review.id,
            reviewer_id=review.reviewer_id,
            proposer_id=review.proposer_id,
            author=current.author,
        )
    return current


def holds(review: Review, names: Names, *, proved: bool = False) -> bool:
    """Whether somebody approved this content already, with the proof of a person or in any way."""
    return any(names.include(one.by) and (one.is_person or not proved) for one in filled(review))


def gives(review: Review, seat: Seat, names: Names) -> bool:
    """Whether somebody's approval is one of those that a review still needs."""
    left = missing(review)
    if holds(review, names):
        return not left or _proves(review, seat, names)
    return not left or len(missing(review, seat)) < len(left)


def _proves(review: Review, seat: Seat, names: Names) -> bool:
    """Whether somebody who approved without a person's proof would meet a missing need with it, in another seat."""
    own = (one for one in filled(review) if names.include(one.by))
    is_first = seat.is_person and not any(one.is_person for one in own)
    return is_first and any(fits(review, one.word, seat) for one in missing(review))


def is_done(review: Review, person: str) -> bool:
    """Whether a person approved this content, and no proof of theirs would give more."""
    return any(one.by == person and (one.is_person or one.family is not None) for one in filled(review))


def may_join(review: Review, seat: Seat, names: Names) -> bool:
    """Whether somebody may claim a held review, too: what those at work can give leaves something for them to give."""
    those = claims.at_work(review)
    if not review.held or not those or review.ends_as is not None or any(names.include(one.holder) for one in those):
        return False
    if not claims.voting(those):
        return holds(review, names) or gives(review, seat, names)
    if holds(review, names) and not _proves(review, seat, names):
        return False
    taking, others = _taking(review), left(review, names)
    if not _asks_person(others):
        # What proves a person is said with the verdict: until then a name that is no client's is an agent's.
        seat = seat._replace(is_person=False)
    return len(missing(others, *taking, seat)) < len(missing(others, *taking))


def _asks_person(review: Review) -> bool:
    return any(one.word.startswith(_OF_PERSONS) for one in missing(review))


def marked(review: Review) -> Review:
    """The review with the number of seats that agents may claim beside those at work."""
    if review.state == State.PENDING and review.attention is None and (why := waits(review)) is not None:
        return with_turn(review._replace(attention=why, seats_free=0))
    is_open = review.held and review.at_work is not None and review.ends_as is None
    if is_open and review.needs is None:
        return review._replace(seats_free=int(not claims.voting(claims.at_work(review))))
    left = missing(review, *_taking(review)) if is_open else ()
    free = sum(not one.word.startswith(_OF_PERSONS) for one in left)
    return review if free == review.seats_free else review._replace(seats_free=free)


def free_for(review: Review, seat: Seat) -> int:
    """How many of a held review's free seats are for reviewers of one kind."""
    taking = _taking(review)
    kinds = [seat] * review.seats_free
    return len(missing(review, *taking)) - len(missing(review, *taking, *kinds))


def _taking(review: Review) -> tuple[Seat, ...]:
    """The seats that those at work would fill."""
    known = {one.by for one in filled(review)}
    return tuple(Seat(*one.seat) for one in claims.voting(claims.at_work(review)) if one.holder not in known)


NEEDLESS: Final = (
    "Your approval is none of those that are missing. Report a fault, or say what became of one, all the same:"
    " submit_verdict with claim, and changes_requested or comment."
)


def check(review: Review, seat: Seat, names: Names) -> None:
    """Refuse the approval, and the claim, of who gives nothing that is missing.

    Raises:
        RequirementMissing: They approved this content already, or others have to.
        Forbidden: Theirs would do if it was proved to be a person's.
    """
    if gives(review, seat, names):
        return
    by_person = seat.family is None and not seat.is_person and gives(review, seat._replace(is_person=True), names)
    if by_person and _asks_person(review):
        raise Forbidden(
            f"The policy asks for a person's approval, which takes the proof that a person decides: run 'tandem review"
            f" approve {review.id}' at a terminal, or open the page: tandem open {review.id}",
            review_id=review.id,
            needed="person",
        )
    if holds(review, names):
        raise refused(review, "You approved this content already: others have to; release your claim, if you have one.")
    for one in rounds.waived(review):
        if fits(review, one.need, seat):
            raise refused(
                review,
                f"{one.by} waived {policy.in_words(one.need)}, which yours would be: release your claim, and say with"
                f" settle_waiver ('tandem review settle {review.id} approved') what you found, once it is approved.",
            )
    is_owners = any(one.word.startswith(policy.OWNED_BY) for one in missing(review))
    whose = " The broker's setting owners says who the owners are." if is_owners else ""
    proved = f" A person's is, with its proof: tandem review approve {review.id}." if by_person else ""
    raise refused(review, f"{NEEDLESS}{proved}{whose}")


def _left_of(known: Requirements, review: Review, *more: Seat) -> tuple[Need, ...]:
    # The approval that settled a waiver has a seat of its own, but where there was no policy yet.
    stand = (one for one in rounds.waived(review) if one.settled_at is None or review.needs is None)
    waivers = (Seat(one.by, is_person=True, family=None, waives=one.need) for one in stand)
    return _without(known, (*filled(review), *waivers, *more), family(review.agent_type, review.proposer_id))


def fits(review: Review, word: str, seat: Seat) -> bool:
    """Whether somebody's approval can be what a word of a review's policy asks for."""
    return _fits(word, seat, family(review.agent_type, review.proposer_id))


def refused(review: Review, why: str) -> RequirementMissing:
    """That something is refused, and what the policy still asks for."""
    left = missing(review)
    return RequirementMissing(
        f"{why} Missing: {listed(review)}.",
        review_id=review.id,
        missing=[{"need": one.word, "rules": list(one.rules), "paths": list(one.paths)} for one in left],
    )


def taken(review: Review, seat: Seat) -> Review:
    """The review with one more approval of its content; as it is without a policy."""
    if review.needs is None:
        return review
    return review._replace(seats=_stored((*filled(review), seat)))


def left(review: Review, names: Names) -> Review:
    """The review without the approval of somebody who objects by now."""
    if not holds(review, names) or review.seats is None:
        return review
    return review._replace(seats=_stored(one for one in filled(review) if not names.include(one.by)))


def withdrawn(review: Review, names: Names) -> Review:
    """The review whose approval by somebody is missing again; a person is waited for only if theirs alone is."""
    after = marked(left(review, names))
    is_open = review.state != State.CHANGES_REQUESTED
    is_waited = is_open and review.attention in (None, waits(review))
    return with_turn(after._replace(attention=waits(after) if is_waited else review.attention))


def _stored(seats: Iterable[Seat]) -> str | None:
    """Seats as JSON; None if there is none."""
    listed = [tuple(one) for one in seats]
    return orjson.dumps(listed).decode() if listed else None


def held(unit: Unit, asked: grounds.Asked, review_id: str, number: int) -> Hold | None:
    """What keeps an approved round back by the policy as it is now; None if nothing does.

    Its review has the needs of an earlier state of the policy, for the branch that it stood on then. Landed content
    was judged when it landed.
    """
    if review_id in asked.landed:
        return None
    review = reports.with_objections(unit, reviews.get(unit, review_id))
    if objection := rounds.held_by_objection(review):
        words = f"a requirement was waived, and {objection}"
        return Hold(words, is_pending=False, code=RequirementMissing.code)
    if review.needs is None and not any(asked.policies.values()):
        # A first policy in it would have needs from its begin on.
        return None
    current, runs = reviews.get_round(unit, review_id, number), reviews.list_checks(unit, review_id, number)
    for known in _by_now(unit, asked, review, current):
        if left := _left_of(known, review):
            words = f"the policy asks for more: {'; '.join(one.words for one in left)}"
            return Hold(words, is_pending=False, code=RequirementMissing.code)
        if lacks_checks(known, review, runs):
            words = "the policy asks for passed checks, and none has passed"
            return Hold(words, is_pending=True, code=RequirementMissing.code)
    return None


def missing_by_now(unit: Unit, asked: grounds.Asked, review: Review) -> tuple[Need, ...]:
    """What the current round of a review lacks by the policy as it is now, where that is another; each need once."""
    current, runs = reviews.get_round(unit, review.id, review.round), reviews.list_checks(unit, review.id, review.round)
    found: dict[str, Need] = {}
    for known in _by_now(unit, asked, review, current):
        if known == review.requirements:
            continue
        checked = [one for one in known.needs if one.word == policy.CHECKS and lacks_checks(known, review, runs)]
        found |= {one.word: one for one in (*checked, *_left_of(known, review))}
    return tuple(found.values())


def _by_now(unit: Unit, asked: grounds.Asked, review: Review, current: Round) -> Iterator[Requirements]:
    """What the policy of the branch that is asked about needs of a round by now; of all, where that is not known."""
    ground = grounds.parsed(current.ground)
    own = ground and ground.branch
    on = asked.branch or own
    for branch in [on] if on is not None and on in asked.policies else [*asked.policies]:
        rules, known = asked.policies[branch] or _first(current), review.requirements
        if rules is None:
            continue
        if known is None or known.source != rules.source or branch != own:
            known = _needed(rules, review, current, branch, partial(reviews.find_content, unit, current.diff_id))
        yield known


def lacks_checks(known: Requirements, review: Review, runs: Sequence[CheckRun]) -> bool:
    """Whether checks have to have passed and have not; where they alone would do, a reviewer's approval does, too."""
    if _have_passed(runs) or any(one.need == policy.CHECKS for one in rounds.waived(review)):
        return False
    by_reviewer = any(one.family != RULE for one in filled(review))
    return any(one.word == policy.CHECKS for one in known.needs) and not (known.only_checks and by_reviewer)


def _have_passed(runs: Sequence[CheckRun]) -> bool:
    """Whether a check has passed, and none that is required has not."""
    return outcome(runs) == PASSED and any(one.status == CheckStatus.PASSED for one in runs)


def go_on(unit: Unit, services: Services, review: Review, now: int) -> Review:
    """Approve a review whose claim has ended, where it has all that is needed, or ask its proposer about findings."""
    if review.needs is None:
        return review
    after = approve_by_rule(unit, services, review, reviews.list_checks(unit, review.id, review.round), now)
    return _kept_back(unit, services, review, now) if after is review else after


def holds_rule_back(one: Finding, threshold: str) -> bool:
    """Whether no rule approves over a finding: it blocks, or a person said it."""
    return blocks(one, threshold) or (one.is_open and one.source == "person" and not one.pre_existing)


def _holding(unit: Unit, services: Services, review: Review) -> list[Finding]:
    threshold = threshold_of(unit, services, review.project, review)
    return [one for one in finding_queries.list_of_review(unit, review.id) if holds_rule_back(one, threshold)]


def lacking(unit: Unit, services: Services, review: Review) -> tuple[str, ...]:
    """The approvals that a review still needs, in words; without any, the findings over which no rule approves it."""
    words = tuple(one.words for one in missing(review))
    if words or review.requirements is None or (review.state != State.PENDING and not review.held):
        return words
    kept = ((one, "a person" if one.source == "person" else "a reviewer") for one in _holding(unit, services, review))
    return tuple(f"{one.id} ({one.severity}, {one.where}, by {one.by}) settled by {who}" for one, who in kept)


def approve_by_rule(unit: Unit, services: Services, review: Review, runs: Sequence[CheckRun], now: int) -> Review:
    """Approve a review that has all that its policy needs without another verdict; else it stays as it is.

    Passed checks are all of it by a rule, or the approvals of the same content in an earlier round.
    """
    known = review.requirements
    is_free = review.state == State.PENDING and review.attention is None and not review.is_undecided
    if known is None or not is_free or _holding(unit, services, review):
        return review
    if known.only_checks and _have_passed(runs):
        reason = f"Approved by rule: {', '.join(known.by_rule)}"
        about: dict[str, Any] = {"rules": known.by_rule, "policy": known.source}
        return _concluded(unit, review, Action.APPROVE_BY_RULE, RULE, reason, now, **about)
    # What one of several reviewers asked is answered first.
    if (by := _given_by(review)) and not missing(review) and not review.is_asked:
        reason = "All approvals that it needs were given before."
        if not filled(review):
            reason = f"{by[-1]} waived before all that it needs."
        return _concluded(unit, review, Action.APPROVE_BY_RULE, by[-1], reason, now)
    return review


def _given_by(review: Review) -> list[str]:
    """Who approved a review's content, or else waived one of its needs."""
    needs = {one.word for one in known.needs} if (known := review.requirements) else ()
    waived = [one.by for one in rounds.waived(review) if one.need in needs]
    return [one.by for one in filled(review)] or waived


def _kept_back(unit: Unit, services: Services, review: Review, now: int) -> Review:
    """Ask the proposer of a review that nothing but open findings keeps back, as no reviewer comes for that."""
    is_filled = review.state == State.PENDING and review.attention is None and _given_by(review) and not missing(review)
    known = _holding(unit, services, review) if is_filled else []
    if not known or answers_due(known, "nit") <= CONTESTED:
        # Who is right where all was refuted a reviewer says.
        return review
    listed = "; ".join(f"{one.severity}, {one.where}, by {one.by}" for one in known)
    reason = f"All approvals that it needs are given, and open findings keep the gate closed: {listed}."
    return _concluded(unit, review, Action.KEEP_BACK, known[0].author, reason, now)


def _concluded(unit: Unit, review: Review, action: Action, by: str, reason: str, now: int, **about: Any) -> Review:
    """The review decided without another verdict, on record."""
    verdict = "changes_requested" if action is Action.KEEP_BACK else "approved"
    given = verdict_on(review, f"vd_rule_{review.id}_{review.event_seq}", verdict, reason, by, now)
    rule = Seat(RULE, is_person=False, family=RULE, verdict_id=given.id)
    # Who waived approves nothing: no seat is theirs.
    seated = taken(review, rule) if by == RULE else review._replace(seats=review.seats or "[]")
    after = decided_by(seated, given)._replace(state=step(action, review).to or review.state, updated_at=now)
    return writing.change_review(
        unit,
        review,
        # As after a verdict, its proposer goes on, also with a message that no one answered.
        record_speaker(after, "reviewer", "verdict"),
        actor=by,
        kind=EventKind.VERDICT_SUBMITTED,
        data={"verdict": verdict, "round": review.round, "digest": review.digest, **(about or {"reason": reason})},
        rows=writing.Rows(verdict=given),
    )

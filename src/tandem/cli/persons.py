"""Who runs a command: a person's name (`tandem me`), what only they may decide, and what an agent may not review."""

from __future__ import annotations

import getpass
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

from tandem.bridge.credentials import TOKEN_VARIABLE, has_token
from tandem.bridge.location import BrokerLocation
from tandem.bridge.project import top_level
from tandem.bridge.session import Session
from tandem.cli import shown
from tandem.cli.declared import Argument, Misused, Option
from tandem.cli.terminal import Declined, EnvelopeOption, Exit, indented, tell
from tandem.core import platforms
from tandem.core.files import json_object, write_atomically
from tandem.core.stand_ins import NamedTuple
from tandem.errors import Forbidden, InvalidInput, NotFound, SelfApproval, StaleRound
from tandem.rulings import person, proof
from tandem.rulings.person import agent_mark, agent_name

Answer = TypeVar("Answer")

_VERSION = 1
_QUIET = "quiet"
_QUIETLY = "end their turns without news of their reviews"
_LONGEST = 200
"""The longest name that the broker takes, in characters."""

_DECIDING = frozenset({"submit_verdict", "withdraw_approval", "settle_waiver"})
REVIEWING = frozenset({"claim_review", "submit_verdict", "answer_finding"})


def refuse_agents(question: str) -> None:
    """Go on only if no agent runs the command.

    Args:
        question: The decision; begins the refusal.

    Raises:
        Forbidden: An agent runs it.
    """
    mark = agent_mark()
    if mark is not None:
        raise Forbidden(
            f"{question} That is a person's to decide, and an agent runs this command ({mark} is set)."
            " Ask the person to run it in their own terminal.",
            needed="person",
        )


def confirm(question: str, *, unasked: Exception, choices: Collection[str] = ()) -> str:
    """Go on only if the person at the terminal says yes, or one of the choices; their answer.

    Args:
        question: With everything that has to be known to answer it.
        unasked: What to raise where there is no terminal.
        choices: Words that say yes, too.

    Raises:
        Declined: They said no.
    """
    answer = person.ask(f"{indented(question)} Type yes: ")
    if answer is None:
        raise unasked
    if answer.lower() not in {"y", "yes", *choices}:
        raise Declined("Nothing was changed.", needed="person")
    return answer.lower()


def need_decision(project: str, reasons: Sequence[str]) -> None:
    """Go on only if a person at the terminal decides to have a gate let more through.

    Args:
        project: Whose gate it is; they type its name.
        reasons: The content that it would let through, a phrase each.

    Raises:
        Forbidden: An agent runs the command, there is no terminal, or they typed something else.
    """
    said = f"This lets more through the gate of {project}:"
    question = f"Type the project's name ({project}) if that is meant: "
    trouble = person.refused([said, *(f"  {reason}" for reason in reasons), question], project)
    if trouble is not None:
        raise Forbidden(f"{said} {'; '.join(reasons)}. {trouble}", needed="person", loosens=list(reasons))


async def decided(attempt: Callable[[Sequence[str]], Awaitable[Answer]]) -> Answer:
    """Do a deed that may loosen a gate; the person at the terminal first agrees to the content it would let through.

    Args:
        attempt: Does it, given the reasons that they have agreed to. It raises `Forbidden` with any others.

    Raises:
        Forbidden: As `need_decision`.
    """
    agreed: list[str] = []
    while True:
        try:
            return await attempt(agreed)
        except Forbidden as error:
            reasons = [one for one in error.details.get("loosens", ()) if one not in agreed]
            if not reasons:
                raise
            need_decision(error.details["project"], reasons)
            agreed += reasons


def _here() -> str:
    here = str(Path.cwd())
    return top_level(here) or here


def marked(request: dict[str, Any]) -> dict[str, Any]:
    """A proposal's request that says where it comes from, if an agent makes it."""
    return person.marked(request, _here())


def refuse(session: Session, review_id: str | None) -> None:
    """Go on only if an agent does not review its own proposal.

    Raises:
        SelfApproval: The same session, folder or client proposed it.
    """
    found = person.origin(_here()) if review_id is not None else None
    if found is None:
        return
    proposal = session.data("get_proposal", {"review_id": review_id, "files": []})
    by = person.shared(found, proposal)
    if by is not None:
        raise SelfApproval(person.not_to_review(str(review_id), by), review_id=review_id, next_action="escalate")


def send(session: Session, operation: str, request: dict[str, Any], stated: str | None = None) -> bytes:
    """Call an operation; a decision that names no round is about the one that was shown.

    A verdict that a person types at a terminal goes with the proof of that.

    Args:
        session: To call with.
        operation: The operation's name.
        request: Its arguments.
        stated: The name that an option has, if one was given.

    Returns:
        The broker's envelope.

    Raises:
        StaleRound: There is a newer round than the one that was shown.
    """
    is_verdict = operation == "submit_verdict"
    # Of a verdict without `claim` the broker knows the round: the one that was claimed.
    is_open = operation in _DECIDING and request.get("round") is None and (not is_verdict or request.get("claim"))
    number = shown_round(request, stated) if is_open else None
    bound = request if number is None else {**request, "round": number}
    envelope = session.call(operation, {**bound, **(person_proof(session.location, bound) if is_verdict else {})})
    if number is not None:
        error: dict[str, Any] = json.loads(envelope).get("error") or {}
        if error.get("code") == StaleRound.code:
            shown.ensure_current(request["review_id"], error["details"]["expected"], number)
    return envelope


def shown_round(request: Mapping[str, Any], stated: str | None = None) -> int | None:
    """The round of a review that was shown to the person who decides about it; None if none was.

    Args:
        request: That of the decision.
        stated: The name that an option has, if one was given.
    """
    # Who looks seldom says for whom.
    names = {_name(request, stated), os.environ.get("TANDEM_AGENT"), caller().name or ""}
    return shown.shown_round(request["review_id"], names)


def note_shown(operation: str, request: Mapping[str, Any], envelope: bytes, stated: str | None = None) -> None:
    """Remember the round whose content an answer showed, if it did, once it is printed.

    Args:
        operation: The operation that answered.
        request: Its arguments.
        envelope: The answer.
        stated: The name that an option has, if one was given.
    """
    if operation not in shown.HOLDING:
        return
    data: dict[str, Any] = json.loads(envelope).get("data") or {}
    held = shown.HOLDING[operation]
    proposal = data if held is None else data.get(held)
    if proposal:
        shown.note(proposal, _name(request, stated))


def _name(request: Mapping[str, Any], stated: str | None) -> str:
    named = (request.get(one) for one in ("reviewer_id", "person", "withdrawn_by", "waived_by"))
    return next(filter(None, named), None) or caller(stated).name or ""


def person_proof(location: BrokerLocation, request: Mapping[str, Any]) -> dict[str, str]:
    """The proof that a person gives a verdict, as a field of its request; empty where an agent runs the command.

    Args:
        location: Where the broker is.
        request: The rest of the request.
    """
    return sealed(location, proof.verdict_facts(request))


def _is_typed() -> bool:
    """Whether a person types the command; where it reads a pipe, that may be anyone."""
    return agent_mark() is None and sys.stdin.isatty()


def sealed(location: BrokerLocation, facts: Sequence[object], *, is_asked: bool = False) -> dict[str, str]:
    """The proof of what a person decides at a terminal, as a field of a request; empty where an agent may do so.

    Args:
        location: Where the broker is.
        facts: The facts of `rulings.proof` for it.
        is_asked: Whether they have agreed at the terminal already, which need not be what the command reads.
    """
    if not (is_asked or _is_typed()):
        return {}
    made = proof.prove(proof.keys(location.data_dir), facts)
    return {"proof": made} if made else {}


def opening_proof(location: BrokerLocation) -> dict[str, str]:
    """The proof that a person at a terminal has a browser opened, as a query; empty where an agent may do so.

    Args:
        location: Where the broker is.
    """
    key = proof.keys(location.data_dir).get(proof.PERSON)
    if key is None or not _is_typed():
        return {}
    # No two links are the same: each works once.
    return proof.opening(key, time.time_ns() // 1000)


def refuse_withdrawal(session: Session, request: dict[str, Any], name: str | None) -> None:
    """Go on only if no agent withdraws an approval that another gave.

    Args:
        session: To ask the broker with.
        request: That of `withdraw_approval`.
        name: Who calls.

    Raises:
        Forbidden: An agent does.
    """
    mark, name = agent_mark(), request.get("withdrawn_by") or name
    if mark is None:
        return
    status = session.data("get_review_status", {"review_id": request["review_id"]})
    approver = status["reviewer_id"]
    # Before it is decided the broker takes from each their own approval alone.
    if approver != name and status["status"] in ("approved", "closed"):
        raise Forbidden(
            f"{approver} approved this, and {name or 'an agent'} runs this command ({mark} is set). Only {approver} or"
            f" a person withdraws that approval. Stop, and tell your person: tandem open {request['review_id']}",
            needed="person",
        )


def give_back(session: Session, envelope: bytes) -> None:
    """After a claim of the next review: release it if it is the agent's own.

    Raises:
        SelfApproval: It is, and was.
    """
    claim: dict[str, Any] = json.loads(envelope).get("data") or {}
    try:
        refuse(session, claim.get("review_id"))
    except SelfApproval:
        named = {name: claim[name] for name in ("review_id", "claim_generation")}
        session.data("release_claim", {**named, "reason": "an agent's own work"})
        raise


def checked(name: str, option: str = "--as") -> str:
    """A name as it may be used.

    Raises:
        InvalidInput: It is empty, too long, or holds characters that cannot be seen.
    """
    stripped = name.strip()
    if not stripped:
        raise InvalidInput("A name is needed, which others are told.", field=option)
    if len(stripped) > _LONGEST:
        raise InvalidInput(f"A name has at most {_LONGEST} characters.", field=option, limit=_LONGEST)
    if not stripped.isprintable():
        raise InvalidInput("A name has only characters that can be seen.", field=option)
    return stripped


def remembered() -> str | None:
    """The name that was given once; None if there is none that can be read."""
    try:
        return checked(json_object(person.settings_file())["name"])
    except (LookupError, AttributeError, InvalidInput):
        # Asking again repairs it, for any reason.
        return None


def remember(**facts: Any) -> None:
    """Keep a name, or the wish for quiet, for the next time.

    Raises:
        OSError: It cannot be written.
    """
    path = Path(person.settings_file())
    platforms.make_private(str(path.parent))
    known = json_object(path)
    content = json.dumps({**known, "version": _VERSION, **facts}, ensure_ascii=False) + "\n"
    write_atomically(path, content.encode(), durable=False)


def suggested() -> str:
    """What the system calls the person; empty if it does not say."""
    try:
        return checked(getpass.getuser())
    except (OSError, KeyError, ImportError, InvalidInput):
        return os.environ.get("USERNAME", "").strip()


class CallerName(NamedTuple):
    """Who runs the commands here.

    Attributes:
        name: The name that the broker is told; None if no one said it.
        source: Where it comes from, for people.
    """

    name: str | None
    source: str


def caller(stated: str | None = None) -> CallerName:
    """Who calls: who was named, else the agent that runs the command, else the person of this configuration.

    Args:
        stated: The name that an option has, if one was given.
    """
    if stated:
        return CallerName(stated, "--agent")
    if (mark := agent_mark()) is not None:
        return CallerName(agent_name(), f"the agent that runs this command ({mark} is set)")
    return CallerName(remembered(), person.settings_file())


def required_caller(stated: str | None) -> str | None:
    """Who calls, where a name is needed; None where the broker knows it by the access token.

    Raises:
        InvalidInput: No option or setting has one, and there is no token.
    """
    name = caller(stated).name
    if name is None and not has_token():
        raise InvalidInput(
            "A name is needed, which others are told. Say it once: tandem me NAME; or for one command: --agent NAME.",
            field="--agent",
        )
    return name


def me(
    name: Annotated[
        str | None,
        Argument(
            metavar="NAME",
            help="Your name from now on; without it, shows the current one. [bold]quiet[/bold]: as below.",
        ),
    ] = None,
    *,
    off: Annotated[bool, Option(help="With quiet: agents go on again.")] = False,
    as_json: EnvelopeOption = False,
) -> Exit:
    """Say once who you are: the name under which you propose, review and decide, in every command and project.

    For one command, [bold]--agent NAME[/bold] comes first, then TANDEM_AGENT. An agent that runs a command is called
    by its own name, never by yours.

    After [bold]tandem me quiet[/bold] your agents end their turns without news of their reviews, in every project;
    [bold]tandem me quiet --off[/bold] ends that.
    """
    if off and name != _QUIET:
        raise Misused("It goes with: tandem me quiet", "--off")
    if name is not None:
        if (mark := agent_mark()) is not None:
            raise Forbidden(
                f"This is a person's to say, and an agent runs this command ({mark} is set). An agent says its own name"
                " with --agent NAME or in TANDEM_AGENT.",
                needed="person",
            )
        if name == _QUIET:
            remember(quiet=not off)
            said = "go on again with news of their reviews" if off else _QUIETLY
            return tell({"quiet": not off}, f"Your agents {said}", as_json=as_json)
        remember(name=checked(name, "NAME"))
    found = CallerName(stated, "TANDEM_AGENT") if (stated := os.environ.get("TANDEM_AGENT")) else caller()
    is_quiet = person.is_quiet()
    quiet = f"Your agents {_QUIETLY}; 'tandem me quiet --off' ends that. " if is_quiet else ""
    said = f"You are {found.name}: from {found.source}"
    if found.name is None and has_token():
        found = CallerName(None, TOKEN_VARIABLE)
        said = f"The broker calls you by the name of the access token in {TOKEN_VARIABLE}"
    elif found.name is None:
        raise NotFound(f"{quiet}There is no name for you yet. Say it once: tandem me {suggested() or 'NAME'}")
    return tell({**found._asdict(), "quiet": is_quiet}, f"{quiet}{said}", as_json=as_json)

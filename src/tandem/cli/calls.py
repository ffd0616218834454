"""Calling an operation from a command: read its options, find the project, send, wait, print, and the exit status."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tandem.bridge.operations import OPERATIONS
from tandem.bridge.session import data_of, has_changed, is_proposers_turn, lacks_reviewer
from tandem.cli import persons
from tandem.cli.connection_options import ConnectionOptions, find_project, one_of
from tandem.cli.declared import ARGUMENT_SUFFIX, Misused
from tandem.cli.render import render
from tandem.cli.terminal import Exit, progress, say, show, show_envelope
from tandem.present.shape import record
from tandem.reviews.finding_rules import ANSWERS
from tandem.rulings import next_steps
from tandem.rulings.person import agent_mark, wait_seconds
from tandem.settings.workflows import COMPLETE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tandem.bridge.described import Described
    from tandem.bridge.session import Condition, Session
    from tandem.cli.declared import Parameter

_VERDICTS = {
    "changes_requested": Exit.CHANGES_REQUESTED,
    "rejected": Exit.REJECTED,
    "closed": Exit.CLOSED,
}
_CHECKED = {
    None: Exit.DONE,
    "passed": Exit.DONE,
    "failed": Exit.CHANGES_REQUESTED,
    "pending": Exit.WAITING,
    "doubtful": Exit.WAITING,
}
_OF_PERSONS = {
    "override_gate": "An override lets unapproved content through.",
    "remove_lesson": "The same finding would count again.",
    "see_override": "A person has to have seen it.",
    "waive_requirement": "A waiver lets a change through without all that the policy asks for.",
}
_ASKING = frozenset({"message", "question", "verdict"})
_MOST_ENTRIES = 200
_UNDECIDED = frozenset({"pending", "claimed", "in_review"})


@dataclass(frozen=True, slots=True)
class WaitCondition:
    """One wait.

    Attributes:
        ready: Whether the state at its beginning ends it at once; asked only when it has no cursor.
        done: Whether a later answer ends it.
        status: The exit status for its last answer.
    """

    ready: Condition
    done: Condition
    status: Callable[[dict[str, Any]], Exit]

    def has_ended(self, data: dict[str, Any]) -> bool:
        """Whether an answer ends the wait; else the time was up."""
        return self.ready(data) or self.done(data)


def wait_condition(operation: str, arguments: dict[str, Any]) -> WaitCondition:
    """What the wait of an operation is for."""
    match operation:
        case "get_review_status" if arguments.get("wake_on") == "any":
            return WaitCondition(lambda data: data.get("status") == "closed", has_changed, verdict_status)
        case "get_review_status":
            return WaitCondition(needs_no_wait, lambda data: has_changed(data) and not goes_on(data), verdict_status)
        case "list_checks" if arguments.get("review_id") is not None:
            return WaitCondition(_checks_ended, _checks_ended, _checks_status)
        case "list_reviews":
            return WaitCondition(
                _has_reviews, _has_reviews, _status_if(lambda data: _has_reviews(data) or has_changed(data))
            )
        case "cycle_status" if arguments.get("role") is not None:
            turn = _Turn(arguments["role"])
            return WaitCondition(turn.ends, turn.ends, turn.status)
        case _:
            return WaitCondition(lambda _data: False, has_changed, _status_if(has_changed))


def goes_on(data: dict[str, Any]) -> bool:
    """Whether a wait goes on although there is news.

    A person who waits may themselves have a reviewer come, or review it; an agent stops and says so.
    """
    is_stuck = lacks_reviewer(data) and data.get("attention") is None
    return awaits_checks(data) or (is_stuck and agent_mark() is None)


def needs_no_wait(data: dict[str, Any]) -> bool:
    """Whether it is its proposer's turn in a review, or it is over, and nothing comes by itself."""
    return is_proposers_turn(data) and not goes_on(data)


def verdict_status(data: dict[str, Any]) -> Exit:
    """The exit status of a wait for a verdict; an approval counts once the required checks have passed."""
    if data["next_action"] == "escalate" and (agent_mark() is not None or not next_steps.alone(data)):
        return Exit.PERSON
    if next_steps.is_conflict_in_merge(data):
        return Exit.PERSON
    if next_steps.asks_more(data):
        return Exit.CHANGES_REQUESTED
    if _is_approved(data):
        return _CHECKED[data.get("checks")]
    return _VERDICTS.get(data["status"], Exit.WAITING)


def awaits_checks(data: dict[str, Any]) -> bool:
    """Whether a review is approved, and a required check is still to end: nothing can be done with it yet."""
    return _is_approved(data) and data.get("checks") == "pending" and data.get("attention") is None


def _is_approved(data: dict[str, Any]) -> bool:
    return "approved" in {data["status"], data["outcome"]}


def _checks_status(data: dict[str, Any]) -> Exit:
    return Exit.PERSON if any(one["needs_person"] for one in data["checks"]) else _CHECKED[data["outcome"]]


def _checks_ended(data: dict[str, Any]) -> bool:
    return data["outcome"] != "pending"


class _Turn:
    """Waits for a role's turn in a cycle, but not beyond the end of one that it saw under way."""

    def __init__(self, role: str) -> None:
        self._role = role
        self._was_under_way = False

    def ends(self, data: dict[str, Any]) -> bool:
        """Whether it is the role's turn, or the cycle is over, or waits for a person."""
        under_way = data.get("cycle_id") is not None and data.get("phase") != COMPLETE
        self._was_under_way = self._was_under_way or under_way
        stuck = _waits_for_person(data) and not goes_on(data["review"])
        return self._is_turn(data) or stuck or (self._was_under_way and not under_way)

    def status(self, data: dict[str, Any]) -> Exit:
        """Done when it is the role's turn; closed when there will be none in this cycle."""
        if self._is_turn(data):
            return Exit.DONE
        if _waits_for_person(data):
            return Exit.PERSON
        return Exit.CLOSED if self.ends(data) else Exit.WAITING

    def _is_turn(self, data: dict[str, Any]) -> bool:
        review = data.get("review")
        waits_for_review = bool(review) and review["status"] in _UNDECIDED
        return data.get("active_role") == self._role and not waits_for_review


def _waits_for_person(data: dict[str, Any]) -> bool:
    review: dict[str, Any] = data.get("review") or {}
    return review.get("attention") is not None or lacks_reviewer(review)


def _status_if(done: Condition) -> Callable[[dict[str, Any]], Exit]:
    return lambda data: Exit.DONE if done(data) else Exit.WAITING


def _has_reviews(data: dict[str, Any]) -> bool:
    return bool(data.get("reviews"))


class Inputs:
    """Reads the long values of one command; standard input can be given only once."""

    def __init__(self) -> None:
        self._stdin_taken_by: str | None = None

    def text(self, option: str, value: str) -> str:
        """The text that a value stands for, to the byte: no newline is lost or translated."""
        if value == "-":
            return self._decoded(option, self._standard_input(option), "standard input")
        if value.startswith("@@"):
            return value[1:]
        if value.startswith("@"):
            return self._decoded(option, _content(option, value[1:]), value[1:])
        return value

    def json(self, option: str, value: str) -> Any:
        """The JSON value that a value stands for."""
        text = self.text(option, value)
        try:
            return json.loads(text)
        except ValueError as error:
            raise Misused(f"This is not JSON: {error}.", option) from error

    def _standard_input(self, option: str) -> bytes:
        if self._stdin_taken_by is not None:
            raise Misused(f"Standard input is already read by {self._stdin_taken_by}.", option)
        self._stdin_taken_by = option
        return sys.stdin.buffer.read()

    @staticmethod
    def _decoded(option: str, content: bytes, source: str) -> str:
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            raise Misused(
                f"{source} is not UTF-8 (byte {error.start}). A diff of such files has to be binary: "
                "tandem submit makes one.",
                option,
            ) from error


def _content(option: str, name: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise Misused(
            f"Cannot read {name}: {error.strerror}. Write @@ for a text that begins with @.", option
        ) from error


_KNOW_THEIR_PROJECT = frozenset({"review_id", "cycle_id", "session_token", "token_id", "webhook_id"})


def say_go_on(command: str) -> None:
    """Say that the time was up, and the one command to go on with."""
    say(f"Nothing yet. Go on waiting with: {command}")


def operate(name: str, parameters: Sequence[Parameter], values: dict[str, Any]) -> Exit:
    """Carry out the command of an operation.

    Args:
        name: The operation's name.
        parameters: Those of its command.
        values: By the parameters' names; None where one was not given.

    Raises:
        Misused: A value is missing, given twice, or cannot be read.
        TandemError: The broker refused, or cannot be reached.
    """
    stated = {one: values.pop(one) for one in ("broker", "agent", "as_json")}
    options = ConnectionOptions(project=values.get("project"), new=values.pop("new", False), **stated)
    wait, timeout = values.pop("wait", False), values.pop("timeout", None)
    fields = [one for one in parameters if one.name in values and not one.name.endswith(ARGUMENT_SUFFIX)]
    arguments = dict(_arguments(fields, values))
    field = next((one for one in fields if one.is_caller and one.name not in arguments), None)
    if field is not None:
        arguments |= _caller(field, arguments, options)
    return call(OPERATIONS[name], arguments, options, wait=wait, timeout=timeout)


def _arguments(fields: Sequence[Parameter], values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    inputs = Inputs()
    for field in fields:
        value = one_of(values.get(field.name + ARGUMENT_SUFFIX), values[field.name], field.option)
        if value is None and field.needed and not field.is_caller:
            raise Misused(f"Missing {field.name.upper()}.", field.option)
        if value is not None:
            read = {"text": inputs.text, "json": inputs.json}.get(field.form)
            yield field.name, value if read is None else read(field.option, value)


def _caller(field: Parameter, arguments: dict[str, Any], options: ConnectionOptions) -> dict[str, Any]:
    """The name of who calls, for the field of the request that was left out.

    Raises:
        InvalidInput: It is needed, and no option or setting has it.
    """
    if field.needed:
        return given(**{field.name: persons.required_caller(options.agent)})
    # A claim's number says whose it is, and a proposer has no claim.
    is_proposer = arguments.get("sender_role") == "proposer" or arguments.get("answer") in ANSWERS
    is_reviewer = field.name == "reviewer_id" and not is_proposer
    left_out = not is_reviewer or "claim_generation" in arguments
    return {} if left_out else given(reviewer_id=persons.caller(options.agent).name)


def call(
    operation: Described,
    arguments: dict[str, Any],
    options: ConnectionOptions,
    *,
    wait: bool = False,
    timeout: float | None = None,
    status: Callable[[dict[str, Any]], Exit] | None = None,
) -> Exit:
    """Send one operation and print its answer; a wait lasts `timeout` seconds, by default as the agent's client allows.

    The exit status is that of a wait, else what `status` makes of the answer's data, else that of success.

    Raises:
        TandemError: The broker refused, or cannot be reached.
    """
    if operation.name in _OF_PERSONS:
        persons.refuse_agents(_OF_PERSONS[operation.name])
    condition = wait_condition(operation.name, arguments) if wait else None
    with options.session() as session:
        given = with_project(operation, arguments, session, options)
        if operation.name == "create_review":
            given = persons.marked(given)
        elif operation.name in persons.REVIEWING and given.get("answer") not in ANSWERS:
            persons.refuse(session, given.get("review_id"))
        elif operation.name == "withdraw_approval":
            persons.refuse_withdrawal(session, given, persons.caller(options.agent).name)
        with progress("still waiting" if wait else f"{operation.noun} {operation.verb}"):
            if condition is None:
                envelope = persons.send(session, operation.name, given, options.agent)
            else:
                timeout_s = wait_seconds() if timeout is None else timeout
                envelope = session.wait_until(
                    operation.name, given, ready=condition.ready, done=condition.done, timeout_s=timeout_s
                )
            besides = None if options.as_json else _besides(operation, envelope, session)
            if operation.name == "get_review_status":
                say_question(session, json.loads(envelope).get("data"))
        if operation.name == "claim_review" and "review_id" not in given:
            persons.give_back(session, envelope)
    ended = present(envelope, operation.name, as_json=options.as_json, status=condition.status if condition else status)
    # Output that is not written shows nothing.
    sys.stdout.flush()
    persons.note_shown(operation.name, given, envelope, options.agent)
    if condition is not None and ended is Exit.WAITING and not condition.has_ended(json.loads(envelope)["data"]):
        say_go_on(shlex.join(["tandem", *sys.argv[1:]]))
    if besides is not None:
        _show_besides(operation, besides)
    return ended


def _show_besides(operation: Described, besides: bytes) -> None:
    """Print the checks beside a status; beside checks the next steps, but for the command that was just run."""
    if operation.name == "get_review_status":
        present(besides, "list_checks", as_json=False)
        return
    own = f" {operation.noun} {operation.verb} "
    say(*(step for step in next_steps.commands(json.loads(besides)["data"]) if own not in step))


def _besides(operation: Described, envelope: bytes, session: Session) -> bytes | None:
    """What people read beside a status: its checks; beside the checks of a review: its status. None if not asked."""
    data: dict[str, Any] = json.loads(envelope).get("data") or {}
    match operation.name:
        case "get_review_status" if data.get("checks") is not None:
            return session.call("list_checks", {"review_id": data["review_id"]})
        case "list_checks" | "run_checks" if data.get("outcome") is not None:
            return session.call("get_review_status", {"review_id": data["checks"][0]["review_id"]})
        case _:
            return None


def say_question(session: Session, data: dict[str, Any] | None) -> None:
    """Say on standard error what the reviewer of a review asks, if it is the proposer's turn to answer."""
    if data and data["next_action"] == "answer_message":
        asked = {"review_id": data["review_id"], "round": data["round"], "limit": _MOST_ENTRIES}
        entries = session.data("get_discussion", asked)["entries"]
        said = (one for one in entries if one["sender_role"] == "reviewer" and one["kind"] in _ASKING)
        # Who approves beside others asks nothing.
        questions = [one for one in said if one["body"] and one["verdict"] != "approved"]
        say(*(f"{entry['author']} asks: {entry['body']}" for entry in questions[-1:]))


def present(
    envelope: bytes, operation: str, *, as_json: bool, status: Callable[[dict[str, Any]], Exit] | None = None
) -> Exit:
    """Print an envelope, as it is or for people, and say how the command ends.

    Args:
        envelope: What the broker answered.
        operation: Which operation it is the answer of.
        as_json: Whether to print it as it is.
        status: The exit status for its data; by default the command is done.

    Raises:
        TandemError: It is a refusal, and was not printed.
    """
    if as_json:
        show_envelope(envelope)
    else:
        show(render(OPERATIONS[operation].answer_name.rpartition(".")[2], record(data_of(envelope))))
    content = json.loads(envelope)
    if not content["ok"]:
        return Exit.REFUSED
    return status(content["data"]) if status else Exit.DONE


def given(**values: Any) -> dict[str, Any]:
    """The values that were given: those that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def with_project(
    operation: Described, arguments: dict[str, Any], session: Session, options: ConnectionOptions
) -> dict[str, Any]:
    """The arguments with the project they are for; a review, cycle or session that is named knows its own."""
    named = options.project is None and not _KNOW_THEIR_PROJECT.isdisjoint(arguments)
    if named or not operation.has_project:
        return arguments
    project = find_project(session, options)
    return arguments if project is None else {**arguments, "project": project}

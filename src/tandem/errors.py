"""Every error that Tandem answers with, and its code.

    TandemError
    ├── InvalidInput            400 INVALID_INPUT
    ├── InvalidDiff             400 INVALID_DIFF
    ├── ReasonRequired          400 REASON_REQUIRED
    ├── SchemaInvalid           400 SCHEMA_INVALID
    ├── InvalidRole             400 INVALID_ROLE
    ├── InvalidTarget           400 INVALID_TARGET
    ├── Unauthenticated         401 UNAUTHENTICATED
    ├── AuthFailed              401 AUTH_FAILED
    ├── InvalidSession          401 INVALID_SESSION
    ├── Forbidden               403 FORBIDDEN
    ├── SelfApproval            403 SELF_APPROVAL
    ├── NotClaimant             403 NOT_CLAIMANT
    ├── NotFound                404 NOT_FOUND
    ├── UnknownReviewer         404 UNKNOWN_REVIEWER
    ├── InvalidTool             404 INVALID_TOOL
    ├── InvalidTransition       409 INVALID_TRANSITION
    ├── RequirementMissing      409 REQUIREMENT_MISSING
    ├── OpenFindings            409 OPEN_FINDINGS
    ├── AlreadyLanded           409 ALREADY_LANDED
    ├── AlreadyClaimed          409 ALREADY_CLAIMED
    ├── StaleClaim              409 STALE_CLAIM
    ├── StaleRound              409 STALE_ROUND
    ├── TurnViolation           409 TURN_VIOLATION
    ├── NoCounterPatch          409 NO_COUNTER_PATCH
    ├── IdempotencyConflict     409 IDEMPOTENCY_CONFLICT
    ├── NoActiveCycle           409 NO_ACTIVE_CYCLE
    ├── CycleAlreadyActive      409 CYCLE_ALREADY_ACTIVE
    ├── InvalidPhase            409 INVALID_PHASE
    ├── LockDenied              409 LOCK_DENIED
    ├── ArchiveNotAllowed       409 ARCHIVE_NOT_ALLOWED
    ├── PoolDisabled            409 POOL_DISABLED
    ├── PoolCapReached          409 POOL_CAP_REACHED
    ├── CheckFailed             409 CHECK_FAILED
    ├── CheckPending            409 CHECK_PENDING
    ├── ConfigInvalid           409 CONFIG_INVALID
    ├── CursorExpired           410 CURSOR_EXPIRED
    ├── TooLarge                413 TOO_LARGE
    ├── RateLimited             429 RATE_LIMITED (retryable)
    ├── SpawnCooldown           429 SPAWN_COOLDOWN (retryable)
    ├── InternalError           500 INTERNAL_ERROR
    ├── Unavailable             503 UNAVAILABLE (retryable)
    └── TimedOut                504 TIMEOUT (retryable)

The code is API and never changes meaning; the message is for people and says what to do next; the
details carry the facts.
"""

from __future__ import annotations

TYPE_CHECKING = False  # hooks, of which each commit waits for several, import this; `typing` takes half of their start
if TYPE_CHECKING:
    from typing import Any, ClassVar, Final

DOCS: Final = "https://github.com/tandem-broker/tandem/blob/main/docs"
"""Where messages lead to more than fits into them: an installation has no folder of documents."""


class TandemError(Exception):
    """A refusal or a fault with a code from the contract.

    Attributes:
        message: What went wrong and what to do next, for a person or a model.
        details: The facts as JSON values (`expected`, `actual`, `allowed`, `field`, …).
        retryable: Whether the same call may be sent again: nothing was done, and it may succeed later.
    """

    code: ClassVar[str] = "INTERNAL_ERROR"
    status: ClassVar[int] = 500
    retryable: bool = False

    def __init_subclass__(cls, *, code: str | None = None, status: int | None = None, retryable: bool = False) -> None:
        """What an error does not say for itself, it has from the one that it extends."""
        cls.code = code or cls.code
        cls.status = status or cls.status
        cls.retryable = retryable or cls.retryable

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details: dict[str, Any] = details

    def as_dict(self) -> dict[str, Any]:
        """The `error` object of the envelope."""
        return {
            "code": self.code,
            "message": self.message,
            "details": self.details,
            "retryable": self.retryable,
        }


class InvalidInput(TandemError, code="INVALID_INPUT", status=400):
    """An invalid request; `details.field` names the field.

    Correct the field that `details.field` names; `details.problems` lists every complaint.
    """


class InvalidDiff(TandemError, code="INVALID_DIFF", status=400):
    """A diff that does not apply, leaves the repository, or is not a diff.

    Make the diff again against the base that you name (`git diff BASE`); the message quotes git.
    """


class ReasonRequired(TandemError, code="REASON_REQUIRED", status=400):
    """A verdict that needs a reason came without one.

    Send the verdict again with a `reason` that the proposer can act on.
    """


class SchemaInvalid(TandemError, code="SCHEMA_INVALID", status=400):
    """A hand-off or feature that does not have its form; `details.problems` lists every complaint.

    Correct the field that `details.field` names; `details.problems` lists every complaint;
    for the form see the payload.
    """


class InvalidRole(TandemError, code="INVALID_ROLE", status=400):
    """A role that the workflow does not have; `details.allowed` lists those it has.

    Use one of the roles in `details.allowed`, or name the right `workflow`.
    """


class InvalidTarget(TandemError, code="INVALID_TARGET", status=400):
    """A hand-off to somebody who is no role of the workflow.

    Hand off to one of the roles in `details.allowed`, or name the right `workflow`.
    """


class Unauthenticated(TandemError, code="UNAUTHENTICATED", status=401):
    """No valid credentials where they are required.

    Send an access token as `Authorization: Bearer …`, or set `TANDEM_TOKEN` to it. `details.reason` says why the one
    that came is refused: `missing`, `malformed`, `repeated`, `unknown`, `expired` or `revoked`.
    """


class AuthFailed(TandemError, code="AUTH_FAILED", status=401):
    """The key is not the role's.

    Use the role's own key. A lost one cannot be shown; `tandem cycle rotate ROLE` makes a new one.
    """


class InvalidSession(TandemError, code="INVALID_SESSION", status=401):
    """No such session, or one that has ended.

    Open a new session with `session_open`, and send its `session_token`. A supervisor of reviewers ends them and
    registers again.
    """


class Forbidden(TandemError, code="FORBIDDEN", status=403):
    """The caller's role, origin or project does not permit this.

    Use an endpoint of a role that has the operation, or a token of such a role (`details.allowed`), and one of the
    right project. Address the broker as 127.0.0.1 or localhost, or by a name in the setting `allowed_hosts`.
    """


class SelfApproval(TandemError, code="SELF_APPROVAL", status=403):
    """A verdict on the reviewer's own proposal.

    Release the claim and let another reviewer take it. Of a counter-patch: let the proposer decide about it.
    """


class NotClaimant(TandemError, code="NOT_CLAIMANT", status=403):
    """A reviewer's write by somebody who does not hold the claim.

    Claim the review first, and send the same `reviewer_id`, with the same token, throughout.
    """


class NotFound(TandemError, code="NOT_FOUND", status=404):
    """Something named by the request does not exist.

    Look the name up: `list_reviews`, `get_proposal`, `get_discussion`, `list_projects`, `list_cycles` or
    `list_reviewers`.
    """


class UnknownReviewer(TandemError, code="UNKNOWN_REVIEWER", status=404):
    """No pool of this broker has such a reviewer.

    Use an id that `list_reviewers` shows, such as `codex-r1-k3f9q2`; only `tandem reviewers kill` takes a name.
    """


class InvalidTool(TandemError, code="INVALID_TOOL", status=404):
    """A hand-off endpoint was asked for a tool that does not exist.

    Use one of the tools in `details.allowed`; names are with an underscore or with a dot.
    """


class InvalidTransition(TandemError, code="INVALID_TRANSITION", status=409):
    """The life cycle has no such step from the current state; `details.allowed` lists targets.

    Read the state with `get_review_status`; `details.allowed_actions` lists the actions that it takes.
    """


class AlreadyLanded(TandemError, code="ALREADY_LANDED", status=409):
    """A revision of an approved review whose content is committed already; `details.commits` and `branches` say where.

    Propose further changes as a new review: `tandem submit` without `--revise`, `create_review` without `review_id`.
    """


class RequirementMissing(TandemError, code="REQUIREMENT_MISSING", status=409):
    """The project's policy needs other approvals than the caller's, or passed checks; `details.missing` says which.

    Leave the review to who can give them: `missing` of `get_review_status` names the rest.
    """


class OpenFindings(TandemError, code="OPEN_FINDINGS", status=409):
    """An approval over open findings that keep it back, or that says nothing of some; `details.findings` has them.

    Read each (`list_findings`), and say in `answers` whether it is `verified`, `upheld` or `reopened`; or ask for
    changes.
    """

    @property
    def elsewhere(self) -> list[dict[str, Any]]:
        """Those of other reviews, which are settled there."""
        here = self.details.get("review_id")
        return [one for one in self.details.get("findings", ()) if one.get("review_id", here) != here]


class AlreadyClaimed(TandemError, code="ALREADY_CLAIMED", status=409):
    """Another reviewer holds the claim; `details.reviewer_id` says who.

    Claim another review, or wait until `details.reviewer_id` releases this one. A person takes over (`take_over`) what
    reviewers of a pool hold.
    """


class StaleClaim(TandemError, code="STALE_CLAIM", status=409):
    """The claim generation is no longer the current one.

    Claim the review again if it is still open, and send the generation that you are then given.
    """


class StaleRound(TandemError, code="STALE_ROUND", status=409):
    """The verdict is for a round that is no longer the current one.

    Read the current round with `get_proposal`, and send the verdict with its number as `round`.
    """


class TurnViolation(TandemError, code="TURN_VIOLATION", status=409):
    """A second message in a row from the same side.

    Wait until the other side has answered (`get_review_status` with `wait`).
    """


class NoCounterPatch(TandemError, code="NO_COUNTER_PATCH", status=409):
    """There is no pending counter-patch by that id.

    Read the pending counter-patch, if there is one, with `get_proposal`.
    """


class IdempotencyConflict(TandemError, code="IDEMPOTENCY_CONFLICT", status=409):
    """The same idempotency key came with another body.

    Choose a new `idempotency_key` for a new call.
    """


class NoActiveCycle(TandemError, code="NO_ACTIVE_CYCLE", status=409):
    """The project has no cycle of this workflow under way.

    Begin a cycle with `cycle_start`; `cycle_status` tells which project and workflow you are in.
    """


class CycleAlreadyActive(TandemError, code="CYCLE_ALREADY_ACTIVE", status=409):
    """A cycle of this workflow is under way; `details.cycle_id` says which.

    Complete and archive `details.cycle_id` first, or begin the new one in another workflow.
    """


class InvalidPhase(TandemError, code="INVALID_PHASE", status=409):
    """The cycle's phase has no such step; `details.allowed` lists its steps.

    Read `cycle_status`: `next_step` says which step is possible now. With `details.review_id`, wait for that review.
    """


class LockDenied(TandemError, code="LOCK_DENIED", status=409):
    """The role is not the active one, or the lock token is not the current one.

    Read `cycle_status`. If it is your turn, take the current token with `lock_acquire` and try again; else wait with
    `wait` and your `role`.
    """


class ArchiveNotAllowed(TandemError, code="ARCHIVE_NOT_ALLOWED", status=409):
    """Only a complete cycle can be archived.

    Complete the cycle first, with `cycle_complete`.
    """


class PoolDisabled(TandemError, code="POOL_DISABLED", status=409):
    """No pool serves the project now: none is enabled, or it is paused; `details.why` says which.

    Read `details.why`. Enable a pool (`tandem reviewers setup`), let a paused one go on with `tandem reviewers resume`,
    or register the project's folder.
    """


class PoolCapReached(TandemError, code="POOL_CAP_REACHED", status=409):
    """The pool has as many reviewers as it may; `details.limit` says how many.

    Wait for a reviewer to end, end one with `kill_reviewer`, or raise `max_pool_size` (`details.limit`).
    """


class CheckFailed(TandemError, code="CHECK_FAILED", status=409):
    """A required check of the approved content has not passed.

    Read its log (`tandem checks log REVIEW NAME`). Send a new round, or have it run again: `tandem checks run REVIEW`.
    """


class CheckPending(TandemError, code="CHECK_PENDING", status=409):
    """A required check of the approved content has not ended yet, or it ran on a base that does not count yet.

    Wait for it: `tandem checks list REVIEW --wait`; the answer says what else helps.
    """


class CursorExpired(TandemError, code="CURSOR_EXPIRED", status=410):
    """The cursor is of another log, or of a part that no longer exists.

    Call again without a cursor; the log is another one, or was restored from a copy.
    """


class TooLarge(TandemError, code="TOO_LARGE", status=413):
    """Over a limit; `details.limit` says which.

    Split the change, or ask by pages; or raise the setting that `details.setting` names, in the broker's configuration,
    and restart the broker where the message says so. A limit without a setting is fixed.
    """


class RateLimited(TandemError, code="RATE_LIMITED", status=429, retryable=True):
    """Too many requests from one principal, or from one address without a token: `details.retry_after_s` is the time.

    Send the same request again after `details.retry_after_s` seconds, as `Retry-After` says too. It had no effect.
    """

    @property
    def retry_after_seconds(self) -> int:
        """What `Retry-After` says: whole seconds, which are enough."""
        return max(1, int(-(-self.details.get("retry_after_s", 1) // 1)))


class SpawnCooldown(TandemError, code="SPAWN_COOLDOWN", status=429, retryable=True):
    """A reviewer was started just now; `details.retry_after_s` says when the next may be.

    Try again after `details.retry_after_s` seconds. If that is long, reviewers fail at once: `list_reviewers` says why.
    """


class ConfigInvalid(TandemError, code="CONFIG_INVALID", status=409):
    """A setting that cannot be used; `details.setting` and `details.origin` say which, and where it comes from.

    Correct the setting that `details.setting` names, at the place that `details.origin` names; for `keys`, give the
    roles in `details.missing` theirs with `tandem cycle init`.
    """


class InternalError(TandemError, code="INTERNAL_ERROR", status=500):
    """An unknown fault; carries a reference id and no inner text.

    Look up `details.reference` in the broker's log (`tandem logs`), and report it.
    """


class Unavailable(TandemError, code="UNAVAILABLE", status=503, retryable=True):
    """The broker, its database or git cannot serve this now; the same call may succeed later.

    Try the same call again in a moment; if no broker runs, `tandem up --background`.
    """


class TimedOut(TandemError, code="TIMEOUT", status=504, retryable=True):
    """A step did not end within its limit.

    Try the same call again; if the repository is that slow, raise `git_timeout_seconds` and restart the broker.
    """


_BY_CODE = {error.code: error for error in TandemError.__subclasses__()}


def by_code() -> dict[str, type[TandemError]]:
    """Every error type of this module by its code."""
    return _BY_CODE


def error_from(refusal: dict[str, Any]) -> TandemError:
    """The typed error for an envelope's `error` object.

    A code that this version does not know becomes a plain `TandemError` that carries the code.
    """
    code = str(refusal.get("code", TandemError.code))
    known = _BY_CODE.get(code) or type("TandemError", (TandemError,), {"code": code})
    error = known(str(refusal.get("message", "The broker gave no reason.")))
    # Set, not passed: a detail may bear the name of a parameter.
    error.details = dict(refusal.get("details") or {})
    error.retryable = bool(refusal.get("retryable", error.retryable))
    return error

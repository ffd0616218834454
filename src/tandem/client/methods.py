"""The operations of the broker as methods. Written by `make docs`; edits here are lost."""

# ruff: noqa: A002, E501, PLR0913 - a method has the fields of its request, by the contract's names.
# It is compared with the registry byte for byte, so that no formatter may touch it:
# fmt: off

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    # Named in signatures only; to build the types would take longer than a call.
    import tandem.access.contract as access_contract
    import tandem.cycles.answers as cycles_answers
    import tandem.gate.contract as gate_contract
    import tandem.inbox.contract as inbox_contract
    import tandem.landings.contract as landings_contract
    import tandem.pool.contract as pool_contract
    import tandem.projects.contract as projects_contract
    import tandem.reviews.answers as reviews_answers
    import tandem.reviews.check_contract as reviews_check_contract
    import tandem.reviews.finding_contract as reviews_finding_contract
    import tandem.reviews.page_contract as reviews_page_contract
    import tandem.reviews.requests as reviews_requests
    import tandem.reviews.tally_contract as reviews_tally_contract
    import tandem.webhooks.contract as webhooks_contract


class Operations(ABC):
    """Every operation of the broker. Each raises the `TandemError` of the refusal's code."""

    @abstractmethod
    async def _operate(self, operation: str, given: Mapping[str, Any]) -> Any:
        """Send one operation and read its answer, of the type that it has.

        Args:
            operation: Its name.
            given: The variables of its method: the request's fields, of which those with their default are left out.
        """
        ...

    async def create_review(
        self,
        *,
        intent: str,
        agent_type: str,
        phase: str | None = None,
        plan: str | None = None,
        task: str | None = None,
        project: str | None = None,
        idempotency_key: str | None = None,
        agent_role: str = "proposer",
        category: Literal["plan_review", "code_change", "verification", "handoff"] | None = None,
        description: str | None = None,
        diff: str | None = None,
        base: str | None = None,
        path: str | None = None,
        base_files: list[reviews_requests.SentBaseFile] | None = None,
        metadata: dict[str, Any] | None = None,
        proposer_id: str | None = None,
        review_id: str | None = None,
        parent_id: str | None = None,
        skip_diff_validation: bool = False,
        reuse: bool = False,
    ) -> reviews_answers.ReviewCreated:
        """Propose a change for review; with review_id, revise one; with parent_id, resubmit a rejected one."""
        return await self._operate("create_review", locals())

    async def get_review_status(
        self,
        review_id: str,
        *,
        project: str | None = None,
        wait: bool = False,
        cursor: str | None = None,
        wake_on: Literal["turn", "any"] = "turn",
        timeout_s: float | None = None,
    ) -> reviews_answers.ReviewStatus:
        """The state of a review; with wait, returns when it is your turn."""
        return await self._operate("get_review_status", locals())

    async def get_proposal(
        self,
        review_id: str,
        *,
        project: str | None = None,
        round: int | None = None,
        since_round: int | None = None,
        files: list[str] | None = None,
    ) -> reviews_answers.Proposal:
        """A round's whole content, and the pending counter-patch."""
        return await self._operate("get_proposal", locals())

    async def get_base_files(
        self,
        review_id: str,
        *,
        project: str | None = None,
        round: int | None = None,
    ) -> reviews_answers.BaseFiles:
        """What a round's base has at the paths that it touches: for reviewers who have not the repository."""
        return await self._operate("get_base_files", locals())

    async def get_review(
        self,
        review_id: str,
        *,
        project: str | None = None,
        round: int | None = None,
        since_round: int | None = None,
        files: list[str] | None = None,
        person: str | None = None,
    ) -> reviews_answers.FullReview:
        """A whole review: its state, a round's content, all rounds, and the first page of the discussion."""
        return await self._operate("get_review", locals())

    async def list_reviews(
        self,
        *,
        project: str | None = None,
        status: Literal["open", "pending", "claimed", "in_review", "changes_requested", "approved", "rejected", "closed"] | None = None,
        category: Literal["plan_review", "code_change", "verification", "handoff"] | None = None,
        priority: Literal["critical", "normal", "low"] | None = None,
        turn: Literal["proposer", "reviewer"] | None = None,
        attention: bool | None = None,
        order: Literal["queue", "activity"] = "queue",
        wait: bool = False,
        cursor: str | None = None,
        timeout_s: float | None = None,
        limit: int = 50,
        page: str | None = None,
    ) -> reviews_answers.ReviewPage:
        """Reviews by priority and age, a page at a time; with wait, answers when the list may have changed."""
        return await self._operate("list_reviews", locals())

    async def claim_review(
        self,
        *,
        reviewer_id: str,
        project: str | None = None,
        idempotency_key: str | None = None,
        review_id: str | None = None,
        category: Literal["plan_review", "code_change", "verification", "handoff"] | None = None,
        take_over: bool = False,
    ) -> reviews_answers.Claim:
        """Claim a review, or the next in the queue; answers with the proposal, or no review."""
        return await self._operate("claim_review", locals())

    async def renew_claim(
        self,
        review_id: str,
        *,
        claim_generation: int,
        project: str | None = None,
        idempotency_key: str | None = None,
    ) -> reviews_answers.ClaimRenewed:
        """Extend your lease while you work."""
        return await self._operate("renew_claim", locals())

    async def release_claim(
        self,
        review_id: str,
        *,
        claim_generation: int,
        project: str | None = None,
        idempotency_key: str | None = None,
        reason: str | None = None,
    ) -> reviews_answers.ClaimReleased:
        """Give your claim back: the review returns to the queue."""
        return await self._operate("release_claim", locals())

    async def submit_verdict(
        self,
        review_id: str,
        *,
        verdict: Literal["approved", "changes_requested", "rejected", "comment", "approve", "request_changes", "reject"],
        project: str | None = None,
        idempotency_key: str | None = None,
        reason: str | None = None,
        counter_patch: str | None = None,
        findings: list[reviews_finding_contract.GivenFinding] | None = None,
        answers: list[reviews_finding_contract.GivenSettling] | None = None,
        comments: list[reviews_requests.LineComment] | None = None,
        read_all: bool = False,
        claim: bool = False,
        claim_generation: int | None = None,
        reviewer_id: str | None = None,
        round: int | None = None,
        proof: str | None = None,
    ) -> reviews_answers.VerdictGiven:
        """Give your verdict on the claimed round; changes_requested and comment may carry a counter-patch."""
        return await self._operate("submit_verdict", locals())

    async def accept_counter_patch(
        self,
        review_id: str,
        *,
        counter_patch_id: str,
        project: str | None = None,
        idempotency_key: str | None = None,
        reason: str | None = None,
    ) -> reviews_answers.CounterPatchDecided:
        """Make the pending counter-patch the next round's content."""
        return await self._operate("accept_counter_patch", locals())

    async def reject_counter_patch(
        self,
        review_id: str,
        *,
        counter_patch_id: str,
        project: str | None = None,
        idempotency_key: str | None = None,
        reason: str | None = None,
    ) -> reviews_answers.CounterPatchDecided:
        """Decline the pending counter-patch; the round's content stays."""
        return await self._operate("reject_counter_patch", locals())

    async def add_message(
        self,
        review_id: str,
        *,
        sender_role: Literal["proposer", "reviewer"],
        body: str,
        project: str | None = None,
        idempotency_key: str | None = None,
        metadata: dict[str, Any] | None = None,
        resolves: str | None = None,
        reviewer_id: str | None = None,
        claim_generation: int | None = None,
    ) -> reviews_answers.MessageSent:
        """Add a message to the discussion; the two sides alternate."""
        return await self._operate("add_message", locals())

    async def get_discussion(
        self,
        review_id: str,
        *,
        project: str | None = None,
        round: int | None = None,
        limit: int = 50,
        page: str | None = None,
    ) -> reviews_answers.Discussion:
        """Messages, findings, verdicts and counter-patches, oldest first."""
        return await self._operate("get_discussion", locals())

    async def withdraw_approval(
        self,
        review_id: str,
        *,
        project: str | None = None,
        idempotency_key: str | None = None,
        reason: str | None = None,
        round: int | None = None,
        withdrawn_by: str | None = None,
    ) -> reviews_answers.ApprovalWithdrawn:
        """Withdraw an approval: the gate no longer opens for it; its commits stay. For the approver, and for operators. While others are missing, only its approver withdraws an approval; the others stay."""
        return await self._operate("withdraw_approval", locals())

    async def waive_requirement(
        self,
        review_id: str,
        *,
        need: str,
        until: str,
        reason: str,
        round: int,
        project: str | None = None,
        idempotency_key: str | None = None,
        waived_by: str | None = None,
        proof: str | None = None,
    ) -> reviews_answers.ReviewStatus:
        """Let a change go without something that the policy asks for: on record, and owed until it is reviewed after all. For persons. When nothing else is missing, it approves the review."""
        return await self._operate("waive_requirement", locals())

    async def settle_waiver(
        self,
        review_id: str,
        *,
        verdict: Literal["approved", "objects"],
        project: str | None = None,
        idempotency_key: str | None = None,
        need: str | None = None,
        reason: str | None = None,
        round: int | None = None,
        reviewer_id: str | None = None,
        proof: str | None = None,
    ) -> reviews_answers.ReviewStatus:
        """Review a waived requirement after the fact: the change is good, and the debt over; or not, and a person looks. For those whose approval the policy would have taken."""
        return await self._operate("settle_waiver", locals())

    async def close_review(
        self,
        review_id: str,
        *,
        project: str | None = None,
        idempotency_key: str | None = None,
        reason: str | None = None,
    ) -> reviews_answers.ReviewClosed:
        """End a review: approved, rejected, or withdrawn if it was undecided."""
        return await self._operate("close_review", locals())

    async def get_review_timeline(
        self,
        review_id: str,
        *,
        project: str | None = None,
    ) -> reviews_answers.Timeline:
        """Every event of one review, oldest first."""
        return await self._operate("get_review_timeline", locals())

    async def get_activity_feed(
        self,
        *,
        project: str | None = None,
        status: Literal["pending", "claimed", "in_review", "changes_requested", "approved", "rejected", "closed"] | None = None,
        wait: bool = False,
        cursor: str | None = None,
        timeout_s: float | None = None,
        limit: int = 50,
        page: str | None = None,
    ) -> reviews_answers.ActivityFeed:
        """Reviews by latest activity with their last event; with wait, answers on the next one."""
        return await self._operate("get_activity_feed", locals())

    async def get_audit_log(
        self,
        *,
        project: str | None = None,
        review_id: str | None = None,
        kind: str | None = None,
        actor: str | None = None,
        wait: bool = False,
        cursor: str | None = None,
        timeout_s: float | None = None,
        limit: int = 50,
    ) -> reviews_answers.AuditPage:
        """Events after a cursor, oldest first; without a cursor, the newest page."""
        return await self._operate("get_audit_log", locals())

    async def get_review_stats(
        self,
        *,
        project: str | None = None,
        since: str | None = None,
    ) -> reviews_tally_contract.Statistics:
        """Counts, approval rate and mean times, by category and reviewer."""
        return await self._operate("get_review_stats", locals())

    async def retry_review(
        self,
        review_id: str,
        *,
        project: str | None = None,
        idempotency_key: str | None = None,
    ) -> reviews_answers.ReviewStatus:
        """Have a review that waits for a person, or for a later try, go on now."""
        return await self._operate("retry_review", locals())

    async def list_checks(
        self,
        *,
        project: str | None = None,
        review_id: str | None = None,
        round: int | None = None,
        wait: bool = False,
        cursor: str | None = None,
        timeout_s: float | None = None,
    ) -> reviews_check_contract.CheckList:
        """The checks of a review's round, and how they ended; without a review, those that are still to end."""
        return await self._operate("list_checks", locals())

    async def run_checks(
        self,
        review_id: str,
        *,
        project: str | None = None,
        idempotency_key: str | None = None,
        checks: list[str] | None = None,
        branch: str | None = None,
    ) -> reviews_check_contract.CheckList:
        """Run the checks of a review's current round again, all or some, as `checks.toml` of the base branch names them."""
        return await self._operate("run_checks", locals())

    async def get_check_log(
        self,
        review_id: str,
        *,
        name: str,
        project: str | None = None,
        round: int | None = None,
    ) -> reviews_check_contract.CheckLog:
        """The end of what a check of a round wrote when it last ran."""
        return await self._operate("get_check_log", locals())

    async def report_check(
        self,
        review_id: str,
        *,
        round: int,
        name: str,
        runner: str,
        status: Literal["queued", "running", "passed", "failed", "timeout", "error", "skipped"],
        project: str | None = None,
        idempotency_key: str | None = None,
        tree: str | None = None,
        commit: str | None = None,
        exit_status: int | None = None,
        seconds: float | None = None,
        reason: str | None = None,
        log: str | None = None,
        findings: list[reviews_finding_contract.GivenFinding] | None = None,
    ) -> reviews_check_contract.CheckReported:
        """Report that a check begins, on which tree, or how it ended. The first runner to begin it runs it."""
        return await self._operate("report_check", locals())

    async def list_findings(
        self,
        *,
        project: str | None = None,
        review_id: str | None = None,
        status: Literal["open", "blocking", "all"] = "all",
        round: int | None = None,
        at: str | None = None,
        limit: int = 50,
        page: str | None = None,
    ) -> reviews_finding_contract.FindingPage:
        """The findings of a review with their places in its current round, or those of a project."""
        return await self._operate("list_findings", locals())

    async def answer_finding(
        self,
        review_id: str,
        *,
        finding_id: str,
        answer: Literal["fixed", "refuted", "deferred", "verified", "reopened", "upheld"],
        project: str | None = None,
        idempotency_key: str | None = None,
        reason: str | None = None,
        claim_generation: int | None = None,
        reviewer_id: str | None = None,
    ) -> reviews_finding_contract.FindingAnswered:
        """Answer a finding (proposer: fixed, refuted, deferred), or settle it (reviewer: verified, reopened, upheld)."""
        return await self._operate("answer_finding", locals())

    async def list_lessons(
        self,
        *,
        project: str | None = None,
        files: list[str] | None = None,
        limit: int = 50,
        page: str | None = None,
    ) -> reviews_finding_contract.LessonPage:
        """The false alarms that a project's reviewers are told of."""
        return await self._operate("list_lessons", locals())

    async def remove_lesson(
        self,
        *,
        finding_id: str,
        project: str | None = None,
        idempotency_key: str | None = None,
    ) -> reviews_finding_contract.LessonRemoved:
        """Remove a lesson: the same finding counts again."""
        return await self._operate("remove_lesson", locals())

    async def check_gate(
        self,
        *,
        project: str,
        changes: list[gate_contract.GateChange] | None = None,
        digest: str | None = None,
        head: str | None = None,
        base: str | None = None,
        branch: str | None = None,
        tips: list[str] | None = None,
        here: gate_contract.GateHere | None = None,
        sign: bool = False,
        signed: list[str] | None = None,
    ) -> gate_contract.GateDecision:
        """Check whether exactly this content is approved, given as raw changes or a digest."""
        return await self._operate("check_gate", locals())

    async def set_gate(
        self,
        *,
        enabled: bool,
        project: str | None = None,
        idempotency_key: str | None = None,
        branches: list[str] | None = None,
        accepted: list[str] | None = None,
        folder: str | None = None,
        trusted: list[str] | None = None,
        signers: list[str] | None = None,
        commits: Literal["free", "followed", "reviewed"] | None = None,
        threshold: Literal["blocker", "major", "minor", "nit"] | None = None,
        reason: str | None = None,
        since: str | None = None,
        proof: str | None = None,
    ) -> gate_contract.GateState:
        """Switch a project's gate on or off. What lets more through takes the proof that a person decided it."""
        return await self._operate("set_gate", locals())

    async def get_gate(
        self,
        *,
        project: str | None = None,
        plan: str | None = None,
        here: gate_contract.GateHere | None = None,
        with_key: bool = False,
    ) -> gate_contract.GateState:
        """Whether a project's gate is on, and the state of one of its plans."""
        return await self._operate("get_gate", locals())

    async def override_gate(
        self,
        *,
        changes: list[gate_contract.GateChange],
        reason: str,
        project: str | None = None,
        idempotency_key: str | None = None,
        override_id: str | None = None,
        branch: str | None = None,
        at: str | None = None,
        proof: str | None = None,
    ) -> gate_contract.GateOverridden:
        """Override the gate for exactly this difference, with the hook's proof that a person answered; on record."""
        return await self._operate("override_gate", locals())

    async def see_override(
        self,
        *,
        override_id: str,
        person: str,
        project: str | None = None,
        idempotency_key: str | None = None,
    ) -> gate_contract.GateOverridden:
        """Take an override out of a person's inbox, who has seen it; on record."""
        return await self._operate("see_override", locals())

    async def record_commit(
        self,
        *,
        commit: str,
        project: str | None = None,
        idempotency_key: str | None = None,
        parent: str | None = None,
        branch: str | None = None,
        phase: str | None = None,
        plan: str | None = None,
        task: str | None = None,
        review_ids: list[str] | None = None,
        unreviewed: bool = False,
        replaces: str | None = None,
        depends_on: list[str] | None = None,
        changes: list[gate_contract.GateChange] | None = None,
    ) -> gate_contract.CommitRecord:
        """Record a commit, so that it can be found by its plan and review. Idempotent."""
        return await self._operate("record_commit", locals())

    async def list_commits(
        self,
        *,
        project: str | None = None,
        plan: str | None = None,
        review_id: str | None = None,
        commits: list[str] | None = None,
        limit: int = 50,
        page: str | None = None,
    ) -> gate_contract.CommitPage:
        """Recorded commits, oldest first: of a plan, of a review, by their ids, or all of the project."""
        return await self._operate("list_commits", locals())

    async def record_rollback(
        self,
        review_id: str,
        *,
        branch: str,
        head_before: str,
        head_after: str,
        project: str | None = None,
        idempotency_key: str | None = None,
        reverted: list[gate_contract.RevertedCommit] | None = None,
        carried: list[gate_contract.CarriedCommit] | None = None,
        rework: list[str] | None = None,
        how: Literal["rollback", "observed", "settled"] = "rollback",
        reason: str | None = None,
        proof: str | None = None,
    ) -> gate_contract.RollbackRecorded:
        """Record that a review's change was rolled back or is gone; its plan continues in blocking mode. Idempotent."""
        return await self._operate("record_rollback", locals())

    async def get_project_settings(
        self,
        *,
        project: str,
    ) -> gate_contract.ProjectSettings:
        """The settings that hold for a project and where each comes from, and its gate."""
        return await self._operate("get_project_settings", locals())

    async def list_landings(
        self,
        *,
        project: str | None = None,
        branch: str | None = None,
        source: str | None = None,
        limit: int = 20,
        wait: bool = False,
        cursor: str | None = None,
        timeout_s: float | None = None,
    ) -> landings_contract.LandingList:
        """The line of a project's base branches, first the next one; then the ended landings, newest first."""
        return await self._operate("list_landings", locals())

    async def report_landing(
        self,
        *,
        branch: str,
        source: str,
        head: str,
        state: Literal["waiting", "checking", "landing", "landed", "failed"],
        project: str | None = None,
        idempotency_key: str | None = None,
        landing_id: str | None = None,
        generation: int = 0,
        tip: str | None = None,
        commit: str | None = None,
        review_ids: list[str] | None = None,
        reason: str | None = None,
    ) -> landings_contract.LandingView:
        """Take a branch's place in the line of its base branch, or say how its landing goes on and that it is alive. Without a `landing_id` the place is a new one, or the caller's own, taken over from another process. Without a word for 20 s a landing has ended, and the next one goes on."""
        return await self._operate("report_landing", locals())

    async def session_open(
        self,
        *,
        role: str,
        psk: str,
        project: str | None = None,
        idempotency_key: str | None = None,
        workflow: str | None = None,
    ) -> cycles_answers.SessionOpened:
        """Open a session as a role of a workflow; its token authenticates lock, hand-off, completion and archive."""
        return await self._operate("session_open", locals())

    async def cycle_start(
        self,
        *,
        feature: str,
        project: str | None = None,
        idempotency_key: str | None = None,
        workflow: str | None = None,
    ) -> cycles_answers.CycleStarted:
        """Begin a cycle: one feature on its way through the workflow's phases."""
        return await self._operate("cycle_start", locals())

    async def cycle_status(
        self,
        *,
        project: str | None = None,
        workflow: str | None = None,
        role: str | None = None,
        wait: bool = False,
        cursor: str | None = None,
        timeout_s: float | None = None,
    ) -> cycles_answers.CycleStatus:
        """The state of the cycle; with wait and your role, returns when it is your turn."""
        return await self._operate("cycle_status", locals())

    async def lock_acquire(
        self,
        *,
        session_token: str,
        project: str | None = None,
        idempotency_key: str | None = None,
        workflow: str | None = None,
    ) -> cycles_answers.LockAcquired:
        """Take the lock's current token when it is your role's turn."""
        return await self._operate("lock_acquire", locals())

    async def handoff_write(
        self,
        *,
        target: str,
        payload: Any,
        lock_token: str,
        session_token: str,
        project: str | None = None,
        idempotency_key: str | None = None,
        workflow: str | None = None,
    ) -> cycles_answers.HandoffWritten:
        """Hand your work over to the next role; in approval mode it is reviewed first."""
        return await self._operate("handoff_write", locals())

    async def handoff_read(
        self,
        *,
        target: str,
        project: str | None = None,
        workflow: str | None = None,
    ) -> dict[str, Any]:
        """The latest hand-off to a role, or {}."""
        return await self._operate("handoff_read", locals())

    async def cycle_complete(
        self,
        *,
        lock_token: str,
        session_token: str,
        project: str | None = None,
        idempotency_key: str | None = None,
        workflow: str | None = None,
    ) -> cycles_answers.CycleCompleted:
        """Complete the cycle, from a phase that allows it."""
        return await self._operate("cycle_complete", locals())

    async def cycle_archive(
        self,
        *,
        lock_token: str,
        session_token: str,
        project: str | None = None,
        idempotency_key: str | None = None,
        workflow: str | None = None,
    ) -> cycles_answers.CycleArchived:
        """Write a complete cycle to its archive; a new one can then begin."""
        return await self._operate("cycle_archive", locals())

    async def session_close(
        self,
        *,
        session_token: str,
        project: str | None = None,
        idempotency_key: str | None = None,
    ) -> cycles_answers.SessionClosed:
        """End a session."""
        return await self._operate("session_close", locals())

    async def cycle_init(
        self,
        *,
        project: str | None = None,
        idempotency_key: str | None = None,
        workflow: str | None = None,
        keys: dict[str, str] | None = None,
    ) -> cycles_answers.KeysMade:
        """Create the keys of a workflow's roles; each is shown once, and only a hash is stored."""
        return await self._operate("cycle_init", locals())

    async def cycle_rotate(
        self,
        *,
        role: str,
        project: str | None = None,
        idempotency_key: str | None = None,
        workflow: str | None = None,
        key: str | None = None,
    ) -> cycles_answers.KeysMade:
        """Replace a role's key; its sessions end."""
        return await self._operate("cycle_rotate", locals())

    async def cycle_revoke(
        self,
        *,
        role: str,
        project: str | None = None,
        idempotency_key: str | None = None,
        workflow: str | None = None,
    ) -> cycles_answers.KeyRevoked:
        """Revoke a role's key; its sessions end, and the workflow is blocked until the role has a new key."""
        return await self._operate("cycle_revoke", locals())

    async def list_cycles(
        self,
        *,
        project: str | None = None,
        workflow: str | None = None,
        limit: int = 50,
        page: str | None = None,
    ) -> cycles_answers.CyclePage:
        """Cycles, newest first, and the workflows that there are."""
        return await self._operate("list_cycles", locals())

    async def get_cycle(
        self,
        *,
        project: str | None = None,
        cycle_id: str | None = None,
        workflow: str | None = None,
    ) -> cycles_answers.CycleHistory:
        """A whole cycle: state, workflow, and every hand-off with its payload."""
        return await self._operate("get_cycle", locals())

    async def list_reviewers(
        self,
        *,
        project: str | None = None,
    ) -> pool_contract.ReviewerList:
        """The pool's reviewers: which run, their current and past work and cost; and why none is started."""
        return await self._operate("list_reviewers", locals())

    async def spawn_reviewer(
        self,
        *,
        project: str | None = None,
        idempotency_key: str | None = None,
    ) -> pool_contract.ReviewerView:
        """Start a reviewer for a project now, even if no review waits."""
        return await self._operate("spawn_reviewer", locals())

    async def kill_reviewer(
        self,
        *,
        reviewer_id: str,
        project: str | None = None,
        idempotency_key: str | None = None,
        force: bool = False,
    ) -> pool_contract.ReviewerView:
        """End a reviewer of the pool: after its current review, or with force at once."""
        return await self._operate("kill_reviewer", locals())

    async def pause_reviewers(
        self,
        *,
        project: str | None = None,
        idempotency_key: str | None = None,
        supervisor_id: str | None = None,
        reason: str | None = None,
    ) -> pool_contract.PoolsChanged:
        """Pause the pool: no reviewer is started; running ones finish their review and end."""
        return await self._operate("pause_reviewers", locals())

    async def resume_reviewers(
        self,
        *,
        project: str | None = None,
        idempotency_key: str | None = None,
        supervisor_id: str | None = None,
    ) -> pool_contract.PoolsChanged:
        """Resume the pool after a pause of any kind; also closes the circuit breaker."""
        return await self._operate("resume_reviewers", locals())

    async def supervisor_register(
        self,
        *,
        secret: str,
        incarnation: str,
        host: str,
        provider: str,
        project: str | None = None,
        idempotency_key: str | None = None,
        mode: Literal["worker", "agent"] = "worker",
        model: str | None = None,
        projects: list[str] | None = None,
        rules: pool_contract.PoolRules | None = None,
    ) -> pool_contract.Registered:
        """Register a supervisor at its start: reviewers of its earlier starts count as ended; the pool uses these rules."""
        return await self._operate("supervisor_register", locals())

    async def supervisor_heartbeat(
        self,
        *,
        secret: str,
        incarnation: str,
        reviewers: list[pool_contract.ReviewerSighting] | None = None,
        quiet: bool = False,
        closing: bool = False,
        wait: bool = False,
        cursor: str | None = None,
        timeout_s: float | None = None,
    ) -> pool_contract.Orders:
        """A supervisor reports its reviewers' state and receives orders; with wait, when there are new ones."""
        return await self._operate("supervisor_heartbeat", locals())

    async def report_outcome(
        self,
        review_id: str,
        *,
        reviewer_id: str,
        claim_generation: int,
        outcome: Literal["verdict", "no_verdict", "unreadable", "timeout", "crashed", "cancelled"],
        project: str | None = None,
        idempotency_key: str | None = None,
        reason: str | None = None,
        retry_after_s: float | None = None,
        seconds: float | None = None,
        tokens_in: int | None = None,
        tokens_out: int | None = None,
        cost_usd: float | None = None,
        exit_code: int | None = None,
    ) -> pool_contract.OutcomeReported:
        """Report how a run of a reviewer's program ended. Without a verdict the review is tried again later."""
        return await self._operate("report_outcome", locals())

    async def get_reviewer_log(
        self,
        *,
        reviewer_id: str,
        project: str | None = None,
        lines: int = 200,
        position: str | None = None,
    ) -> pool_contract.ReviewerLog:
        """The log of a pool's reviewer and its program: the last lines, or those after a position."""
        return await self._operate("get_reviewer_log", locals())

    async def get_round_file(
        self,
        review_id: str,
        *,
        path: str,
        project: str | None = None,
        round: int | None = None,
        side: Literal["after", "before", "tip"] = "after",
        first_line: int = 1,
        last_line: int | None = None,
        as_base64: bool = False,
    ) -> reviews_page_contract.RoundFile:
        """Lines of a file before or after a round's change, at most 2,000 per call. A file that the change leaves alone is that of what the round stands on."""
        return await self._operate("get_round_file", locals())

    async def draft_counter_patch(
        self,
        review_id: str,
        *,
        project: str | None = None,
        round: int | None = None,
        edits: list[reviews_page_contract.FileEdit] | None = None,
        text: str | None = None,
    ) -> reviews_page_contract.CounterPatchDraft:
        """Create a counter-patch, or try one, without sending it: whether submit_verdict would accept it."""
        return await self._operate("draft_counter_patch", locals())

    async def search_reviews(
        self,
        *,
        project: str | None = None,
        status: Literal["pending", "claimed", "in_review", "changes_requested", "approved", "rejected", "closed"] | None = None,
        category: Literal["plan_review", "code_change", "verification", "handoff"] | None = None,
        priority: Literal["critical", "normal", "low"] | None = None,
        turn: Literal["proposer", "reviewer"] | None = None,
        attention: bool | None = None,
        proposer: str | None = None,
        reviewer: str | None = None,
        text: str | None = None,
        path: str | None = None,
        sort: Literal["queue", "newest", "oldest", "updated"] = "queue",
        limit: int = 50,
        page: str | None = None,
    ) -> reviews_page_contract.SearchPage:
        """Reviews by text and path; searches at most 2,000 per call, and continues with next_page."""
        return await self._operate("search_reviews", locals())

    async def mark_viewed(
        self,
        review_id: str,
        *,
        round: int,
        path: str,
        viewed: bool,
        person: str,
        project: str | None = None,
        idempotency_key: str | None = None,
    ) -> reviews_page_contract.ViewedFiles:
        """Mark a file of a round as viewed by a person, or as not viewed; not recorded in the log."""
        return await self._operate("mark_viewed", locals())

    async def save_draft(
        self,
        review_id: str,
        *,
        draft_id: str,
        person: str,
        round: int,
        kind: Literal["finding", "message", "verdict"],
        body: str,
        project: str | None = None,
        idempotency_key: str | None = None,
        file: str | None = None,
        line: int | None = None,
        end_line: int | None = None,
        side: Literal["after", "before"] | None = None,
        severity: str | None = None,
        category: str | None = None,
        failure: str | None = None,
        suggestion: str | None = None,
        pre_existing: bool = False,
        expected: str | None = None,
    ) -> reviews_page_contract.Draft:
        """Keep what a person is writing about a review, in the place of their draft of that id; not recorded in the log. With `expected`, other words that were saved there later stay, behind these."""
        return await self._operate("save_draft", locals())

    async def list_drafts(
        self,
        *,
        person: str,
        project: str | None = None,
        review_id: str | None = None,
        page: str | None = None,
    ) -> reviews_page_contract.DraftPage:
        """A person's drafts, of one review or of all, by review."""
        return await self._operate("list_drafts", locals())

    async def discard_draft(
        self,
        review_id: str,
        *,
        draft_ids: list[str],
        person: str,
        project: str | None = None,
        idempotency_key: str | None = None,
        expected: str | None = None,
    ) -> reviews_page_contract.DraftsDiscarded:
        """Remove drafts of a person on a review; those that are gone already do not matter."""
        return await self._operate("discard_draft", locals())

    async def get_inbox(
        self,
        *,
        person: str,
        project: str | None = None,
        limit: int = 50,
    ) -> inbox_contract.Inbox:
        """What waits for a person, what waits for others, and problems; of all projects unless one is named."""
        return await self._operate("get_inbox", locals())

    async def create_token(
        self,
        *,
        name: str,
        roles: list[Literal["proposer", "reviewer", "operator", "handoff", "supervisor", "admin", "monitor"]],
        project: str | None = None,
        idempotency_key: str | None = None,
        days: float | None = None,
    ) -> access_contract.TokenCreated:
        """Create an access token for a person or program; it is shown once, and only a hash is stored."""
        return await self._operate("create_token", locals())

    async def list_tokens(
        self,
        *,
        limit: int = 50,
        page: str | None = None,
    ) -> access_contract.TokenList:
        """Access tokens, newest first, including invalid ones; never the secrets."""
        return await self._operate("list_tokens", locals())

    async def revoke_token(
        self,
        *,
        token_id: str,
        project: str | None = None,
        idempotency_key: str | None = None,
    ) -> access_contract.TokenRevoked:
        """Revoke an access token at once."""
        return await self._operate("revoke_token", locals())

    async def create_login(self) -> access_contract.Login:
        """A link that logs a browser in to the pages as you; works once, within a minute."""
        return await self._operate("create_login", locals())

    async def register_project(
        self,
        *,
        root: str | None = None,
        mirror: str | None = None,
        name: str | None = None,
        move: bool = False,
    ) -> projects_contract.ProjectView:
        """Register a folder as a project, or move one to it; or the URL of a repository; or a name alone."""
        return await self._operate("register_project", locals())

    async def list_projects(self) -> projects_contract.ProjectList:
        """All registered projects; with a token of one project, that one."""
        return await self._operate("list_projects", locals())

    async def remove_project(
        self,
        *,
        name: str,
    ) -> projects_contract.ProjectRemoved:
        """Forget a project's folder; its reviews stay."""
        return await self._operate("remove_project", locals())

    async def add_webhook(
        self,
        *,
        url: str,
        project: str | None = None,
        idempotency_key: str | None = None,
        events: list[str] | None = None,
        format: Literal["json", "slack"] = "json",
        allow_private: bool = False,
        proof: str | None = None,
    ) -> webhooks_contract.WebhookAdded:
        """Post events to a URL from now on. Takes the proof that a person decided it; its secret is shown once."""
        return await self._operate("add_webhook", locals())

    async def list_webhooks(self) -> webhooks_contract.WebhookList:
        """Webhooks, oldest first, with their waiting and failed deliveries counted; never the secrets."""
        return await self._operate("list_webhooks", locals())

    async def list_deliveries(
        self,
        *,
        webhook_id: str,
        limit: int = 50,
    ) -> webhooks_contract.DeliveryList:
        """Deliveries of a webhook: those that failed, those that wait, and the newest that arrived."""
        return await self._operate("list_deliveries", locals())

    async def remove_webhook(
        self,
        *,
        webhook_id: str,
        project: str | None = None,
        idempotency_key: str | None = None,
    ) -> webhooks_contract.WebhookRemoved:
        """Remove a webhook at once, with everything that waits to be delivered to it."""
        return await self._operate("remove_webhook", locals())

    async def test_webhook(
        self,
        *,
        webhook_id: str,
        project: str | None = None,
        idempotency_key: str | None = None,
    ) -> webhooks_contract.WebhookTested:
        """Post a `ping` to a webhook now, and tell what its receiver says. If it arrives, failed tries are repeated."""
        return await self._operate("test_webhook", locals())

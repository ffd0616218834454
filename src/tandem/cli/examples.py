"""Examples for the help of each generated command. A test runs every one through the parser."""

from __future__ import annotations

EXAMPLES: dict[str, tuple[str, ...]] = {
    "create_review": (
        "tandem review create --intent 'Retry uploads' --agent-type claude-code --diff @change.diff",
        "git diff HEAD | tandem review create --intent 'Retry uploads' --diff -",
        "tandem review create --intent 'Plan 03-02' --category plan_review --path PLAN.md --description @PLAN.md",
    ),
    "get_review_status": (
        "tandem review status rv_4k2m",
        "tandem review status rv_4k2m --wait --timeout 600",
    ),
    "get_proposal": (
        "tandem review proposal rv_4k2m",
        "tandem review proposal rv_4k2m --since-round 1",
        "tandem review proposal rv_4k2m --files src/upload.py --json",
    ),
    "list_reviews": (
        "tandem review list --status pending",
        "tandem review list --status pending --wait",
        "tandem review list --turn proposer --category code_change --json",
    ),
    "claim_review": (
        "tandem review claim --reviewer-id alice",
        "tandem review claim rv_4k2m --reviewer-id alice",
    ),
    "renew_claim": ("tandem review renew rv_4k2m --claim-generation 1",),
    "release_claim": ("tandem review release rv_4k2m --claim-generation 1 --reason 'Out of my depth'",),
    "submit_verdict": (
        "tandem review verdict rv_4k2m --verdict approved --reviewer-id alice",
        "tandem review verdict rv_4k2m --verdict changes_requested --reason @why.md --counter-patch @better.diff",
    ),
    "accept_counter_patch": ("tandem review accept rv_4k2m cp_91xw",),
    "reject_counter_patch": ("tandem review reject rv_4k2m cp_91xw --reason 'Breaks the retry limit'",),
    "add_message": (
        "tandem review message rv_4k2m --sender-role proposer --body 'The limit is in config.py'",
        "tandem review message rv_4k2m --sender-role reviewer --reviewer-id alice --body @question.md",
    ),
    "get_review": ("tandem review show rv_4k2m", "tandem review show rv_4k2m --round 1 --json"),
    "get_discussion": ("tandem review discussion rv_4k2m",),
    "retry_review": ("tandem review retry rv_4k2m",),
    "close_review": ("tandem review close rv_4k2m",),
    "get_review_timeline": ("tandem review timeline rv_4k2m",),
    "get_activity_feed": ("tandem review feed", "tandem review feed --wait --json"),
    "get_audit_log": ("tandem audit log", "tandem audit log --kind verdict_submitted --limit 20"),
    "get_review_stats": ("tandem review stats", "tandem review stats --since 2026-11-01"),
    "set_gate": (
        "tandem gate set --enabled --branches main --project webshop",
        "tandem gate set --no-enabled --reason 'Moving house' --project webshop",
    ),
    "get_gate": ("tandem gate show --project webshop", "tandem gate show --project webshop --plan 03-02 --json"),
    "override_gate": (
        "tandem gate record-override --changes @changes.json --reason 'The shop is down' --project webshop",
    ),
    "record_commit": ("tandem commit record --commit 5f3e… --branch feature --plan 03-02 --review-ids rv_4k2m",),
    "list_commits": (
        "tandem commit list --project webshop --plan 03-02",
        "tandem commit list --project webshop --json",
    ),
    "record_rollback": ("tandem commit rolled-back rv_4k2m --branch feature --head-before 5f3e… --head-after 9c1d…",),
    "list_projects": ("tandem project list",),
    "remove_project": ("tandem project remove webshop",),
    "list_reviewers": ("tandem reviewers list", "tandem reviewers list --project webshop --json"),
    "spawn_reviewer": ("tandem reviewers spawn",),
    "kill_reviewer": ("tandem reviewers kill codex-r1", "tandem reviewers kill codex-r1-k3f9q2 --force"),
    "pause_reviewers": ("tandem reviewers pause --reason 'The model is down'",),
    "resume_reviewers": ("tandem reviewers resume",),
    "supervisor_register": (
        "tandem supervisor register --secret 8f3c… --incarnation k3f9q2 --host my-host --provider custom",
    ),
    "supervisor_heartbeat": (
        "tandem supervisor heartbeat --secret 8f3c… --incarnation k3f9q2 --reviewers @reviewers.json --wait",
    ),
    "report_outcome": (
        "tandem supervisor outcome rv_4k2m --reviewer-id custom-r1-k3f9q2 --claim-generation 1 --outcome timeout",
    ),
    "cycle_start": (
        "tandem cycle start 'Login page'",
        "tandem cycle start 'Login page' --workflow writer-editor --json",
    ),
    "cycle_status": (
        "tandem cycle status",
        "tandem cycle status --wait",
        "tandem cycle status --wait --role codex --timeout 600",
    ),
    "lock_acquire": ("tandem lock acquire", "tandem lock acquire --session-token sess_… --json"),
    "handoff_write": (
        "tandem handoff write codex --payload @handoff.json",
        "make-handoff | tandem handoff write codex --payload -",
    ),
    "handoff_read": ("tandem handoff read codex", "tandem handoff read codex > handoff.json"),
    "cycle_complete": ("tandem cycle complete",),
    "cycle_archive": ("tandem cycle archive",),
    "session_close": ("tandem session close",),
    "cycle_revoke": ("tandem cycle revoke gemini",),
    "get_round_file": (
        "tandem review file rv_4k2m --path src/app.py",
        "tandem review file rv_4k2m --path src/app.py --side before --first-line 40 --last-line 60",
    ),
    "draft_counter_patch": (
        "tandem review draft rv_4k2m --text @plan.md",
        "tandem review draft rv_4k2m --edits @edits.json --json",
    ),
    "check_counter_patch": ("tandem review check rv_4k2m --counter-patch @better.diff",),
    "get_reviewer_log": ("tandem reviewers output --reviewer-id codex-r1-k3f9q2 --lines 50",),
    "get_project_settings": ("tandem project settings --project webshop",),
    "get_inbox": ("tandem inbox show --person rita", "tandem inbox show --person rita --project webshop --json"),
    "search_reviews": (
        "tandem review search --text 'login page' --status closed --sort newest",
        "tandem review search --path src/app.py --project webshop --json",
    ),
    "mark_viewed": ("tandem review mark rv_4k2m --round 1 --path src/app.py --viewed --person rita",),
    "list_viewed": ("tandem review viewed rv_4k2m --round 1 --person rita",),
    "list_tokens": ("tandem token list", "tandem token list --json"),
    "revoke_token": ("tandem token revoke tok_0123456789abcdefgh",),
    "create_login": ("tandem token login --json",),
    "list_cycles": ("tandem cycle list", "tandem cycle list --workflow writer-editor --json"),
}

"""Names of settings: those that few need, those that are gone, and which one a misspelt name was meant to be."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

ADVANCED: Final = frozenset(
    {
        "archive_dir",
        "body_limit_bytes",
        "check_disk_bytes",
        "checkpoint_interval_seconds",
        "fast_path",
        "git_timeout_seconds",
        "idempotency_ttl_seconds",
        "inflated_limit_bytes",
        "log_backups",
        "mirror_limit_bytes",
        "mirror_timeout_seconds",
        "page_limit",
        "reader_threads",
        "review_deadline_seconds",
        "secret_key_file",
        "session_idle_seconds",
        "sweep_interval_seconds",
        "text_limit_bytes",
        "wait_max_seconds",
    }
)
"""Settings of the broker that few need; lists show them last, or only when asked."""

ADVANCED_OF_POOLS: Final = frozenset(
    {
        "background_check_interval_seconds",
        "checks_wait_seconds",
        "drain_seconds",
        "grace_seconds",
        "log_backups",
        "log_max_bytes",
        "max_ttl_seconds",
        "min_pool_size",
        "output_bytes",
        "retry_delay_seconds",
        "scaling_ratio",
        "silence_seconds",
        "spawn_cooldown_seconds",
        "start_seconds",
    }
)
"""The same of `[reviewer_pool]`."""

VARIABLES: Final = frozenset(
    {
        "agent",
        "broker",
        "browser",  # of the tests
        "checks",
        "config_dir",
        "lock_token",
        "override",
        "phase",
        "plan",
        "psk",
        "psk_file",
        "review_effort",
        "review_mcp_url",
        "review_model",
        "review_schema",
        "reviewer",
        "role",
        "run",
        "session_token",
        "setup",
        "supervisor",
        "task",
        "token",
    }
)
"""Variables, in lower case and without their prefix, that are no settings."""

REMOVED: Final = frozenset({"log_max_bytes", "validation_concurrency", "wait_seconds"})
"""Settings of the broker that earlier versions had."""


def unknown(key: str, known: Collection[str]) -> str:
    """Why a name is no setting, as the end of a sentence that says where it stands.

    Args:
        key: The name.
        known: The settings that there are.
    """
    if key in REMOVED:
        return f"'{key}' is no longer a setting. Delete the line."
    near = difflib.get_close_matches(key, known, 2)
    meant = f" Did you mean {' or '.join(map(repr, near))}?" if near else f" There are: {', '.join(sorted(known))}."
    return f"there is no setting '{key}'.{meant}"

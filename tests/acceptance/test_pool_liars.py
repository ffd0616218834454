"""A supervisor that lies: nothing that it says changes another's pool, reviewers or claims."""

from __future__ import annotations

import secrets
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.acceptance.pooling import started
from tests.acceptance.reviewing import Desk

COUNTS = st.one_of(st.none(), st.sampled_from([0, 1, 2**31, 2**53, 2**63, -1]))
SECRETS = st.sampled_from(["THE-ID", "0" * 32, secrets.token_hex(32), "", "x"])
"""Its own, and all that can be known of another's: the id."""


def reports(names: list[str]) -> st.SearchStrategy[list[dict[str, Any]]]:
    one = st.fixed_dictionaries(
        {
            "reviewer_id": st.sampled_from([*names, "unknown-r1-aaaaaa", "../x"]),
            "state": st.sampled_from(["running", "ended"]),
            "pid": COUNTS,
            "started_us": COUNTS,
            "exit_code": COUNTS,
            "quick": st.booleans(),
            "wanted": st.sampled_from([None, "run", "drain", "kill"]),
        }
    )
    return st.lists(one, max_size=3)


def test_a_lying_supervisor_changes_nothing_of_another(shop: Desk) -> None:
    honest = started(shop)
    review = shop.put_up()
    reviewer = honest.one()
    shop.claim(review, reviewer)
    before = (
        honest.seen(reviewer),
        shop.status(review)["claim_generation"],
        len(honest.log(f"pool:{honest.supervisor_id}")),
    )

    @settings(max_examples=15)
    @given(SECRETS, st.data(), st.booleans(), st.booleans())
    def lies(secret: str, data: st.DataObject, registers: bool, closing: bool) -> None:
        claimed = {"secret": honest.supervisor_id if secret == "THE-ID" else secret, "incarnation": honest.incarnation}
        if registers:
            about = {"host": "a-host", "provider": "codex", "projects": [shop.project], "rules": {"max_pool_size": 1}}
            answer = shop.envelope_unscoped("supervisor_register", **claimed, **about)
            assert answer["ok"] or answer["error"]["code"] == "INVALID_INPUT"
        told = data.draw(reports([reviewer]))
        answer = shop.envelope_unscoped("supervisor_heartbeat", **claimed, reviewers=told, closing=closing)
        if answer["ok"]:
            assert reviewer not in [one["reviewer_id"] for one in answer["data"]["reviewers"]]
        else:
            assert answer["error"]["code"] in {"INVALID_INPUT", "INVALID_SESSION"}

    lies()
    after = (
        honest.seen(reviewer),
        shop.status(review)["claim_generation"],
        len(honest.log(f"pool:{honest.supervisor_id}")),
    )
    assert after == before
    assert honest.pool()["state"] == "running"
    assert [one["reviewer_id"] for one in honest.beat()["reviewers"]] == [reviewer]

"""A reason of which nothing can be seen is none: refused where one is required, left out where it may be."""

from __future__ import annotations

from pathlib import Path

from tandem.core.visible import is_blank
from tests.acceptance.reviewing import Desk
from tests.commandline import ShellInside

UNSEEN = {
    "spaces": " \t\n\u00a0\u3000\u2028",
    "zero width": "\u200b\u200c\u200d\ufeff\u2060",
    "variation selectors": "\ufe00\ufe0e\ufe0f\U000e0100",
    "directions": "\u202e\u2066\u2069\u200f\u061c",
    "marks on nothing": "\u0301\u20dd\u0903",
    "braille blank": "\u2800\u2800",
    "hangul fillers": "\u3164\u115f\u1160\uffa0",
    "tags": "\U000e0041\U000e007f",
    "controls": "\x1b\x07\u0085",
    "hieroglyph blanks": "\U00013441\U00013442",
    "unassigned and private": "\u0378\ue000",
}
SEEN = ("x", ".", "é", "e\u0301", "\u0915\u093f", "👍🏽", "👩\u200d💻", "\u200bno\u200b", "否", "#\ufe0f\u20e3")


def test_it_is_blank() -> None:
    assert [name for name, text in UNSEEN.items() if not is_blank(text)] == []
    assert [name for name, text in UNSEEN.items() if is_blank(f"{text}no{text}")] == []


def test_what_can_be_seen_is_not() -> None:
    assert [text for text in SEEN if is_blank(text)] == []
    assert is_blank("")


def test_a_verdict_and_a_withdrawal_are_refused_without_a_reason_that_can_be_seen(shop: Desk) -> None:
    review = shop.put_up()
    claim = {"review_id": review, "claim_generation": shop.claim(review, "rita")}
    for text in UNSEEN.values():
        for verdict in ("rejected", "changes_requested"):
            shop.refused("REASON_REQUIRED", "submit_verdict", **claim, verdict=verdict, reason=text)
        shop.refused("INVALID_INPUT", "add_message", review_id=review, sender_role="reviewer", body=text)
    shop.do("submit_verdict", **claim, verdict="approved", reason="".join(UNSEEN.values()))
    assert shop.status(review)["verdict_reason"] is None
    for text in UNSEEN.values():
        shop.refused("REASON_REQUIRED", "withdraw_approval", review_id=review, reason=text)


def test_so_is_an_override(shop: Desk) -> None:
    override = {"changes": [{"path": "a.txt"}], "override_id": "ov_0123456789abcdef"}
    for text in UNSEEN.values():
        shop.refused("INVALID_INPUT", "override_gate", **override, reason=text)


def test_where_a_reason_may_be_left_out_it_is(shop: Desk) -> None:
    review = shop.put_up()
    shop.do("close_review", review_id=review, reason=UNSEEN["zero width"])
    assert shop.events(review)[-1]["data"]["reason"] is None


def test_commands_refuse_it_too(shop: Desk, tmp_path: Path) -> None:
    unseen = UNSEEN["zero width"]
    shell = ShellInside(shop.url, tmp_path)
    review = shop.put_up()
    refused = shell.run("review", "reject", review, "--reason", unseen, "--agent", "rita", "--json")
    assert (refused.status, refused.envelope["error"]["code"]) == (1, "REASON_REQUIRED")
    refused = shell.run("gate", "override", "-m", unseen)
    assert (refused.status, "Say why; it is recorded." in refused.stderr) == (1, True)

"""What programs say when their provider takes no more requests, and the wait that they name."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from tandem.pool.reviewers import EndedBy, Finished
from tandem.pool.reviewers.outcomes import quota_in

NOW = datetime(2026, 11, 26, 20, 0, tzinfo=ZoneInfo("Europe/Berlin"))
EPOCH = round(NOW.timestamp())

ERRORS = {
    "You've hit your usage limit. Upgrade to Pro or try again in 2 days 17 hours 14 minutes.": 234_840,
    "You've hit your usage limit. Try again at 9:15 PM.": 4500,
    "You've hit your usage limit. Try again at Nov 28th, 2026 8:00 PM.": 172_800,
    "exceeded retry limit, last status: 429 Too Many Requests": 0,
    "Rate limit reached for gpt-5 on tokens per min. Please try again in 6.5s.": 6.5,
    "Rate limit reached for gpt-5. Please try again in 1h2m3s.": 3723,
    'unexpected status 429: {"error":{"type":"usage_limit_reached","resets_in_seconds":13872}}': 13_872,
    f'{{"type":"usage_limit_reached","resets_at":{EPOCH + 60}}}': 60,
    "Quota exceeded. Check your plan and billing details.": 0,
    f"Claude AI usage limit reached|{EPOCH + 3600}": 3600,
    f"You've hit your session limit · resets 11pm (Asia/Tokyo) (resets at {EPOCH + 90})": 90,
    "You've hit your session limit · resets 8:30pm (Europe/Berlin)": 1800,
    "You've hit your limit · resets 3pm (America/New_York)": 3600,
    "You've hit your limit · resets Nov 27, 8pm (Europe/Berlin)": 86_400,
    "5-hour limit reached ∙ resets 11pm": 10_800,
    'API Error: 400 {"error":{"message":"You have reached your specified API usage limits. Regain it later"}}': 0,
    "You've reached your usage limit. Upgrade to go on.": 0,
    "This request would exceed your account's rate limit. Please try again later.": 0,
    "Requests to the ChatCompletions_Create operation have exceeded token rate limit of your current tier.": 0,
    "The usage limit has been reached": 0,
    "✕ [API Error: You have exhausted your capacity on this model.]": 0,
    'API Error: 429 {"type":"error","error":{"type":"rate_limit_error","message":"would exceed your rate limit"}}': 0,
    "You have exhausted your capacity on this model. Your quota will reset after 2h30m5s.": 9005,
    '{"error":{"code":429,"message":"{\\"status\\": \\"RESOURCE_EXHAUSTED\\", \\"retryDelay\\": \\"34s\\"}"}}': 34,
    "Resource has been exhausted (e.g. check quota).": 0,
    "Too many requests, retry after 20 (status 429)": 20,
    "HTTP 429, retry-after: 120": 120,
    "rate limited; Retry-After: Thu, 26 Nov 2026 19:10:00 GMT": 600,
    "usage limit reached, resets at 2026-11-26T19:30:00Z": 1800,
    # It is over already: the clock of the provider and ours differ.
    "You've hit your session limit · resets 7:59pm (Europe/Berlin)": 0,
    "You've hit your limit · resets 3pm (No/Such_Zone)": 0,
    "429. try again in 2 hours": 7200,
    "429: Bitte in 10 Minuten noch einmal": 0,
    # No message counts for more than a week.
    "usage limit reached, try again in 400 days": 604_800,
    "HTTP 429, retry-after: 31536000": 604_800,
    "HTTP 429, retry after 1e9 seconds": 604_800,
    "HTTP 429, retry after 1e3 s": 1000,
}
OTHERS = (
    "the model does not exist",
    "OSError: [Errno 122] Disk quota exceeded: '/tmp/x'",
    "    at run (file:///cli.js:429:10)",
    "unexpected status 401 Unauthorized",
    "The context limit is 200000 tokens",
    "429 passed, 1 failed",
    "You have exceeded the maximum context limit",
    "Error: you have reached the size limit of this file",
    "  ✕ client: rate limit exceeded, retry after 60s (12 ms)",
    # Output of a program of one's own on its work, on the change and on its tests.
    "rate_limit_429.txt: No such file or directory",
    "cat: quota_exceeded.json: No such file or directory",
    "FAILED tests/test_api.py::test_rate_limit_exceeded - assert 1 == 2",
    "tests/test_api.py::test_too_many_requests FAILED",
    "  ✗ rate limit exceeded is told",
    "+    raise Error('HTTP 429, retry-after: 900')",
    "> You've hit your usage limit.",
    "The change handles 429 Too Many Requests with retry-after: 604800.",
    "It waits when the rate limit is reached; the quota is kept.",
)
PLAIN = (
    "429 Too Many Requests\nretry after 300 seconds",
    "usage limit reached, try again in 6 days",
    "Rate limit exceeded.",
    '{"error":{"code":429,"message":"rate limit exceeded, quota"}}',
    '{\n  "type": "error",\n  "error": {\n    "message": "You have hit your usage limit. Try again in 3 h."\n  }\n}\n',
    '{"detail": "Too many requests"}',
)
PROSE = "The change handles 429 Too Many Requests with retry-after: 604800."


def ended(exit_code: int = 1, stderr: str = "", by: EndedBy = "itself", stdout: bytes = b"") -> Finished:
    return Finished(exit_code, stdout, stderr.encode(), by, 1.0, output_was_cut=False)


@pytest.mark.parametrize(("error", "seconds"), ERRORS.items(), ids=range(len(ERRORS)))
def test_what_a_program_says_of_its_own_failure_names_the_wait(error: str, seconds: float) -> None:
    quota = quota_in(ended(), error, None, NOW)
    assert quota is not None
    assert quota.seconds == pytest.approx(seconds, abs=1)
    # A program that ends in order says it just as well, and one without events on standard error.
    assert quota_in(ended(0), error, None, NOW) == quota
    complaint = quota_in(ended(stderr=f"begins\n{error}\n    at x\n"), None, None, NOW)
    assert complaint is not None
    assert complaint.seconds == pytest.approx(seconds, abs=1)


@pytest.mark.parametrize("error", OTHERS)
def test_other_failures_are_no_quota(error: str) -> None:
    assert quota_in(ended(), error, None, NOW) is None
    assert quota_in(ended(stderr=f"{error}\n"), None, None, NOW) is None
    assert quota_in(ended(stderr=f"429 Too Many Requests\n{error}\n"), error, None, NOW) is None


@pytest.mark.parametrize("text", PLAIN)
def test_a_program_that_fails_may_say_it_in_place_of_an_answer(text: str) -> None:
    # A model may have written it: then the wait that it names is one that a proposal can choose.
    quota = quota_in(ended(), None, text, NOW)
    assert quota is not None
    assert quota.seconds == 0
    # The program's own complaint counts first.
    quota = quota_in(ended(stderr="429, retry-after: 60"), None, text, NOW)
    assert quota is not None
    assert quota.seconds == 60


@pytest.mark.parametrize("text", [*PLAIN, PROSE])
def test_a_program_that_ends_in_order_says_nothing_of_a_quota_in_what_a_model_writes(text: str) -> None:
    assert quota_in(ended(0), None, text, NOW) is None
    # Nor one that was ended in the middle of it.
    assert quota_in(ended(-15, by="timeout"), None, text, NOW) is None


def test_an_answer_that_is_about_quotas_is_none() -> None:
    for text in ('{"reason": "429 is not retried"}', '```json\n{"reason": "rate limit"}\n```', "429 " * 200):
        assert quota_in(ended(0), None, text, NOW) is None
    # Nor one of a program that failed after it, whole or cut.
    for text in ('{"verdict": "rejected", "reason": "429: is not retried"}', '{"error": "429", "reason": "429", "verd'):
        assert quota_in(ended(), None, text, NOW) is None
    # Nor is a complaint on the way to an answer.
    assert quota_in(ended(0, "429 Too Many Requests"), None, "I have read it all.", NOW) is None


def test_a_program_that_was_ended_while_it_tried_again_says_it() -> None:
    trace = "".join(f"    at async call{number} (file:///cli.js:{number})\n" for number in range(10))
    told = f'_ApiError: {{"code":429,"message":"Please try again in 7m0s."}}\n{trace}  status: 429\n}}\n'
    quota = quota_in(ended(-15, told, "timeout"), None, None, NOW)
    assert quota is not None
    assert (quota.seconds, "try again in 7m0s" in quota.said) == (420, True)
    said = "Attempt 3 failed with status 429. Retrying with backoff..."
    for by in ("timeout", "silence"):
        assert quota_in(ended(-15, said, by), None, None, NOW) is not None
    assert quota_in(ended(-15, said, "cancelled"), None, None, NOW) is None


def test_a_time_of_day_without_a_zone_is_this_machines() -> None:
    quota = quota_in(ended(), "limit reached, quota resets 21:00", None, NOW.astimezone(UTC))
    assert quota is not None
    assert quota.seconds == pytest.approx(2 * 3600)

"""Every error is documented, with a code of its own."""

from __future__ import annotations

from tandem import errors


def error_types() -> list[type[errors.TandemError]]:
    found: list[type[errors.TandemError]] = []
    pending = [errors.TandemError]
    while pending:
        for kind in pending.pop().__subclasses__():
            found.append(kind)
            pending.append(kind)
    return [kind for kind in found if kind.__module__ == errors.__name__]


def test_every_error_is_in_the_drawing_with_its_code_and_status() -> None:
    lines = (errors.__doc__ or "").splitlines()
    drawn = {(name, status, code) for name, status, code in (facts(line) for line in lines)}
    missing = [kind.__name__ for kind in error_types() if (kind.__name__, str(kind.status), kind.code) not in drawn]
    assert missing == []


def facts(line: str) -> tuple[str, str, str]:
    """`├── StaleClaim  409 STALE_CLAIM (…)`."""
    words = line.strip(" │├└─").split()
    return (words[0], words[1], words[2]) if len(words) > 2 else ("", "", "")


def test_no_two_errors_share_a_code() -> None:
    codes = [kind.code for kind in error_types()]
    assert sorted(codes) == sorted(set(codes))

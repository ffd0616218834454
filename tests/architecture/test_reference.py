"""The reference pages say what the declarations do, and nothing of the contract goes without words."""

from __future__ import annotations

from typing import ClassVar

import pytest

import reference
from reference_parts import Undocumented
from tandem import errors
from tandem.contract.operation import READ, Operation, Role
from tandem.contract.request import Refusals, Request


class Empty(Request):
    """A request without fields."""

    refusals: ClassVar[Refusals] = ()


class Unrefused(Request):
    """A request that does not declare its refusals."""


class Silent(Request):
    """A request whose field has no description."""

    unheard_of: int = 0


def operation(name: str, request: type[Request], answer: type[Request] = Silent) -> Operation:
    return Operation(name, "review", "quiet", request, answer, frozenset({Role.ADMIN}), READ)


def test_an_error_without_words_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(errors.StaleClaim, "__doc__", "The claim is over.")
    assert reference.main(["--check"]) == 1
    assert "STALE_CLAIM has no description" in capsys.readouterr().err


def test_a_field_or_an_operation_without_words_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "REGISTRY", (operation("list_projects", Silent),))
    with pytest.raises(Undocumented, match=r"Silent\.unheard_of"):
        reference.operations()
    monkeypatch.setattr(reference, "REGISTRY", (operation("unknown", Empty, Empty),))
    reference.operations()
    monkeypatch.setattr(Empty, "__doc__", None)
    with pytest.raises(Undocumented, match="unknown"):
        reference.operations()
    monkeypatch.setattr(reference, "REGISTRY", (operation("unrefused", Unrefused, Empty),))
    with pytest.raises(Undocumented, match="unrefused"):
        reference.operations()

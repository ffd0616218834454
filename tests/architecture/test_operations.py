"""Every operation is done by one service function, which takes its request and returns its answer."""

from __future__ import annotations

import inspect
from typing import get_origin, get_type_hints

from tandem.access.tokens import AccessContext
from tandem.contract.caller import Caller
from tandem.projects.registry import ProjectContext
from tandem.reviews.context import Services
from tandem.server.catalogue import REGISTRY
from tandem.server.handlers import HANDLERS, MODULES
from tandem.store.context import Context

GIVEN = {Services, ProjectContext, AccessContext, Context}
"""Parameters that the composition root fills in, and their base types for packages below reviews."""


def test_an_operation_has_one_function_from_its_request_to_its_answer() -> None:
    for operation in REGISTRY:
        assert sum(hasattr(module, operation.name) for module in MODULES) == 1, f"{operation.name}: two have it"
        function = HANDLERS[operation.name]
        types = list(get_type_hints(function).items())
        given, *asked = (kind for _, kind in types[:3])
        assert given in GIVEN
        assert asked == [Caller, operation.request]
        named = [name.lstrip("_") for name in inspect.signature(function).parameters]
        assert named == ["services", "caller", "request"]
        name, answer = types[3]
        assert (name, get_origin(answer) or answer) == ("return", operation.answer)

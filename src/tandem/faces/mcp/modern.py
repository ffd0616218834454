"""The SDK's own checks of a call of revision 2026-07-28: half of the SDK, imported before the rest."""

from __future__ import annotations

from typing import Any

from mcp.shared.inbound import InboundLadderRejection, classify_inbound_request
from mcp_types import methods
from pydantic import ValidationError


def passes_modern_checks(message: dict[str, Any], headers: dict[str, str]) -> bool:
    """Whether the SDK accepts a `tools/call` of revision 2026-07-28, envelope, headers and parameters."""
    verdict = classify_inbound_request(message, headers=headers)
    if isinstance(verdict, InboundLadderRejection):
        return False
    try:
        methods.validate_client_request("tools/call", verdict.protocol_version, message["params"])
    except ValidationError:
        return False
    return True

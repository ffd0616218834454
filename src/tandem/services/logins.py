"""Logins of browsers: an address that works once."""

from __future__ import annotations

from tandem.domain.access import REVIEWER_PREFIX, Access
from tandem.domain.access_answers import Login
from tandem.errors import Forbidden
from tandem.services.access import LOGIN_SECONDS
from tandem.services.context import Services

PATH = "/login"


def create(services: Services, access: Access | None) -> Login:
    """Where a browser logs in as somebody; on a trusted broker just where the pages are.

    Raises:
        Forbidden: It is a pool's reviewer, who has nothing to do in a browser.
    """
    if access is None:
        return Login("/", 0)
    if access.id.startswith(REVIEWER_PREFIX):
        raise Forbidden("A pool's reviewer has no pages to log in to; call the operations that it needs.")
    return Login(f"{PATH}?code={services.gatekeeper.login_code(access)}", LOGIN_SECONDS)

"""The operations that pages are made of: the inbox, the search, and the marks on files. No tools of agents."""

from __future__ import annotations

from tandem.contract.operation import OPERATOR, READ, Operation
from tandem.domain import inbox_answers as answers
from tandem.operations import inbox_requests as ask

OPERATIONS = (Operation("get_inbox", "inbox", "show", ask.GetInbox, answers.Inbox, OPERATOR, READ, listed=False),)

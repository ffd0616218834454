"""A review to take away: as Markdown, as a patch, and as a page that needs nothing else.

All are made from what `get_proposal`, `get_discussion` and `get_review_timeline` answer.
"""

from __future__ import annotations

from tandem.faces.web.exports.document import markdown
from tandem.faces.web.exports.page import page
from tandem.faces.web.exports.patch import file_name, patch

__all__ = ["file_name", "markdown", "page", "patch"]

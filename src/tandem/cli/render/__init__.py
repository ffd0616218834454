"""Answers as people want to read them: tables for lists, panels for proposals."""

from __future__ import annotations

from tandem.cli.render import access, cycles, files, gates, inbox, records, reviewers
from tandem.cli.render.answers import render

__all__ = ["access", "cycles", "files", "gates", "inbox", "records", "render", "reviewers"]

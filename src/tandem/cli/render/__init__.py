"""Answers as people want to read them: tables for lists, panels for proposals."""

from __future__ import annotations

from tandem.cli.render import cycles, records
from tandem.cli.render.answers import render

__all__ = ["cycles", "records", "render"]

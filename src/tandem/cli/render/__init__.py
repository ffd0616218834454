"""Answers as people want to read them: tables for lists, panels for proposals."""

from __future__ import annotations

from tandem.cli.render import cycles
from tandem.cli.render.answers import render

__all__ = ["cycles", "render"]

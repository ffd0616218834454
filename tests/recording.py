"""The arguments of every `tandem` that this process of tests has started or run."""

from __future__ import annotations

executed: list[tuple[str, ...]] = []

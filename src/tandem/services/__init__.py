"""Use cases: one short function each, which owns its transaction."""

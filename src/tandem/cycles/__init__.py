"""Cycles: sessions, the lock and typed hand-offs between two agents."""

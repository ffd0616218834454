"""What hooks, gate, setup, GSD, settings and commands share: the gate's switch, trust, and what a commit may be.

Imports the standard library, `bridge`, `git` and `core` only, as every commit waits for what is imported here.
"""

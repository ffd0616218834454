"""Shared by hooks, gate, setup, GSD, settings and commands: the gate's switch, trust, and the rules for commits.

Imports the standard library, `bridge`, `git` and `core` only, as every commit waits for these imports.
"""

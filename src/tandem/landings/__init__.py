"""Landings: which branch goes to a base branch next, one at a time for each."""

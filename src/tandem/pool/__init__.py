"""Reviewer pools: what is wanted of them, what they did, and the reviewers themselves."""

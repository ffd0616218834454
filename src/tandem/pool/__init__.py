"""Reviewer pools: their orders, their history, and the reviewers themselves."""

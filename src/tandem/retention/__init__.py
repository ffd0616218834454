"""Retention: what was closed so many days ago loses its contents, and the log stays verifiable."""

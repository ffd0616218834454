"""The state held against the log."""

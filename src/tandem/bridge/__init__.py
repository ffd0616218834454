"""The stdio bridge, and the small HTTP client that hooks share with it.

Runs once per agent start, so: standard library only, nothing of the broker, quick to import.
"""

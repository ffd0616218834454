"""What git and agents call: hooks that ask the broker before a commit is made.

Each starts a process that somebody waits for, so: standard library and the bridge only, quick to import.
"""

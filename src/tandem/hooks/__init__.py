"""What git and agents' clients start, and only what these hooks need; what others share with them is in `rulings`.

Each starts a process that somebody waits for, so: standard library and our own small modules only, quick to import.
"""

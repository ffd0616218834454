"""GSD, the npm package `get-shit-done-cc`: its settings, pointers in its installed files, its steps, and rollback."""

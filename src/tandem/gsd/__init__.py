"""GSD, the npm package `get-shit-done-cc`: its settings, pointers in what it installed, its steps, and rollback."""

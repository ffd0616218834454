"""GSD, the npm package `get-shit-done-cc`: its settings, its agents' skills, and pointers in what it installed."""

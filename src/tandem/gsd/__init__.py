"""GSD's overlay, steps, settings and rollback."""

"""What every other package may stand on, hooks and bridge included: imports the standard library only."""

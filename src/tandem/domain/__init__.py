"""Pure: records, tables of transitions, decisions. No I/O, no framework."""

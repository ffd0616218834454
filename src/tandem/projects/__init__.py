"""The folders that a broker works for."""

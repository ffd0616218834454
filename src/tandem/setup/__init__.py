"""Tandem in a repository and in the agents' clients: what is installed there, undone, and found to be wrong."""

"""Tandem in a repository and in the agents' clients: what is installed there, taken back, and found to be wrong."""

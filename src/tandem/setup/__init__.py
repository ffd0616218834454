"""Tandem in a repository and in the agents' clients: what is installed there, and the steps of a workflow."""

"""Tandem in a repository and in the agents' clients: installs it there, removes it, and diagnoses faults."""

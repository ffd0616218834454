"""Copies of the whole database: backups, and moves from one kind of database to the other."""

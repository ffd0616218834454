"""Tandem: a local broker by which coding agents and people review each other's changes."""

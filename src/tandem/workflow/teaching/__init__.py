"""What agents are taught: a skill, two commands and a block of instructions, in each client's own form and place.

The texts stand in `texts/` once. `files` and `block` give them as each client takes them, `hooks` what its hook
configuration has to hold; the plugins in the repository are the same again (see `tools/plugins.py`).
"""

from __future__ import annotations

from tandem.workflow.teaching.client_files import BLOCK_FILES, CLIENTS, Client, TeachingFile, block, files
from tandem.workflow.teaching.client_hooks import HookEntry, hooks, notes

__all__ = ["BLOCK_FILES", "CLIENTS", "Client", "HookEntry", "TeachingFile", "block", "files", "hooks", "notes"]

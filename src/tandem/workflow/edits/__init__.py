"""Edits of other programs' files that merge, and that can be taken back to the byte.

An edit puts one thing of ours into a file: a member or items of JSON (with comments), a table of TOML, a marked
block of text, or a whole file. What was put where is kept in a manifest.

    manifest = Manifest.load(file, tree=root)
    planned = changes([JsonMember(root / ".mcp.json", ("mcpServers", "gsdreview"), {...})], manifest, owner="init")
    print(diff(planned))
    install(planned, manifest)
    install(removals(manifest, owner="init"), manifest)
"""

from __future__ import annotations

from tandem.workflow.edits.changes import Change, FileRecord, Manifest, changes, diff, edited, removals
from tandem.workflow.edits.edit import Edit, content_of, located, unusable
from tandem.workflow.edits.installing import install
from tandem.workflow.edits.json_edits import Document, JsonItems, JsonMember
from tandem.workflow.edits.text_edits import MarkedBlock, TomlTable, WholeFile

__all__ = [
    "Change",
    "Document",
    "Edit",
    "FileRecord",
    "JsonItems",
    "JsonMember",
    "Manifest",
    "MarkedBlock",
    "TomlTable",
    "WholeFile",
    "changes",
    "content_of",
    "diff",
    "edited",
    "install",
    "located",
    "removals",
    "unusable",
]

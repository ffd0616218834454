"""Edits of other programs' files that merge, and that can be taken back to the byte.

An edit puts one thing of ours into a file: a member or items of JSON (with comments), a table of TOML, a marked
block of text, or a whole file. It only ever inserts, so what it inserted can be cut out again, also after a
person has edited the file around it. What was inserted where is kept in a manifest.

    manifest = Manifest.load(file, tree=root)
    planned = changes([JsonMember(root / ".mcp.json", ("mcpServers", "gsdreview"), {...})], manifest, owner="init")
    print(diff(planned, root))
    install(planned, manifest)
    install(removals(manifest, owner="init"), manifest)
"""

from __future__ import annotations

from tandem.workflow.edits.blocks import MarkedBlock
from tandem.workflow.edits.changing import Change, changes, removals
from tandem.workflow.edits.differing import diff
from tandem.workflow.edits.edit import Edit, Note, Planned
from tandem.workflow.edits.installing import install
from tandem.workflow.edits.json_items import JsonItems
from tandem.workflow.edits.json_member import JsonMember
from tandem.workflow.edits.manifest import Manifest
from tandem.workflow.edits.toml_table import TomlTable
from tandem.workflow.edits.whole import WholeFile

__all__ = [
    "Change",
    "Edit",
    "JsonItems",
    "JsonMember",
    "Manifest",
    "MarkedBlock",
    "Note",
    "Planned",
    "TomlTable",
    "WholeFile",
    "changes",
    "diff",
    "install",
    "removals",
]

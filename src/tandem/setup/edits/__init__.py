"""Edits of other programs' files that merge, and that can be undone to the byte.

An edit puts one thing of ours into a file: a member or items of JSON (with comments), a table of TOML, a marked
block of text, or a whole file. A manifest records each edit and its file.

    manifest = Manifest.load(file, tree=root)
    planned = plan([JsonMember(root / ".mcp.json", ("mcpServers", "tandem"), {...})], manifest, owner="init")
    print(diff(planned.changes))
    undo = install(planned)
    install(plan([], manifest, owner="init"))
"""

"""Edits of files on the disk: odd files, links, several owners, and failures in the middle."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tandem.errors import ConfigInvalid
from tandem.setup.edits import Edit, diff, plan
from tandem.setup.edits.edit import MarkedBlock, TomlTable
from tandem.setup.edits.json_edits import JsonItems, JsonMember
from tests.commandline import git
from tests.repository.trees import SERVER, TABLE, Tree

ODD = {
    "a.json": b'// top\r\n{\r\n  "mcpServers": {\r\n    "a": {},\r\n  },\r\n}',
    "a.toml": b'\xef\xbb\xbfa = 1\r\n\r\n[t]\r\nb = """\r\n[x]\r\n"""\r\n',
    "a.md": b"# Title caf\xe9\r\n\r\ntext",
}
"""`test_edits_properties.py` has many more, each by itself."""


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_odd_files_come_back_and_a_second_run_touches_nothing(tree: Tree) -> None:
    paths = [tree.write(name, content) for name, content in ODD.items()]
    before, (of_json, of_toml, of_text) = tree.all(), paths
    edits: list[Edit] = [
        JsonMember(of_json, ("mcpServers", "tandem"), SERVER),
        JsonItems(of_json, ("permissions", "allow"), ("mcp__tandem__*",)),
        JsonItems(of_json, ("b",), ("x", {"y": 1})),
        TomlTable(of_toml, ("mcp_servers", "tandem"), TABLE),
        MarkedBlock(of_text, "review", "Do this."),
    ]
    tree.put(*edits)
    for path in paths:
        assert path.read_bytes() != ODD[path.name]
        assert b"\n" not in path.read_bytes().replace(b"\r\n", b"")
    after, times = tree.all(), tree.times()
    assert plan(edits, tree.manifest, owner="init").changes == ()
    tree.put(*edits)
    assert (tree.all(), tree.times()) == (after, times)
    tree.take()
    assert tree.all() == before
    assert not tree.file.parent.exists()


def test_everything_is_there_or_nothing(tree: Tree) -> None:
    tree.write(".mcp.json", b'{"mcpServers": {}}')
    tree.write("CLAUDE.md", b"# Mine")
    before = tree.all()
    tree.put(*tree.of_every_kind())
    assert {".claude/skills/x/SKILL.md", ".codex/config.toml", ".claude/settings.json"} <= tree.all().keys()
    tree.take()
    assert tree.all() == before


def test_the_diff_is_what_git_apply_makes_of_it(tree: Tree) -> None:
    tree.write(".mcp.json", b'{\r\n  "a": 1\r\n}')
    tree.write("CLAUDE.md", b"# caf\xe9\n\x0cpage")
    git(tree.root, "init", "--quiet")
    text = diff(plan(tree.of_every_kind(), tree.manifest, owner="init").changes)
    apply = ["git", "apply", "--whitespace=nowarn", "-"]
    subprocess.run(apply, cwd=tree.root, input=text.encode("utf-8", "surrogateescape"), check=True)
    applied = {name: content for name, content in tree.all().items() if not name.startswith(".git/")}
    for path in tree.root.rglob("*"):
        if path.is_file() and ".git/" not in path.as_posix():
            path.unlink()
    tree.write(".mcp.json", b'{\r\n  "a": 1\r\n}')
    tree.write("CLAUDE.md", b"# caf\xe9\n\x0cpage")
    tree.put(*tree.of_every_kind())
    assert {name: content for name, content in tree.all().items() if not name.startswith(".git/")} == applied


def test_what_a_person_edits_around_ours_stays(tree: Tree) -> None:
    settings = tree.write(".claude/settings.json", b'{\n  "model": "x"\n}\n')
    config = tree.write(".codex/config.toml", b'model = "x"\n')
    note = tree.write("CLAUDE.md", b"# Mine\n")
    tree.put(*tree.of_every_kind())
    settings.write_bytes(
        settings.read_bytes().replace(b'"x",', b'"y", // new').replace(b'"mcp1"', b'"mcp1",\n      "Bash"')
    )
    config.write_bytes(b"# top\n" + config.read_bytes() + b'\n[projects."/x"]\ntrust_level = "trusted"\n')
    note.write_bytes(note.read_bytes().replace(b"# Mine", b"# Ours") + b"\nMore.\n")
    tree.take()
    assert settings.read_bytes() == (
        b'{\n  "model": "y", // new\n  "permissions": {\n    "allow": [\n      "Bash"\n    ]\n  }\n}\n'
    )
    assert config.read_bytes() == b'# top\nmodel = "x"\n\n[projects."/x"]\ntrust_level = "trusted"\n'
    assert note.read_bytes() == b"# Ours\n\nMore.\n"


def test_a_file_of_ours_stays_once_a_person_wrote_in_it_and_goes_otherwise(tree: Tree) -> None:
    tree.put(*tree.of_every_kind())
    skill, settings = tree.root / ".claude/skills/x/SKILL.md", tree.root / ".claude/settings.json"
    skill.write_bytes(b"my own\n")
    settings.write_bytes(settings.read_bytes().replace(b"{\n", b'{\n  "mine": 1,\n', 1))
    remarks = tree.take()
    assert tree.all() == {
        ".claude": None,
        ".claude/settings.json": b'{\n  "mine": 1\n}\n',
        ".claude/skills": None,
        ".claude/skills/x": None,
        ".claude/skills/x/SKILL.md": b"my own\n",
    }
    assert [str(skill) in remark for remark in remarks] == [True]


def test_what_of_ours_was_changed_stays_and_that_is_said(tree: Tree) -> None:
    servers = tree.write(".mcp.json", b'{"mcpServers": {"other": {}}}')
    config = tree.write(".codex/config.toml", b'model = "x"\n')
    tree.put(*tree.of_every_kind())
    there = tree.all()
    servers.write_bytes(servers.read_bytes().replace(b': "tandem"', b': "/opt/tandem"'))
    added = b'\n[mcp_servers.tandem.tools.create_review]\napproval_mode = "approve"\n\n# mine\n[tui]\nx = 1\n'
    config.write_bytes(config.read_bytes() + added)
    changed = [servers.read_bytes(), config.read_bytes()]
    remarks = tree.take()
    assert [("tandem" in remark, "changed since, and stays" in remark) for remark in remarks] == [(True, True)] * 2
    assert [servers.read_bytes(), config.read_bytes()] == changed
    assert tree.all().keys() < there.keys()
    assert not tree.file.exists()


def test_a_newer_version_replaces_what_is_ours_and_still_comes_back(tree: Tree) -> None:
    tree.write("CLAUDE.md", b"# Mine\n")
    tree.write(".claude/settings.json", b"{}")
    before = tree.all()
    tree.put(*tree.of_every_kind("1"))
    note = tree.root / "CLAUDE.md"
    note.write_bytes(note.read_bytes() + b"below\n")
    tree.put(*tree.of_every_kind("2"))
    assert note.read_bytes().endswith(b"Text 2.\n<!-- tandem:review end -->\nbelow\n")
    assert b"mcp1" not in (tree.root / ".claude/settings.json").read_bytes()
    assert (tree.root / ".claude/skills/x/SKILL.md").read_bytes() == b"skill 2\n"
    tree.put(*tree.of_every_kind("2")[1:])
    assert ".mcp.json" not in tree.all()
    tree.take()
    assert tree.all() == {**before, "CLAUDE.md": b"# Mine\nbelow\n"}


def test_what_two_owners_want_stays_until_neither_does(tree: Tree) -> None:
    shared = tree.of_every_kind()
    other = JsonMember(tree.root / ".mcp.json", ("mcpServers", "other"), {})
    tree.put(*shared, owner="one")
    tree.put(*shared, other, owner="two")
    with_both = tree.all()
    tree.put(*shared, owner="one")
    assert tree.all() == with_both
    tree.take("one")
    assert tree.all() == with_both
    tree.put(*shared, owner="one")
    tree.take("two")
    assert b"other" not in (tree.root / ".mcp.json").read_bytes()
    tree.take("one")
    assert tree.all() == {}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (".mcp.json", b'{"mcpServers": {"tandem": {"url": 1}}}'),
        (".codex/config.toml", b'mcp_servers.tandem.url = "x"'),
        (".claude/skills/x/SKILL.md", b"theirs"),
    ],
)
def test_a_place_that_is_taken_is_left_alone_and_that_is_said(tree: Tree, name: str, content: bytes) -> None:
    path = tree.write(name, content)
    before = tree.all()
    remarks = tree.put(*tree.of_every_kind())
    assert [str(path) in remark and "left as it is" in remark for remark in remarks] == [True]
    assert path.read_bytes() == content
    tree.take()
    assert tree.all() == before


def test_what_was_there_already_is_not_ours_to_take(tree: Tree) -> None:
    tree.put(*tree.of_every_kind())
    content = tree.all()
    tree.file.unlink()
    assert tree.put(*tree.of_every_kind()) == []
    tree.take()
    assert tree.all() == content


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b'{"a": }', "line 1, column 7"),
        (b'{\n  "a": 1\n  "b": 2\n}', "line 3, column 3"),
        (b'{"a": 1', "line 1"),
        (b"{'a': 1}", "line 1, column 2"),
        (b'{"mcpServers": []}', "line 1, column 16"),
        (b'{\n"a": "\xff"}', "line 2"),
        (b"[" * 10_000, "line 1"),
        ("{}".encode("utf-16"), "UTF-8"),
        (b'[{"a": 1}]', "line 1"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place_and_nothing_changes(
    tree: Tree, content: bytes, place: str
) -> None:
    path = tree.write(".mcp.json", content)
    before = tree.all()
    with pytest.raises(ConfigInvalid) as refused:
        tree.put(*tree.of_every_kind())
    assert str(path) in refused.value.message
    assert place in refused.value.message
    assert tree.all() == before
    assert not tree.file.exists()


def test_toml_that_cannot_be_read_or_added_to_is_refused(tree: Tree) -> None:
    path = tree.write(".codex/config.toml", b"a = 1\nb = \n")
    with pytest.raises(ConfigInvalid, match="line 2, column 5"):
        tree.put(*tree.of_every_kind())
    path.write_bytes(b"mcp_servers = { a = {} }\n")
    with pytest.raises(ConfigInvalid, match=r"\[mcp_servers\.…\]"):
        tree.put(*tree.of_every_kind())
    assert path.read_bytes() == b"mcp_servers = { a = {} }\n"


def test_links_are_followed_inside_of_the_tree_only(tree: Tree) -> None:
    note = tree.write("AGENTS.md", b"# Mine\n")
    (tree.root / "CLAUDE.md").symlink_to("AGENTS.md")
    blocks = [MarkedBlock(tree.root / name, "review", "Do this.") for name in ("CLAUDE.md", "AGENTS.md")]
    tree.put(*blocks)
    assert note.read_bytes().count(b"tandem:review begin") == 1
    assert (tree.root / "CLAUDE.md").is_symlink()
    tree.take()
    assert note.read_bytes() == b"# Mine\n"
    outside = tree.root.parent / "outside.md"
    outside.write_bytes(b"theirs")
    for target in (outside, tree.root / "nowhere"):
        (tree.root / "CLAUDE.md").unlink()
        (tree.root / "CLAUDE.md").symlink_to(target)
        with pytest.raises(ConfigInvalid, match="is a link to"):
            tree.put(*blocks)
    assert outside.read_bytes() == b"theirs"
    assert note.read_bytes() == b"# Mine\n"


def test_a_folder_in_the_way_is_refused(tree: Tree) -> None:
    (tree.root / ".mcp.json").mkdir()
    with pytest.raises(ConfigInvalid, match="not a file"):
        tree.put(*tree.of_every_kind())
    (tree.root / ".mcp.json").rmdir()
    tree.write(".claude", b"a file")
    with pytest.raises(ConfigInvalid, match="not a folder"):
        tree.put(*tree.of_every_kind())
    assert tree.all() == {".claude": b"a file"}


def test_the_mode_of_a_file_stays(tree: Tree) -> None:
    path = tree.write(".mcp.json", b"{}")
    path.chmod(0o600)
    tree.put(*tree.of_every_kind())
    assert path.stat().st_mode & 0o777 == 0o600

"""A laid-out folder holds exactly one round, independent of the project's folder, its settings and earlier rounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tandem.errors import InvalidDiff, InvalidInput
from tandem.git.repository import Repository
from tandem.git.reviewed_tree import DoesNotMerge, ReviewedTree, RoundContent
from tests.git.sandbox import RAW, Sandbox

ODD = "odd \tname.txt"


class Place:
    """Where rounds of one repository are laid out."""

    def __init__(self, sandbox: Sandbox, folder: Path) -> None:
        folder.mkdir()
        self.sandbox = sandbox
        self.tree = folder / "tree"
        self.index = folder / "index"

    def lay_out(
        self,
        diff: str,
        base: str | None = None,
        tip: str | None = None,
        *,
        title: str = "Round 1 of rv_1",
        digest: str | None = None,
    ) -> ReviewedTree:
        with Repository(self.sandbox.root) as repository:
            valid = repository.validate_diff(diff, base)
            content = RoundContent(str(valid.base_commit), digest or valid.digest, valid.content)
            tree = repository.lay_out(content, self.tree, title, self.index, tip=tip)
        if tip is None:
            self.ensure(tree, str(valid.digest))
        return tree

    def ensure(self, tree: ReviewedTree, digest: str) -> None:
        """Check that the folder holds the commit, to the byte, and that the commit is the proposed change."""
        there = Sandbox(tree.folder)
        assert there.head() == tree.commit
        raw = there.run("diff-tree", "-r", *RAW[:-1], f"{tree.commit}^", tree.commit).stdout
        assert there.commit_digest(f"{tree.commit}^", tree.commit) == digest, raw
        assert self.held() == self.stored(tree.commit)

    def held(self) -> dict[str, bytes]:
        """The files of the folder."""
        files = (path for path in self.tree.rglob("*") if ".git" not in path.relative_to(self.tree).parts[:1])
        return {str(path.relative_to(self.tree)): path.read_bytes() for path in files if path.is_file()}

    def stored(self, commit: str) -> dict[str, bytes]:
        """The same of a commit, asked of git without the folder."""
        there = Sandbox(self.tree)
        names = there.run("ls-tree", "-r", "-z", "--name-only", commit).stdout.decode().split("\0")[:-1]
        return {name: there.run("cat-file", "blob", f"{commit}:{name}").stdout for name in names}


@pytest.fixture
def place(sandbox: Sandbox, tmp_path: Path) -> Place:
    sandbox.write("a.txt", "one\ntwo\n")
    sandbox.write("src/b.py", "b = 1\n", executable=True)
    sandbox.write(ODD, "odd\r\n")
    sandbox.commit("the base")
    return Place(sandbox, tmp_path / "place")


def changed(sandbox: Sandbox, **files: str) -> str:
    """A diff that gives files of the base other contents; the working tree is as before."""
    for name, text in files.items():
        sandbox.write(name.replace("_", "."), text)
    sandbox.git("add", "--all", "--intent-to-add")
    diff = sandbox.diff()
    sandbox.git("reset", "--quiet", "--hard")
    sandbox.git("clean", "-qfd")
    return diff


def test_head_is_the_change_as_one_commit_with_the_projects_history(place: Place) -> None:
    base = place.sandbox.head()
    tree = place.lay_out(changed(place.sandbox, a_txt="one\n2\n", new_txt="new\n"))
    there = Sandbox(tree.folder)
    assert (tree.base, there.git("rev-parse", "HEAD^").strip()) == (base, base)
    assert there.git("log", "--format=%s").split("\n")[:2] == ["Round 1 of rv_1", "the base"]
    assert "+2" in there.git("show", "HEAD")
    assert there.git("blame", "-s", "a.txt").split("\n")[1].startswith(tree.commit[:8])
    assert "src/b.py" in there.git("grep", "-l", "b = 1")
    assert there.git("status", "--porcelain", "--ignored") == ""


def test_what_the_projects_folder_is_like_makes_no_difference(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = place.sandbox
    wrong = "sh -c 'touch RAN; echo wrong'"
    sandbox.write(".gitattributes", "* text eol=crlf filter=bad diff=bad ident working-tree-encoding=UTF-16\n")
    sandbox.write(".gitignore", "secret.env\n")
    diff = changed(sandbox, a_txt="one\n$Id$\nré\n")
    for name in ("filter.bad.smudge", "filter.bad.clean", "diff.bad.textconv", "core.fsmonitor", "core.sshCommand"):
        sandbox.git("config", name, wrong)
    hooks = sandbox.root / ".git" / "hooks"
    for name in ("post-checkout", "post-index-change", "reference-transaction", "post-commit", "pre-commit"):
        hook = hooks / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {place.tree.parent}/RAN\n")
        hook.chmod(0o755)
    home = place.tree.parent / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(
        '[core]\n\tautocrlf = true\n\thooksPath = hooks\n[filter "bad"]\n\tsmudge = false\n'
    )
    monkeypatch.setenv("HOME", str(home))
    # Behind, dirty, with secrets, and in the middle of a merge that has conflicts.
    base = sandbox.head()
    sandbox.run("-c", "core.hooksPath=none", "switch", "--quiet", "--create", "side", check=True)
    sandbox.write("secret.env", "PASSWORD=1\n")
    sandbox.write("a.txt", "mine\n")
    (sandbox.root / ".git" / "MERGE_HEAD").write_text(f"{base}\n")
    before = sandbox.fingerprint()
    tree = place.lay_out(diff, base)
    assert (place.tree / "a.txt").read_bytes() == "one\n$Id$\nré\n".encode()
    assert sandbox.fingerprint() == before
    assert not [*place.tree.parent.rglob("RAN"), *sandbox.root.rglob("RAN")]
    assert not (place.tree / "secret.env").exists()
    assert sorted(path.name for path in (place.tree / ".git").iterdir()) == [
        "HEAD", "config", "index", "info", "objects", "refs",
    ]  # fmt: skip
    assert Sandbox(tree.folder).git("status", "--porcelain") == ""


def test_the_next_round_finds_nothing_of_what_was_done_in_the_folder(place: Place, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "b.py").write_text("mine\n")
    place.lay_out(changed(place.sandbox, a_txt="first\n"))
    for number in range(3):
        tree = place.tree
        (tree / "a.txt").write_text("tampered\n")
        (tree / "left.txt").write_text("left\n")
        (tree / "inner").mkdir()
        Sandbox(tree / "inner").commit()
        (tree / "src" / "b.py").unlink()
        (tree / "src").rmdir()
        (tree / "src").symlink_to(outside)
        # An index that swears that nothing has changed, a setting that runs a program, a hook.
        Sandbox(tree).git("update-index", "--assume-unchanged", "a.txt")
        Sandbox(tree).git("config", "core.fsmonitor", f"touch {outside}/ran")
        (tree / ".git" / "info" / "attributes").write_text("* filter=bad\n")
        (tree / ".git" / "shallow").write_text("nonsense\n")
        place.lay_out(changed(place.sandbox, a_txt=f"round {number}\n"))
        assert [path.name for path in outside.iterdir()] == ["b.py"]
        assert (outside / "b.py").read_text() == "mine\n"
    (place.tree / "a.txt").unlink()
    (place.tree / "a.txt").mkdir()
    (place.tree / "a.txt" / "full").write_text("left\n")
    (place.tree / "a.txt").chmod(0)
    place.index.write_bytes(b"no index")
    place.lay_out(changed(place.sandbox, a_txt="again\n"))
    place.tree.rename(tmp_path / "moved")
    place.tree.symlink_to(outside)
    place.lay_out(changed(place.sandbox, a_txt="last\n"))
    assert not place.tree.is_symlink()
    assert (outside / "b.py").read_text() == "mine\n"


def test_every_kind_of_change_is_laid_out(any_format: Sandbox, tmp_path: Path) -> None:
    sandbox = any_format
    sandbox.write("gone.txt", "gone\n")
    sandbox.write("moved.txt", "to be moved\n" * 5)
    sandbox.write("mode.sh", "run\n")
    sandbox.write("binary", bytes(range(256)))
    sandbox.write("becomes", "a folder\n")
    sandbox.write("was/a/folder", "a file\n")
    (sandbox.root / "link").symlink_to("gone.txt")
    base = sandbox.commit("the base")
    for name in ("gone.txt", "link", "becomes", "was/a/folder"):
        (sandbox.root / name).unlink()
    sandbox.write(f"becomes/{ODD}", "a file\n")
    (sandbox.root / "was" / "a").rmdir()
    (sandbox.root / "was").rmdir()
    sandbox.write("was", "a folder\n")
    sandbox.git("mv", "moved.txt", "deep.txt")
    (sandbox.root / "mode.sh").chmod(0o755)
    sandbox.write("binary", bytes(reversed(range(256))))
    sandbox.git("add", "--all")
    diff = sandbox.diff("--cached", "-M")
    place = Place(sandbox, tmp_path / "place")
    place.lay_out(diff, base)
    assert {*place.held()} == {"deep.txt", "mode.sh", "binary", f"becomes/{ODD}", "was"}
    assert (place.tree / "mode.sh").stat().st_mode & 0o100


def test_a_change_against_a_tree_or_against_nothing_is_a_commit_without_history(
    any_format: Sandbox, tmp_path: Path
) -> None:
    sandbox, index = any_format, tmp_path / "index"
    folder = tmp_path / "tree"
    for number in range(2):
        sandbox.write(f"new-{number}.txt", "new\n")
        sandbox.git("add", "--all")
        base = sandbox.empty_tree() if number == 0 else sandbox.git("rev-parse", "HEAD^{tree}").strip()
        diff = sandbox.diff("--cached", base)
        with Repository(sandbox.root) as repository:
            valid = repository.validate_diff(diff, base)
            content = RoundContent(base, valid.digest, diff)
            tree = repository.lay_out(content, folder, "Round 1", index)
        assert tree.base is None
        assert Sandbox(folder).git("log", "--format=%s") == "Round 1\n"
        assert Sandbox(folder).git("status", "--porcelain") == ""
        assert {path.name for path in folder.iterdir()} == {".git", *(f"new-{one}.txt" for one in range(number + 1))}
        sandbox.commit()


def test_a_text_is_laid_out_as_its_file(place: Place) -> None:
    with Repository(place.sandbox.root) as repository:
        for path, text in (("docs/PLAN.md", "# Plan\n"), ("src/b.py", "# Plan\n"), ("src/b.py", "b = 1\n")):
            valid = repository.text_change(path, text)
            content = RoundContent(str(valid.base_commit), valid.digest, None, path, text)
            tree = repository.lay_out(content, place.tree, "Round 1", place.index)
            assert (place.tree / path).read_text() == text
            assert ((place.tree / path).stat().st_mode & 0o100 == 0o100) == (path == "src/b.py")
            assert Sandbox(tree.folder).git("status", "--porcelain") == ""
        tree = repository.lay_out(RoundContent("HEAD"), place.tree, "Round 1", place.index)
        assert (tree.commit, tree.base) == (place.sandbox.head(), None)


def test_what_is_not_the_round_is_not_laid_out(place: Place) -> None:
    diff = changed(place.sandbox, a_txt="one\n2\n")
    with pytest.raises(InvalidDiff, match="another digest"):
        place.lay_out(diff, digest="0" * 64)
    with Repository(place.sandbox.root) as repository, pytest.raises(InvalidInput):
        repository.lay_out(RoundContent("0" * 40, "0" * 64, diff), place.tree, "Round 1", place.index)
    place.lay_out(diff)


def test_the_project_may_be_called_anything(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path / 'a "shop" #1 of: ours')
    sandbox.write("a.txt", "one\n")
    sandbox.commit("the base")
    tree = Place(sandbox, tmp_path / "place").lay_out(changed(sandbox, a_txt="two\n"))
    assert "the base" in Sandbox(tree.folder).git("log")


def test_of_a_shallow_clone_there_is_as_much_history_as_it_has(place: Place, tmp_path: Path) -> None:
    place.sandbox.commit("second")
    url = place.sandbox.root.as_uri()
    place.sandbox.git("clone", "--quiet", "--depth=1", url, str(tmp_path / "clone"))
    clone = Place(Sandbox(tmp_path / "clone"), tmp_path / "other")
    tree = clone.lay_out(changed(clone.sandbox, a_txt="one\n2\n"))
    assert Sandbox(tree.folder).git("log", "--format=%s").split("\n")[:-1] == ["Round 1 of rv_1", "second"]


def test_p10_links_of_the_ground_are_files_with_their_text(place: Place, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret\n")
    (place.sandbox.root / "link").symlink_to(tmp_path / "secret")
    (place.sandbox.root / "folder").symlink_to("src")
    base = place.sandbox.commit("links")
    tree = place.lay_out(changed(place.sandbox, a_txt="one\n2\n"))
    assert (place.tree / "link").read_text() == str(tmp_path / "secret")
    assert not [path for path in place.tree.rglob("*") if path.is_symlink()]
    assert Sandbox(tree.folder).git("status", "--porcelain") == ""
    assert Sandbox(tree.folder).git("rev-parse", "HEAD:link") == place.sandbox.git("rev-parse", f"{base}:link")


def test_p10_the_change_stands_on_the_tip_with_what_its_base_has_beside(place: Place) -> None:
    sandbox = place.sandbox
    old = sandbox.head()
    sandbox.git("switch", "--quiet", "--create", "side")
    sandbox.write("beside.txt", "beside\n")
    base = sandbox.commit("beside")
    diff = changed(sandbox, a_txt="one\n2\n")
    sandbox.git("switch", "--quiet", "main")
    sandbox.write("src/b.py", "b = 2\n")
    tip = sandbox.commit("newer")
    tree = place.lay_out(diff, base, tip)
    there = Sandbox(tree.folder)
    assert {path: there.read(path) for path in ("a.txt", "src/b.py", "beside.txt")} == {
        "a.txt": b"one\n2\n",
        "src/b.py": b"b = 2\n",
        "beside.txt": b"beside\n",
    }
    assert there.git("show", "--format=", "--name-only", "HEAD") == "a.txt\n"
    assert there.git("rev-parse", "HEAD^^1", "HEAD^^2").split() == [tip, base]
    # From an older base of the branch there is nothing beside, and nothing older either.
    behind = place.lay_out(diff, old, tip)
    assert Sandbox(behind.folder).git("rev-parse", "HEAD^").strip() == tip
    assert not (place.tree / "beside.txt").exists()
    # Equal trees get the same commit id against any base; another title or history changes the id.
    assert place.lay_out(diff, tip, tip).commit == behind.commit
    assert place.lay_out(diff, tip, tip, title="Round 2").commit != behind.commit
    assert place.lay_out(diff, base, base).commit != tree.commit


def test_p10_nothing_of_the_project_has_a_say_in_how_it_is_merged(place: Place) -> None:
    sandbox = place.sandbox
    sandbox.write(".gitattributes", "a.txt merge=union\n*.md merge=mine\n")
    sandbox.git("config", "merge.mine.driver", "touch RAN")
    sandbox.git("config", "merge.default", "union")
    base = sandbox.commit("drivers")
    diff = changed(sandbox, a_txt="one\n2\n")
    sandbox.write("a.txt", "one\nzwei\n")
    tip = sandbox.commit("the same line")
    with pytest.raises(DoesNotMerge) as caught:
        place.lay_out(diff, base, tip)
    assert caught.value.paths == ("a.txt",)
    other = Sandbox(sandbox.root.parent / "unrelated")
    stranger = other.commit("of another root")
    sandbox.git("fetch", "--quiet", str(other.root), "HEAD")
    with pytest.raises(DoesNotMerge, match="no commit in common here"):
        place.lay_out(diff, base, stranger)


def test_p10_a_text_is_on_the_tip_as_it_was_approved(place: Place) -> None:
    sandbox = place.sandbox
    with Repository(sandbox.root) as repository:
        valid = repository.text_change("a.txt", "mine\n")
        sandbox.write("a.txt", "theirs\n")
        sandbox.write("src/b.py", "b = 2\n")
        tip = sandbox.commit("newer")
        content = RoundContent(str(valid.base_commit), valid.digest, None, "a.txt", "mine\n")
        tree = repository.lay_out(content, place.tree, "Round 1", place.index, tip=tip)
    there = Sandbox(tree.folder)
    assert (there.read("a.txt"), there.read("src/b.py")) == (b"mine\n", b"b = 2\n")
    assert there.git("rev-parse", "HEAD^").strip() == tip

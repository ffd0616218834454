"""Which repository a folder is in, told by git's own files: a start of git costs more than most hooks do."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # hooks do without `typing`
if TYPE_CHECKING:
    from collections.abc import Collection

_GIT_NAMES = frozenset({"", "git", "bare", "repo"})
"""Names of a git folder that say nothing of the project."""

_REFTABLE = "refs/heads/.invalid"
"""What git writes into `HEAD` where references are in tables."""

_SYMBOLIC = "ref: "
_LONGEST_LINE = 8192
_ID_LENGTHS = (40, 64)

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./-_")
"""What a shell takes as it stands; `shlex` takes longer to import than most hooks run."""

_FALSE = frozenset({"false", "no", "off", "0", ""})


class HookRepository:
    """A working tree and its repository.

    Attributes:
        git_dir: What git keeps for this working tree alone: HEAD, index. Absolute.
        common_dir: What all working trees share: objects, branches, the gate's switch. Absolute.
        top: The working tree's top; None in a bare repository.
    """

    __slots__ = ("common_dir", "git_dir", "top")

    def __init__(self, git_dir: str, common_dir: str, top: str | None) -> None:
        self.git_dir = git_dir
        self.common_dir = common_dir
        self.top = top

    @property
    def folder(self) -> str:
        """Tandem's folder in the common git folder; it need not exist."""
        return os.path.join(self.common_dir, "tandem")

    @property
    def gate_file(self) -> str:
        """Where the switch is; it need not exist."""
        return os.path.join(self.folder, "gate.json")

    @property
    def home(self) -> str:
        """The folder that the project is registered for, the same in every working tree.

        That is the main working tree, if the common git folder is its `.git`; else the common git folder, which stays
        when a working tree is removed.
        """
        above = os.path.dirname(self.common_dir)
        is_inside = os.path.basename(self.common_dir) == ".git" and main_worktree(self.common_dir) == above
        return above if is_inside else self.common_dir

    @property
    def settings_root(self) -> str:
        """The working tree whose settings count in all: the main one, else that of the repository's own branch."""
        return main_worktree(self.common_dir) or _on_own_branch(self.common_dir) or self.top or self.git_dir

    @property
    def name(self) -> str:
        """The project's name where none is given."""
        place = main_worktree(self.common_dir) or (self.top if self.git_dir == self.common_dir else None)
        # Of dotfiles the working tree is the home folder.
        if place is not None and leads_to(place, self.common_dir):
            return os.path.basename(place)
        name = os.path.basename(self.common_dir).removesuffix(".git").lstrip(".")
        return os.path.basename(os.path.dirname(self.common_dir)) if name in _GIT_NAMES else name


def free_name(name: str, taken: Collection[str]) -> str:
    """A project's name that is not taken: this one, else with the first number that is free."""
    numbers = range(2, len(taken) + 3)
    return next(one for one in (name, *(f"{name}-{number}" for number in numbers)) if one not in taken)


def unusable(place: HookRepository) -> tuple[str, str] | None:
    """Why nothing works in a repository that was found, and what to do; None if that is not so."""
    top = place.top or place.git_dir
    for path in (top, place.common_dir):
        is_text = not any("\ud800" <= letter <= "\udfff" for letter in path)
        if "\n" in path or not is_text:
            why = "has a line end" if is_text else "is not UTF-8"
            return (
                f"The path {path!a} cannot be used: it {why}.",
                "rename it; a linked worktree with: git worktree move",
            )
    if os.path.isdir(place.git_dir):
        return None
    said, common = f"{top}/.git names {place.git_dir}, which is gone", os.path.dirname(os.path.dirname(place.git_dir))
    if os.path.basename(os.path.dirname(place.git_dir)) != "worktrees":
        return f"{said}.", f"put it back, or write where it is now into {top}/.git"
    if not is_git_folder(common):
        return f"{said}: the repository was moved.", f"where it is now, run: git worktree repair {shell_quoted(top)}"
    again = f"git -C {shell_quoted(common)} worktree add {shell_quoted(f'{top}-again')}"
    return f"{said}: git has removed its record of this working tree.", f"{again}, then bring over what you need"


def find_repository(folder: str | None = None) -> HookRepository | None:
    """The repository that a folder is in; None outside of git.

    Args:
        folder: Where to look; by default the current folder. There `GIT_DIR` and `GIT_WORK_TREE` count first, as git
            has them for its hooks and a person for dotfiles.
    """
    stated = os.environ.get("GIT_DIR")
    if stated and (folder is None or os.path.realpath(folder) == os.getcwd()):
        return _stated(os.path.realpath(stated), os.environ.get("GIT_WORK_TREE"), os.getcwd())
    top = os.path.realpath(folder or os.getcwd())
    while True:
        git_dir = _git_dir_in(top)
        if git_dir is not None:
            common = common_of(git_dir)
            return HookRepository(git_dir, common, None if git_dir == common and _core(common)[0] else top)
        if is_git_folder(top):
            return HookRepository(top, common_of(top), None)
        parent = os.path.dirname(top)
        if parent == top:
            return None
        top = parent


def _stated(git_dir: str, worktree: str | None, here: str) -> HookRepository:
    """The repository of the environment; without a working tree there, the configuration's or the current folder."""
    common = common_of(git_dir)
    if worktree is None and git_dir == common:
        is_bare, worktree = _core(common)
        if is_bare:
            return HookRepository(git_dir, common, None)
    top = os.path.realpath(worktree or here)
    return HookRepository(git_dir, common, None if top == git_dir else top)


def shell_quoted(text: str) -> str:
    """A text as one word of a command to copy."""
    return text if text and _PLAIN.issuperset(text) else "'" + text.replace("'", "'\"'\"'") + "'"


def deleted_folder() -> tuple[str, str] | None:
    """Where the current folder was deleted: what to do, and the nearest folder that is there; else None."""
    try:
        os.getcwd()
    except OSError:
        was = os.environ.get("PWD", "")
        near = was if os.path.isabs(was) else os.path.expanduser("~")
        while not os.path.isdir(near):
            near = os.path.dirname(near)
        where = f" ({was})" if was else ""
        way = f"Go to one that is there: cd {shell_quoted(near)}"
        return f"NOT_FOUND: The current folder{where} was deleted. {way}", near
    return None


def common_of(git_dir: str) -> str:
    """The git folder that a working tree's git folder shares with the others; itself in the main one."""
    return pointed_at(os.path.join(git_dir, "commondir")) or git_dir


def is_git_folder(path: str) -> bool:
    """Whether a folder is a git folder itself."""
    return os.path.isfile(os.path.join(path, "HEAD")) and os.path.isdir(os.path.join(path, "objects"))


def leads_to(top: str, common: str) -> bool:
    """Whether the `.git` of a folder is a repository's common git folder, or names it."""
    git_dir = _git_dir_in(top)
    return git_dir is not None and same(git_dir) == same(common)


def _git_dir_in(top: str) -> str | None:
    """The git folder that the `.git` of a folder is, or names; None without one."""
    own = os.path.join(top, ".git")
    if os.path.isdir(own):
        return os.path.realpath(own) if os.path.islink(own) else own
    return pointed_at(own, "gitdir:")


def main_worktree(common: str) -> str | None:
    """The main working tree of a common git folder; None if it has none, or does not say where it is."""
    is_bare, stated = _core(common)
    if stated is None and (is_bare or os.path.basename(common) != ".git"):
        return None
    top = os.path.realpath(stated or os.path.dirname(common))
    return top if leads_to(top, common) else None


def linked_worktrees(common: str) -> dict[str, str]:
    """The git folders of the linked working trees that are there, by the top of each."""
    found: dict[str, str] = {}
    folder = os.path.join(common, "worktrees")
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        git_dir = os.path.join(folder, name)
        own = pointed_at(os.path.join(git_dir, "gitdir"))
        if own is not None and os.path.exists(own):
            found[os.path.dirname(own)] = git_dir
    return found


def _on_own_branch(common: str) -> str | None:
    """The linked working tree with the branch that the common git folder itself has as HEAD."""
    head = first_line(os.path.join(common, "HEAD"))
    heads = {top: first_line(os.path.join(own, "HEAD")) for top, own in linked_worktrees(common).items()}
    return next((top for top, one in heads.items() if one is not None and one == head), None)


def _core(common: str) -> tuple[bool, str | None]:
    """Whether a repository's configuration says that it is bare, and the working tree that it names."""
    is_bare, worktree = False, None
    # Git moves both settings to the second file, where working trees have a configuration of their own.
    for name in ("config", "config.worktree"):
        try:
            with open(os.path.join(common, name), encoding="utf-8", errors="surrogateescape") as file:
                lines = file.read().splitlines()
        except OSError:
            continue
        section = ""
        for line in map(str.strip, lines):
            head, bracket, rest = line.partition("]") if line.startswith("[") else ("", "", line)
            section = head[1:] if bracket else section
            key, equals, value = (part.strip() for part in rest.partition("="))
            if section.strip().lower() != "core":
                continue
            if key.lower() == "bare":
                is_bare = not equals or value.lower() not in _FALSE
            elif key.lower() == "worktree" and value:
                plain = value.replace("\\\\", "\\").replace('\\"', '"') if not value.startswith('"') else value[1:-1]
                worktree = os.path.join(common, plain)
    return is_bare, worktree


def linked_head(folder: str) -> str | None:
    """What `HEAD` is in a linked working tree, a branch's full name or a commit; None elsewhere.

    Raises:
        TandemError: Git, which is asked where references are in tables, cannot be run.
    """
    place = find_repository(folder)
    if place is None or place.git_dir == place.common_dir:
        return None
    head = (first_line(os.path.join(place.git_dir, "HEAD")) or "").removeprefix("ref: ")
    if head != _REFTABLE:
        return head or None
    from tandem.git.runner import Git, clean_environment  # for the few whose references are in tables

    asked = ["--git-dir", place.git_dir, "rev-parse", "--quiet", "--verify", "HEAD"]
    return Git().run(asked, environment=clean_environment({}, isolated=False), accept=(0, 1)).text or None


def head_commit(git_dir: str, common_dir: str) -> str | None:
    """The id of the commit that HEAD stands for, where files say so, as nearly always; else None.

    A start of git is a tenth of what a hook takes.
    """
    head = first_line(os.path.join(git_dir, "HEAD")) or ""
    return branch_tip(common_dir, head.removeprefix(_SYMBOLIC)) if head.startswith(_SYMBOLIC) else _as_id(head)


def branch_tip(common_dir: str, ref: str) -> str | None:
    """The id of the commit that a reference such as `refs/heads/main` has in a file of its own; else None."""
    return _as_id(first_line(os.path.join(common_dir, ref)) or "")


def _as_id(text: str) -> str | None:
    return text if len(text) in _ID_LENGTHS and not text.strip("0123456789abcdef") else None


def pointed_at(file: str, mark: str = "") -> str | None:
    """The path that one of git's one-line files names; None if it is no such file."""
    text = first_line(file)
    if text is None or not text.startswith(mark):
        return None
    return os.path.realpath(os.path.join(os.path.dirname(file), text.removeprefix(mark).strip()))


def first_line(file: str) -> str | None:
    """The first line of a file; None if it cannot be read."""
    # A pipe in its place would never end.
    if not os.path.isfile(file):
        return None
    try:
        with open(file, encoding="utf-8", errors="surrogateescape") as lines:
            return lines.readline(_LONGEST_LINE).strip()
    except OSError:
        return None


def is_of(root: str, common: str) -> bool:
    """Whether a folder is a working tree of a repository, or its common git folder."""
    git_dir = _git_dir_in(root) or (root if is_git_folder(root) else None)
    return git_dir is not None and same(common_of(git_dir)) == same(common)


def same(path: str) -> str:
    """A path in the one form in which two names of a folder are equal."""
    return os.path.normcase(os.path.realpath(path))

"""A repository as a hook sees it: HEAD, base branches, commits, the staged changes, and differences of commits.

Keeps the variables by which git tells its hooks of the index and of objects in quarantine, and drops every other
`GIT_*` variable, as the committer can set it. Reads parents from the commits themselves, never from a commit-graph file
or a graft.
"""

from __future__ import annotations

import os

from tandem.core.stand_ins import Closing, NamedTuple
from tandem.errors import TimedOut, Unavailable
from tandem.git import raw
from tandem.git.place import HookRepository, first_line, head_commit
from tandem.git.raw import by_commit, signatures
from tandem.git.runner import BoundGit, Git, clean_environment, make_git_folder

TYPE_CHECKING = False  # every commit waits for these imports, and `typing` takes a third of a start
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tandem.core.scratch import ScratchFolder
    from tandem.git.runner import Output
    from tandem.rulings.state import GateFile

Change = dict[str, str]
"""One entry of a raw difference, as `check_gate` takes it."""

_GIT = Git(timeout_seconds=30.0)
_KEPT = ("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_QUARANTINE_PATH")
_HEX = "0123456789abcdef"
_SHA256_DIGITS = 64
_SYMBOLIC = "ref: "
_REFTABLE = "ref: refs/heads/.invalid"
_REBASES = ("rebase-merge", "rebase-apply")
HEADS = "refs/heads/"
_REPLACES = "refs/replace/"
_TRACKING = "refs/remotes/"
_FETCHED = r"^remote\..*\.fetch$"

_REF_FORMAT = "%(objecttype) %(objectname) %(refname)"

_TRAILERS = "%(trailers:key=Tandem-{},valueonly,unfold,separator=%x2C)"
_FORMAT = f"%T%x00%s%x00{_TRAILERS.format('Review')}%x00{_TRAILERS.format('Signed')}%x00"
_OPTIONS = ("--topo-order", "--reverse", "--parents", "--encoding=UTF-8", f"--format={_FORMAT}")
_TRULY = ("-c", "core.commitGraph=false")
_LIST = (*_TRULY, "rev-list")


def run(
    place: HookRepository,
    arguments: Sequence[str],
    *,
    stdin: bytes = b"",
    accept: Sequence[int] = (0,),
    extra: Mapping[str, str] | None = None,
) -> Output:
    """Run git in a repository.

    Args:
        place: The repository.
        arguments: The arguments of `git`.
        stdin: Its standard input.
        accept: The exit statuses that are answers.
        extra: Variables to add, such as another `GIT_INDEX_FILE`.

    Raises:
        TandemError: Git is missing, hangs, or ended with another status.
    """
    bound = BoundGit(_GIT, environment(place), settings=("-C", place.top or place.git_dir))
    return bound.run(arguments, stdin=stdin, accept=accept, extra=extra)


def environment(place: HookRepository) -> dict[str, str]:
    """The environment for git in this repository."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    if os.environ.get("GIT_INDEX_FILE"):
        # Git names the index by a path from where the hook was started.
        kept["GIT_INDEX_FILE"] = os.path.abspath(os.environ["GIT_INDEX_FILE"])
    where = {"GIT_DIR": place.git_dir} | ({"GIT_WORK_TREE": place.top} if place.top else {})
    # Like replacements, grafts lie about parents.
    return clean_environment({"GIT_GRAFT_FILE": os.devnull, **kept, **where}, isolated=False)


def branch(place: HookRepository) -> str | None:
    """The branch that is checked out, or the one that is being rebased; None if HEAD is detached.

    Raises:
        TandemError: It cannot be found out.
    """
    ref = first_line(os.path.join(place.git_dir, "HEAD")) or ""
    if ref.startswith(_SYMBOLIC) and ref != _REFTABLE:
        ref = ref.removeprefix(_SYMBOLIC)
    else:
        ref = run(place, ["symbolic-ref", "--quiet", "HEAD"], accept=(0, 1)).text or rebased(place) or ""
    return ref.removeprefix(HEADS) if ref.startswith(HEADS) else None


def rebased(place: HookRepository) -> str | None:
    """The ref that will move when the rebase ends that is going on; None if none is."""
    named = (first_line(os.path.join(place.git_dir, folder, "head-name")) for folder in _REBASES)
    return next((ref for ref in named if ref is not None), None)


def head(place: HookRepository) -> str | None:
    """The id of the commit that HEAD stands for; None before the first commit.

    Raises:
        TandemError: It cannot be found out.
    """
    return head_commit(place.git_dir, place.common_dir) or resolve(place, "HEAD")


def is_packed(place: HookRepository, ref: str, oid: str) -> bool:
    """Whether a ref stays where it is although its file goes: git packs it, and tells hooks of a deletion."""
    packed = os.path.join(place.common_dir, "packed-refs")
    try:
        # Git locks the list before it takes a ref out of it, and asks the hook in between.
        with open(packed, "rb") as file:
            return not os.path.exists(f"{packed}.lock") and f"{oid} {ref}\n".encode() in file
    except FileNotFoundError:
        return False


def resolve(place: HookRepository, revision: str, kind: str = "commit") -> str | None:
    """The id of what a revision names, followed to the kind (`commit` or `tree`); None if there is none such."""
    named = f"{revision}^{{{kind}}}"
    return run(place, ["rev-parse", "--quiet", "--verify", "--end-of-options", named], accept=(0, 1, 128)).text or None


def empty_tree(place: HookRepository) -> str:
    """The id of the tree without entries, by the repository's own hash."""
    return run(place, ["hash-object", "-t", "tree", "--stdin"]).text


def staged(place: HookRepository, base: str) -> list[Change]:
    """The changes that a commit of the index would make to a commit or tree.

    Raises:
        TandemError: There is no such base, or a path is unmerged.
    """
    return changes_in(run(place, ["diff-index", "--cached", *raw.RAW_OPTIONS, base, "--"]).stdout)


def written_tree(place: HookRepository, index: str | None = None) -> str:
    """The id of the tree that is staged, once and for all: another hook may change the index at any time.

    Args:
        place: The repository.
        index: The index; None for the one that the environment names.

    Raises:
        TandemError: A path is unmerged.
        OSError: The index cannot be copied.
    """
    index = index or environment(place).get("GIT_INDEX_FILE") or os.path.join(place.git_dir, "index")
    # Git would lock the index itself, which the process that started this may have locked.
    copy = os.path.join(place.git_dir, f"tandem-index-{os.getpid()}")
    try:
        if os.path.exists(index):
            with open(index, "rb") as source, open(copy, "wb") as target:
                target.write(source.read())
        return run(place, ["write-tree", "--missing-ok"], extra={"GIT_INDEX_FILE": copy}).text
    finally:
        if os.path.exists(copy):
            os.unlink(copy)


def between(place: HookRepository, before: str | None, after: str) -> list[Change]:
    """The changes from one commit or tree to another; from nothing without the first.

    Raises:
        TandemError: One of them is not there.
    """
    named = [before or empty_tree(place), after, "--"]
    return changes_in(run(place, ["diff-tree", "-r", *raw.TREE_OPTIONS, *named]).stdout)


def changes_in(data: bytes) -> list[Change]:
    """The entries in git's own raw output, in its order.

    Raises:
        InvalidInput: A path is unmerged, so that no approval can name it.
    """
    return [dict(zip(raw.FIELDS, entry, strict=True)) for entry in raw.parse_raw(data)]


def digest(changes: Iterable[Change]) -> str:
    """What an approval of exactly these changes binds to."""
    return raw.digest_of(tuple(change[field] for field in raw.FIELDS) for change in changes)


class Bases:
    """Where judging begins, as it is when this is made.

    Attributes:
        tips: The base branches that exist, by their full names, with the commits they are at.
        never_judged: The commits that the broker has as accepted and that are here: they and their ancestors are
            taken as they are.
    """

    def __init__(self, gate: GateFile, accepted: Iterable[str]) -> None:
        """Read them.

        Args:
            gate: The switch.
            accepted: The commits that the broker has as accepted.

        Raises:
            TandemError: Git does not answer.
        """
        self._place = gate.place
        self.tips: dict[str, str] = {}
        wanted = sorted(HEADS + branch for branch in gate.branches)
        for line in run(gate.place, ["for-each-ref", f"--format={_REF_FORMAT}", *wanted]).text.splitlines():
            kind, oid, ref = line.split(" ", 2)
            # A pattern also finds refs below it.
            if kind == "commit" and ref in wanted:
                self.tips[ref] = oid
        self.never_judged = tuple(known_commits(gate.place, (oid for oid in accepted if not oid.strip(_HEX))))

    def earlier(self) -> set[str]:
        """The commits that base branches were at since the gate was switched on, as far as git has kept them.

        Raises:
            TandemError: Git does not answer.
        """
        been: set[str] = set()
        for ref in self.tips:
            # No log was kept where git fails here.
            log = run(self._place, ["log", "-g", "--format=%H", ref, "--"], accept=(0, 128))
            for oid in log.text.splitlines():
                been.add(oid)
                if oid in self.never_judged:
                    break
        return been


def replaced(place: HookRepository, tips: Sequence[str]) -> dict[str, str]:
    """The objects of some commits that git replaces, by `git replace` or a graft: each in words, with the remedy.

    Hooks and audits read the objects themselves, so that a checkout then gives other bytes than they have judged.

    Args:
        place: The repository.
        tips: The ids of commits; everything reachable from them counts.

    Raises:
        TandemError: Git does not answer.
    """
    refs = run(place, ["for-each-ref", "--format=%(refname)", _REPLACES]).text.splitlines()
    found = {
        f"Git shows something else in place of the {kind} {oid}, which a base branch holds: a checkout gives other"
        " content than was approved.": f"look at it, then: git replace -d {oid}; 'git status' shows the files that were"
        " checked out meanwhile"
        for oid, kind in _kinds(place, (ref.removeprefix(_REPLACES) for ref in refs))
        if _is_held(place, oid, kind, tips)
    }
    grafts = os.path.join(place.common_dir, "info", "grafts")
    try:
        with open(grafts, encoding="ascii", errors="replace") as file:
            grafted = [line.split()[0] for line in file if line.strip() and not line.startswith("#")]
    except OSError:
        grafted = []
    return found | {
        f"{grafts} gives the commit {oid}, which a base branch holds, other parents than it has.": "look at it, then"
        " delete its line in that file"
        for oid, kind in _kinds(place, grafted)
        if _is_held(place, oid, kind, tips)
    }


def _kinds(place: HookRepository, oids: Iterable[str]) -> list[tuple[str, str]]:
    """Those of some ids that are there, each with its kind."""
    asked = "".join(f"{oid}\n" for oid in oids).encode()
    answers = run(place, ["cat-file", "--batch-check"], stdin=asked).text.splitlines() if asked else ()
    return [(words[0], words[1]) for words in map(str.split, answers) if words[-1].isdecimal()]


def _is_held(place: HookRepository, oid: str, kind: str, tips: Sequence[str]) -> bool:
    """Whether an object can be reached from one of some commits; so it is where git needs too long to say."""
    if not tips:
        return False
    finding = ["log", "-1", "--root", "-m", "-t", "--format=%H", f"--find-object={oid}", *tips, "--"]
    try:
        if kind == "commit":
            return not run(place, ["rev-list", "--max-count=1", oid, "--not", *tips]).text
        return bool(run(place, finding).text) or (
            # The tree of a commit is in no difference.
            kind == "tree" and oid in run(place, ["log", "--format=%T", *tips, "--"]).text.splitlines()
        )
    except TimedOut:
        return True


class Commit(NamedTuple):
    """One commit.

    Attributes:
        oid: Its id.
        parents: The ids of its parents, in order.
        tree: The id of its tree.
        subject: The first paragraph of its message, as one line.
        reviews: Its `Tandem-Review` trailers; a remark, never a proof.
        signed: Its `Tandem-Signed` trailers, which the broker verifies.
    """

    oid: str
    parents: tuple[str, ...]
    tree: str
    subject: str
    reviews: tuple[str, ...]
    signed: tuple[str, ...]

    @property
    def first(self) -> str | None:
        """The id of its first parent; None if it has none."""
        return self.parents[0] if self.parents else None


def _commit(record: str) -> Commit:
    """A commit from a record as `_FORMAT` has it."""
    head, _, body = record.partition("\n")
    _, oid, *parents = head.split(" ")
    tree, subject, reviews, signed = body.split("\0")
    named = dict.fromkeys(word.strip() for word in reviews.split(",") if word.strip())
    return Commit(oid, tuple(parents), tree, subject, tuple(named), signatures(signed.replace(",", " ").split()))


def commits(place: HookRepository, tip: str, without: Iterable[str] = ()) -> tuple[Commit, ...]:
    """The commits that can be reached from `tip` and from none of `without`; a parent comes before its children.

    Args:
        place: The repository.
        tip: The id of a commit.
        without: Ids of commits that are there.

    Raises:
        TandemError: One of them is not there.
    """
    asked = "".join(f"{line}\n" for line in (tip, *(f"^{oid}" for oid in without)))
    listed = run(place, [*_LIST, *_OPTIONS, "--stdin"], stdin=asked.encode()).stdout
    return tuple(_commit(record) for record in listed.decode("utf-8", "replace").split("\0\n")[:-1])


def mainline(place: HookRepository, old: str | None, new: str, limit: int = 999) -> list[str]:
    """A branch's commits before and during an update, newest first: those of first parents, and where it begins.

    Raises:
        TandemError: A commit is not there.
    """
    before = [] if old is None else [old]
    listing = [*_LIST, "--first-parent", f"--max-count={limit}", new, *(f"^{oid}" for oid in before)]
    return [*run(place, listing).text.splitlines(), *before]


def read_commit(place: HookRepository, oid: str) -> tuple[list[str], str]:
    """The parents and the message of a commit, from its object.

    Raises:
        TandemError: There is none.
    """
    head, _, text = run(place, ["cat-file", "commit", oid]).stdout.decode("utf-8", "replace").partition("\n\n")
    return [line.removeprefix("parent ") for line in head.split("\n") if line.startswith("parent ")], text


def known_commits(place: HookRepository, oids: Iterable[str]) -> list[str]:
    """Those of some ids that name commits which are there."""
    return [oid for oid, kind in _kinds(place, dict.fromkeys(oids)) if kind == "commit"]


def differences(place: HookRepository, pairs: Sequence[tuple[str | None, str]]) -> list[list[Change]]:
    """The changes between pairs of commits; from nothing where the first is None.

    Raises:
        TandemError: A commit is not there.
    """
    if not pairs:
        return []
    lines = "".join(f"{after} {before}\n" if before else f"{after}\n" for before, after in pairs)
    arguments = ["diff-tree", "--stdin", "--always", "--root", "-r", *raw.TREE_OPTIONS]
    found = by_commit(run(place, arguments, stdin=lines.encode()).stdout)
    if len(found) != len(pairs):
        raise Unavailable("git diff-tree did not answer for every commit.")
    return [changes_in(entries) for entries in found]


def amended(place: HookRepository, limit: int = 2000) -> dict[tuple[str, ...], list[str]]:
    """Commits that HEAD and the branches have been at, newest first, by their parents.

    An amended commit stands where an earlier one stood: it was made from its siblings.
    """
    arguments = [*_TRULY, "log", "-g", "--all", f"--max-count={limit}", "--format=%H %P"]
    # Without a log of the refs there is nothing to find, and git says so by its status.
    lines = run(place, arguments, accept=(0, 1, 128)).text.splitlines()
    found: dict[tuple[str, ...], list[str]] = {}
    for oid, *parents in (line.split(" ") for line in dict.fromkeys(lines)):
        found.setdefault(tuple(parents), []).append(oid)
    return found


class Merges(Closing):
    """The trees that git itself makes of merges of one repository's commits, where it needs no decision.

    Computed in a git folder of our own over the repository's objects, made for the first one and gone after `close`.
    In the repository itself its settings and attributes would have a say, and a merge driver that somebody has set
    there could make any content look merged.
    """

    def __init__(self, place: HookRepository) -> None:
        self._place = place
        self._folder: ScratchFolder | None = None
        self._trees: dict[tuple[str, str], str | None] = {}

    def close(self) -> None:
        """Tidy up; twice is safe."""
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.cleanup()

    def tree(self, ours: str, theirs: str) -> str | None:
        """The id of the merged tree; None if git alone cannot merge the two commits.

        None as well for what a special merge (another strategy, a driver of the user's) would give: such a merge
        is reviewed as the change that it is.

        Raises:
            TandemError: Git does not answer.
        """
        if (ours, theirs) not in self._trees:
            done = self._run([], ours, theirs)
            self._trees[ours, theirs] = done.text.split("\n", 1)[0] if done.status_code == 0 else None
        return self._trees[ours, theirs]

    def kept(self, ours: str, theirs: str) -> tuple[str | None, tuple[str, ...]]:
        """The same tree, which the repository has from then on, and the files that do not merge."""
        objects = os.path.join(self._place.common_dir, "objects")
        done = self._run(["--name-only", "-z"], ours, theirs, {"GIT_OBJECT_DIRECTORY": objects})
        tree, *names = (os.fsdecode(name) for name in done.stdout.split(b"\0"))
        return (tree if done.status_code == 0 else None), tuple(name for name in names if name)

    def _run(self, options: list[str], ours: str, theirs: str, extra: Mapping[str, str] | None = None) -> Output:
        folder = self._made(len(ours))
        # No driver has the name of a folder that was made just now: all files are merged as git does by itself.
        arguments = [*raw.merge_arguments(os.path.basename(folder)), *options, ours, theirs]
        # 128: no ancestor in common, or an object is missing; 129: a git without this command.
        return run(HookRepository(folder, folder, None), arguments, accept=(0, 1, 128, 129), extra=extra)

    def _made(self, digits: int) -> str:
        if self._folder is None:
            # Merges are rare, and this takes as long to import as all else here.
            from tandem.core.scratch import ScratchFolder

            self._folder = ScratchFolder("merge")
            objects = make_git_folder(self._folder.name, "sha256" if digits == _SHA256_DIGITS else "sha1")
            os.mkdir(os.path.join(objects, "info"))
            with open(os.path.join(objects, "info", "alternates"), "wb") as file:
                file.write(os.fsencode(os.path.join(self._place.common_dir, "objects")) + b"\n")
        return self._folder.name


def remote_tips(place: HookRepository, where: str, *refs: str) -> dict[str, str]:
    """The ids that a remote has, by the full names of its refs; it never asks for a password.

    Everyone can write below `refs/remotes/` here. Git's configuration says which remote that is, and how it is
    reached; variables such as `GIT_SSH_COMMAND` have no say.

    Args:
        place: The repository here.
        where: The remote's name, or its URL.
        refs: The full names of those that matter; by default all branches and tags.

    Raises:
        TandemError: It does not answer, or asks for credentials.
    """
    ssh = run(place, ["config", "--get", "core.sshCommand"], accept=(0, 1)).text or "ssh"
    silent = "-batch" if "plink" in ssh.lower() else "-o BatchMode=yes"
    wanted = ["--", where, *refs] if refs else ["--heads", "--tags", "--", where]
    command = ["-c", "credential.interactive=false", "ls-remote", *wanted]
    listed = run(place, command, extra={"GIT_ASKPASS": "", "GIT_SSH_COMMAND": f"{ssh} {silent}"})
    # A name also finds those that end with it.
    found = {ref: oid for oid, _, ref in (line.partition("\t") for line in listed.text.splitlines())}
    return {ref: oid for ref, oid in found.items() if not refs or ref in refs}


def followed(place: HookRepository, name: str) -> tuple[str, str] | None:
    """The ref that a remote-tracking branch follows: the remote's name, and the ref's full name there.

    Args:
        place: The repository here.
        name: As a person writes it: `origin/main`, `origin`, `main@{upstream}`.

    Returns:
        None for every other name.

    Raises:
        Unavailable: It is below `refs/remotes/`, and no remote is known for it.
        TandemError: Git does not answer.
    """
    asked = ["rev-parse", "--quiet", "--verify", "--symbolic-full-name", "--end-of-options", name]
    full = run(place, asked, accept=(0, 1, 128)).text
    listed = run(place, ["config", "-z", "--get-regexp", _FETCHED], accept=(0, 1)).text
    # A branch of ours may have the same name as one that is followed, which need not be here; that one is meant.
    for ref in (_TRACKING + name.removeprefix("remotes/"), full, name):
        for key, _, refspec in (entry.partition("\n") for entry in listed.split("\0")):
            theirs, _, ours = refspec.removeprefix("+").partition(":")
            before, star, after = ours.partition("*")
            middle = ref.removeprefix(before).removesuffix(after)
            if before.startswith(_TRACKING) and ref == before + star.replace("*", middle) + after:
                return key.removeprefix("remote.").removesuffix(".fetch"), theirs.replace("*", middle)
    if full.startswith(_TRACKING):
        raise Unavailable(f"No remote is configured that {full} follows, so none can be asked. Add it: git remote add")
    return None

"""Shell commands of an agent that are refused before they run: a person's, and a review of its own work.

Git's hooks judge commits. Refused here are the literal ways round them: git without its hooks, an override, and
changes of the gate's own files. A command is split into words; a way that a variable, a script or the code of another
language hides is not looked for. The base branch's hook, the push or `tandem audit` finds that.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from glob import glob
from shlex import quote

from tandem.core.stand_ins import NamedTuple
from tandem.rulings import liveness, person, state
from tandem.rulings.ask import GateClient
from tandem.rulings.broker_errors import Refused, Unreachable

TYPE_CHECKING = False  # as in `rulings.git`
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tandem.rulings.state import GateFile

_TOKEN = re.compile(r"""(?:[^\s;&|()`'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+|[;&|()`\n]""", re.DOTALL)
_QUOTED = re.compile(r"""\\(.)|'([^']*)'|"((?:[^"\\]|\\.)*)\"""", re.DOTALL)
_ENDS = frozenset(";&|()`\n")
_HEREDOC = re.compile(r"""(?<!<)<<(?!<)-?[ \t]*(['"]?)([A-Za-z_][\w.-]*)\1""")
_SHELLS = frozenset({"bash", "sh", "zsh", "dash", "pwsh", "powershell"})
_READERS = frozenset({
    "[", "awk", "bat", "cat", "cd", "cut", "diff", "du", "echo", "egrep", "fgrep", "file", "grep", "head", "jq", "less",
    "ls", "man", "md5sum", "more", "nl", "od", "printf", "pwd", "readlink", "realpath", "rg", "sha256sum", "sort",
    "stat", "strings", "tail", "test", "tree", "type", "uniq", "wc", "which", "xxd",
})  # fmt: skip
"""What runs and changes nothing that its words name."""
_COPIES = frozenset({"cp", "install", "rsync", "scp"})
_REMOVES = frozenset({"chmod", "chown", "ln", "mv", "rm", "rmdir"})
_PREFIXES = frozenset({
    "!", "{", "command", "do", "doas", "else", "env", "exec", "if", "nohup", "sudo", "then", "time", "while",
})  # fmt: skip

_OPTIONS_WITH_VALUE = frozenset({"-C", "-c", "--config-env", "--git-dir", "--work-tree", "--namespace"})
_HOOKS_PATH = "core.hookspath"
_INCLUDES = ("include.path", "includeif.")
_NO_VERIFY = re.compile(r"--no-verif?y?")
_COMMITS_NO_VERIFY = re.compile(r"-[aeiopqsvz]*n[a-zA-Z]*")
_COMMITS_VALUE = re.compile(r"-[aeinopqsvz]*[CFcmtU]")
_VALUES = {
    "am": "-C -p --directory --empty --exclude --include --patch-format --quoted-cr --resolvemsg --whitespace",
    "commit": "--author --cleanup --date --file --fixup --inter-hunk-context --message --pathspec-from-file"
    " --reedit-message --reuse-message --squash --template --trailer --unified",
    "merge": "-F -X -m -s --cleanup --file --into-name --message --strategy --strategy-option",
    "pull": "-X -o -s --cleanup --deepen --depth --negotiation-tip --refmap --server-option --shallow-exclude"
    " --shallow-since --strategy --strategy-option --upload-pack",
    "push": "-o --exec --push-option --receive-pack --recurse-submodules --repo",
    "rebase": "-C -X -s -x --empty --exec --onto --strategy --strategy-option --whitespace",
}
"""By command that `--no-verify` is for: its options, as they are spelled in full, whose value is the next word."""
_CONFIGURATION = re.compile(r"(?:\$env:)?(GIT_CONFIG[A-Z0-9_]*)=")
_READS_CONFIGURATION = frozenset({"get", "--get", "--get-all", "--show-origin", "--show-scope", "list", "-l", "--list"})

_WITHOUT_HOOKS = "gemini"
"""The client that switches git's hooks off for every command that it runs."""
_HOOKED = frozenset({
    "am", "cherry-pick", "commit", "commit-tree", "fast-import", "merge", "pull", "push", "rebase", "revert",
    "update-ref",
})  # fmt: skip
"""Commands that make commits, or move branches to them."""
_LOOKS = frozenset({
    "blame", "cat-file", "describe", "diff", "for-each-ref", "grep", "help", "log", "ls-files", "ls-remote", "ls-tree",
    "rev-list", "rev-parse", "shortlog", "show", "status", "version",
})  # fmt: skip
"""Commands that call no hook under any configuration."""

_OVERRIDES = re.compile(r"(?:\$env:)?TANDEM_OVERRIDE(?:=.*)?", re.DOTALL)
_PERSONS = frozenset({"off", "override", "record-override", "set"})
"""What of `tandem gate` is a person's."""
_OPTIONS = "accept|branch|broker|commits|data-dir|no-strict|project|remove|signer"
_LOOSENING = re.compile(rf"--(?:{_OPTIONS})(?:=.*)?", re.DOTALL)
"""What of `tandem gate on` and `server-hook` is a person's as well, and the variables that say whom they ask."""
_ELSEWHERE = re.compile(r"\bTANDEM_(?:BROKER|CONFIG_DIR|DATA_DIR)\b")
_CALLS = re.compile(r"\S*/api/v1/(?:override_gate|set_gate)\b\S*")
_KEYS = frozenset({"person.key", "secret.key"})

_REVIEWS = re.compile(r"\breview\s+(?:claim|verdict)\b|\b(?:claim_review|submit_verdict)\b")
_REVIEW_ID = re.compile(r"\brv_[0-9a-z]+")
_MOST_REVIEWS = 10
_AGENTS = {"claude": "claude-code"}
_ALONE = (
    "Leave it alone: 'tandem gate status' shows its settings, and a person changes it with 'tandem gate on' or 'off'."
)


class _Command(NamedTuple):
    """A simple command.

    Attributes:
        folder: Where it runs.
        words: Its words, without quotes.
    """

    folder: str
    words: list[str]

    @property
    def names(self) -> list[str]:
        """Its words, as programs are named."""
        return [os.path.basename(word).removesuffix(".exe") for word in self.words]

    @property
    def before_git(self) -> list[str]:
        """The words up to git: what follows that is git's own, a message mostly."""
        return self.words[: self.names.index("git")] if "git" in self.names else self.words

    @property
    def program(self) -> str:
        """What runs, variables in front of it aside; empty if nothing does."""
        named = next((word for word in self.words if "=" not in word and word not in _PREFIXES), "")
        return os.path.basename(named).removesuffix(".exe")

    @property
    def is_text(self) -> bool:
        """Whether its words are only shown, searched or read."""
        in_place = self.program == "sed" and not any(word.startswith(("-i", "--in-place")) for word in self.words)
        looks = self.program == "find" and not {"-delete", "-exec", "-execdir", "-ok"} & {*self.words}
        return self.program in _READERS or in_place or looks


class _Git(NamedTuple):
    """A call of git.

    Attributes:
        gate: The gate that is on where it runs; None if none is.
        settings: What `-c` and its like set.
        name: Its command, e.g. `commit`.
        arguments: What follows that.
        configured: The variable in front of it that changes its configuration; None without one.
    """

    gate: GateFile | None
    settings: Sequence[str]
    name: str
    arguments: Sequence[str]
    configured: str | None


def refusal(client: str, text: str, folder: str) -> list[str] | None:
    """Why a command may not be run, and what to do; None if it may.

    Args:
        client: Whose command it is.
        text: The command.
        folder: Where it would be run.

    Raises:
        GateUnreadable: Whether the gate is on cannot be read.
    """
    for command in _commands(text, folder):
        reasons = (None if command.is_text else _persons(command, text, folder)) or _gates_own(command)
        if reasons is None and (call := _git_call(command)) is not None:
            # `tandem commit` switches them on itself.
            is_always = client == _WITHOUT_HOOKS and command.program != "tandem"
            reasons = _passing_hooks_by(call, is_always=is_always) or _silenced(call)
        if reasons is not None:
            return reasons
    return _own_review(client, text, folder) if _REVIEWS.search(text) else None


def _persons(command: _Command, text: str, folder: str) -> list[str] | None:
    """Why a command is a person's; None if it is not.

    Args:
        command: The command.
        text: All that is run.
        folder: Where the agent works.
    """
    names, words = command.names, command.before_git
    said = next((word.partition("=")[0] for word in words if _OVERRIDES.fullmatch(word)), None)
    rest = names[names.index("tandem") + 1 :] if "tandem" in names else []
    if "gate" in rest and "commit" not in rest[: rest.index("gate")] and "--help" not in rest:
        verb = next((word for word in rest[rest.index("gate") + 1 :] if not word.startswith("-")), None)
        said = f"tandem gate {verb}" if verb in _PERSONS else said
        if verb in {"on", "server-hook"}:
            loosening = next(filter(_LOOSENING.fullmatch, words), None) or next(iter(_ELSEWHERE.findall(text)), None)
            said = f"tandem gate {verb} with {loosening}" if loosening else said
    said = said or next(filter(_CALLS.fullmatch, words), None)
    if said is None or (state.find_enabled(command.folder) or state.find_enabled(folder)) is None:
        return None
    return [
        f"{said}: to switch, to move or to override the gate is a person's decision, at their own terminal.",
        "Have the change approved instead, or stop and ask the person you work for.",
    ]


def _gates_own(command: _Command) -> list[str] | None:
    """Why a command may not touch the gate's own files; None if it does not."""
    last = len(command.words) - 1
    for at, word in enumerate(command.words):
        # Behind a redirection, or the name of an option.
        is_target = ">" in word or (at > 0 and command.words[at - 1].endswith(">"))
        named = word.rpartition(">")[2]
        named = named if command.program == "git" else named.rpartition("=")[2]
        path = os.path.join(command.folder, os.path.expanduser(named))
        if not named or "\0" in path:
            continue
        may_be_key = os.path.basename(path).lower() in _KEYS or os.path.islink(path)
        if may_be_key and _is_key(state.folded(path), command.folder):
            return [f"{named} is the key by which a person proves to the broker that they answered.", _ALONE]
        is_read = command.is_text or (command.program in _COPIES and at < last)
        # With the folder of the hooks each of them is removed.
        meant = [path, *(glob(path) if "*" in named else ())]
        meant += [os.path.join(path, state.HOOKS[0])] if command.program in _REMOVES else []
        if (is_target or not is_read) and any(map(state.own_gate, meant)):
            return [f"{named} is the gate's own, and no part of your work.", _ALONE]
    return None


def _is_key(real: str, folder: str) -> bool:
    gate = state.find_enabled(folder) if os.path.basename(real) in _KEYS else None
    data_dirs = () if gate is None else (gate.data_dir, *gate.more_data_dirs)
    return os.path.dirname(real) in map(state.folded, data_dirs)


def _passing_hooks_by(call: _Git, *, is_always: bool) -> list[str] | None:
    """Why git would not call the gate's hooks; None if nothing speaks for that.

    Args:
        call: The call.
        is_always: Whether its client switches the hooks off, unless the call names their folder.
    """
    if call.gate is None:
        return None
    directory = call.gate.hooks.get("directory")
    paths = [one.partition("=")[2] for one in call.settings if one.lower().startswith(_HOOKS_PATH)]
    is_named = bool(directory and paths and os.path.realpath(paths[-1]) == os.path.realpath(directory))
    off = next(_switches(call), None) or ("a core.hooksPath of its own" if paths and not is_named else None)
    if is_always and call.name in _HOOKED and not is_named:
        reason = f"This client switches git's hooks off, and git {call.name} has to be seen by the gate's."
        if directory is None:
            return [reason, "Where they are is not known here; a person has to run again: tandem gate on"]
        way = f"  git -c core.hooksPath={quote(directory)} {call.name} …"
        return [reason, "Switch them on for it, and nothing else changes:", way]
    if off is None:
        return None
    return [
        f"git {call.name} with {off} would pass by git's hooks, and the gate's are among them.",
        "Run it without that: when git's hooks refuse, they say why and what to do.",
    ]


def _silenced(call: _Git) -> list[str] | None:
    """Why git would not call the gate's hooks though nothing of the call says so; None if it would."""
    problem = liveness.silenced(call.gate) if call.gate is not None and call.name in _HOOKED else None
    return [problem, "Run that first; then this again."] if problem is not None else None


def _switches(call: _Git) -> Iterator[str]:
    """What of a call, beside `-c core.hooksPath`, switches git's hooks off."""
    if call.configured and call.name not in _LOOKS:
        yield call.configured
    yield from (setting for setting in call.settings if setting.lower().startswith(_INCLUDES))
    if call.name == "config" and _READS_CONFIGURATION.isdisjoint(call.arguments):
        changed = call.arguments if any("unset" in word for word in call.arguments) else call.arguments[:-1]
        yield from (word for word in changed if word.lower().startswith((_HOOKS_PATH, *_INCLUDES)))
    for word in () if call.name in _LOOKS else _options(call):
        if _NO_VERIFY.fullmatch(word) or (call.name == "commit" and _COMMITS_NO_VERIFY.fullmatch(word)):
            yield word


def _options(call: _Git) -> Iterator[str]:
    """The arguments in front of `--`, without the values of options: a message may be `-n`, or `--`."""
    valued, arguments = _VALUES.get(call.name, "").split(), iter(call.arguments)
    for word in arguments:
        if word == "--":
            return
        yield word
        if word in valued or (call.name == "commit" and _COMMITS_VALUE.fullmatch(word)):
            next(arguments, None)


def _commands(text: str, folder: str, *, is_outer: bool = True) -> Iterator[_Command]:
    """The simple commands of a text, also those in the text that a shell is given."""
    outer: list[str] = []
    for words, end in _segments(_without_heredocs(text)):
        command = _Command(folder, words)
        if words:
            yield command
        if is_outer and not _SHELLS.isdisjoint(command.names):
            for inner in filter(str.strip, command.before_git):
                yield from _commands(inner, folder, is_outer=False) if " " in inner else ()
        if command.program in {"cd", "pushd"}:
            folder = os.path.join(folder, *words[command.names.index(command.program) + 1 :][:1])
        if end == "(":
            outer.append(folder)
        elif end == ")" and outer:
            folder = outer.pop()


def _without_heredocs(text: str) -> str:
    """A text without the input of commands that it writes out."""
    kept: list[str] = []
    lines = text.split("\n")
    while lines:
        kept.append(lines.pop(0))
        for found in _HEREDOC.finditer(kept[-1]):
            end = next((at for at, one in enumerate(lines) if one.strip() == found[2]), -1)
            lines = lines[end + 1 :]
    return "\n".join(kept)


def _segments(text: str) -> Iterator[tuple[list[str], str]]:
    """The words of each simple command without their quotes, and what ends it."""
    words: list[str] = []
    for token in _TOKEN.findall(text.replace("\\\n", " ")):
        if token in _ENDS:
            yield words, token
            words = []
        else:
            words.append(_QUOTED.sub(lambda match: "".join(part or "" for part in match.groups()), token))
    yield words, ""


def _git_call(command: _Command) -> _Git | None:
    """The call of git in a command, also that of `tandem commit`; None if there is none."""
    if command.program == "tandem" and "commit" in command.names:
        words = command.words[command.names.index("tandem") + 1 :]
        return _Git(state.find_enabled(command.folder), [], "commit", words[1:], None) if words[0] == "commit" else None
    if "git" not in command.names or command.program in _READERS:
        return None
    before, folder = command.before_git, command.folder
    words = command.words[len(before) + 1 :]
    folders, settings = [folder], list[str]()
    while words and words[0].startswith("-"):
        option, _, value = words.pop(0).partition("=")
        if option in _OPTIONS_WITH_VALUE and not value and words:
            value = words.pop(0)
        if option == "-C":
            folders[0] = os.path.join(folders[0], value)
        elif option == "--git-dir":
            folders.append(os.path.dirname(os.path.join(folders[0], value)))
        elif option in {"-c", "--config-env"}:
            settings.append(value)
    if not words:
        return None
    gate = next(filter(None, map(state.find_enabled, folders)), None)
    configured = next((match[1] for word in before if (match := _CONFIGURATION.match(word)) is not None), None)
    return _Git(gate, settings, words[0], words[1:], configured)


def _own_review(client: str, text: str, folder: str) -> list[str] | None:
    """Why the agent may not review; None if it did not propose the review that it names."""
    ids = list(dict.fromkeys(_REVIEW_ID.findall(text)))[:_MOST_REVIEWS]
    gate = state.find_enabled(folder) if ids else None
    own = person.origin(gate.place.top or folder, _AGENTS.get(client, client)) if gate is not None else None
    if gate is None or own is None:
        return None
    # What the broker does not answer now, it does not take from the command either.
    with GateClient(gate, starts=True) as asker, suppress(Unreachable, Refused):
        for review_id in ids:
            by = person.shared(own, asker.call("get_proposal", review_id=review_id, files=[]))
            if by is not None:
                return [person.not_to_review(review_id, by)]
    return None

"""Who may start processes, and who may call git."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.architecture.source import Module, imports, package_modules

STARTS_PROCESSES = {
    "tandem.git": "the only caller of git",
    "tandem.pool.reviewers": "runs client programs as reviewers",
    "tandem.pool.sandbox": "tries whether bubblewrap works",
    "tandem.core.platforms": "process groups and detached starts differ by platform",
    "tandem.bridge": "starts the broker",
    "tandem.hooks": "puts the overlay of GSD back in the background",
    "tandem.rulings": "starts the broker",
    "tandem.cli": "`tandem up` in the background, `doctor`, `demo`",
    "tandem.gsd.rollback.rolling": "runs the plan's verify command",
    "tandem.setup": "asks clients for their versions",
}
PROCESS_MODULES = {"subprocess", "multiprocessing"}
STARTER = re.compile(r"os\.(?:fork|exec|spawn|posix_spawn)|asyncio\.create_subprocess|anyio\.(?:run|open)_process")
CALLS_GIT = ("tandem.git",)


def names_git(node: ast.AST) -> bool:
    """`["git", …]`, `run("git", …)`, `which("git")`."""
    if isinstance(node, ast.List | ast.Tuple):
        first = node.elts[0] if node.elts else None
        # A tuple of words may well begin with "git"; a command has something to run behind it.
        return len(node.elts) > 1 and _is_git(first)
    if isinstance(node, ast.Call):
        name = ast.unparse(node.func).rpartition(".")[2]
        starts = name in {"run", "Popen", "call", "check_call", "check_output", "which"}
        return (starts or name.startswith("create_subprocess")) and bool(node.args) and _is_git(node.args[0])
    return False


def _is_git(node: ast.AST | None) -> bool:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return False
    return node.value == "git" or node.value.startswith("git ")


def called(module: Module) -> Iterator[tuple[str, ast.Call]]:
    """Every call, by the name it is written with."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def modules_with(pattern: str) -> Iterator[Module]:
    """Those whose text has it: walking through a syntax tree takes a thousand times as long as looking for a word."""
    return (module for module in package_modules() if re.search(pattern, module.path.read_text("utf-8")))


def test_processes_are_started_only_where_that_is_the_work() -> None:
    wrong: list[str] = []
    for module in package_modules():
        if not module.inside(*STARTS_PROCESSES):
            starters = [one for one in imports(module) if one.name.partition(".")[0] in PROCESS_MODULES]
            wrong += [f"{module.where}:{one.line} imports {one.name}" for one in starters]
            wrong += [f"{module.where}:{node.lineno} {name}" for name, node in called(module) if STARTER.match(name)]
    assert wrong == []


def test_git_is_called_in_its_own_room_only() -> None:
    callers = [
        f"{module.where}:{getattr(node, 'lineno', 0)}"
        for module in modules_with("['\"]git\\b")
        if not module.inside(*CALLS_GIT)
        for node in ast.walk(module.tree)
        if names_git(node)
    ]
    assert callers == []


def test_nothing_goes_through_a_shell() -> None:
    shells: list[str] = []
    for module in modules_with(r"\bshell|_shell\b|system|popen"):
        for name, node in called(module):
            by_argument = any(key.arg == "shell" and not _is_false(key.value) for key in node.keywords)
            if by_argument or name in {"os.system", "os.popen", "asyncio.create_subprocess_shell"}:
                shells.append(f"{module.where}:{node.lineno}")
    assert shells == []


def _is_false(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is False

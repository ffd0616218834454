"""The source of Tandem as its architecture tests see it: modules, syntax trees, imports, comments."""

from __future__ import annotations

import ast
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
_CHECKED_FOLDERS = ("src", "tests", "bench", "tools")


@dataclass(frozen=True)
class Module:
    """One Python file; `name` is dotted for those of the package, else the path from the root."""

    path: Path
    name: str

    @property
    def tree(self) -> ast.Module:
        """Its syntax tree; that of a test, which is looked at once, is not kept: together they have many megabytes."""
        return _kept(self.path) if self.path.is_relative_to(SRC) else _parse(self.path)

    @property
    def lines(self) -> int:
        """How long it is."""
        return len(self.path.read_text("utf-8").splitlines())

    @property
    def where(self) -> str:
        """The path from the root, for messages."""
        return self.path.relative_to(ROOT).as_posix()

    def inside(self, *rooms: str) -> bool:
        """Whether it is one of these modules, or below one of them."""
        return any(self.name == room or self.name.startswith(f"{room}.") for room in rooms)


@dataclass(frozen=True)
class Import:
    """One imported module (or `from` it, one name, when that is where a module may hide)."""

    name: str
    line: int
    inside_function: bool


def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_bytes(), filename=str(path))


_kept = cache(_parse)


@cache
def package_modules() -> tuple[Module, ...]:
    """Every module of `tandem`."""
    return tuple(Module(path, _dotted(path)) for path in sorted(SRC.rglob("*.py")))


@cache
def all_modules() -> tuple[Module, ...]:
    """Every Python file that is ours, tests and tools included."""
    others = [path for folder in _CHECKED_FOLDERS[1:] for path in sorted((ROOT / folder).rglob("*.py"))]
    return (*package_modules(), *(Module(path, path.relative_to(ROOT).as_posix()) for path in others))


def _dotted(path: Path) -> str:
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imports(module: Module) -> list[Import]:
    """The imports of a module, absolute, at any place in it; `if TYPE_CHECKING` included."""
    found: list[Import] = []
    for node, in_function in statements(module.tree):
        if isinstance(node, ast.Import):
            found += [Import(alias.name, node.lineno, in_function) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(module, node)
            # `from tandem import store` imports tandem.store.
            names = [f"{base}.{alias.name}" for alias in node.names] if base == "tandem" else [base]
            found += [Import(name, node.lineno, in_function) for name in names]
    return found


def imported_modules(module: Module) -> set[str]:
    """The modules of `tandem` that a module imports; a package only where a name of its own is taken from it."""
    known = {one.name for one in package_modules()}
    found: set[str] = set()
    for node, _ in statements(module.tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(module, node)
            inner = (f"{base}.{alias.name}" for alias in node.names)
            found.update(name if name in known else base for name in inner)
    return (found & known) - {module.name}


def statements(node: ast.AST, *, in_function: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """Every statement below a node, and whether a function has it: a tenth of what `ast.walk` looks at."""
    for block in ("body", "handlers", "orelse", "finalbody", "cases"):
        for child in getattr(node, block, ()):
            yield child, in_function
            enters = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from statements(child, in_function=in_function or enters)


def _absolute(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    package = module.name.split(".")
    if module.path.name != "__init__.py":
        package = package[:-1]
    package = package[: len(package) - node.level + 1]
    return ".".join([*package, *([node.module] if node.module else [])])


def functions(module: Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method, nested ones too."""
    for node, _ in statements(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def comments(module: Module) -> Iterator[tuple[int, str]]:
    """Line and text of every comment."""
    with module.path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string

"""A first policy for a repository, with comments, from its folders, its owners and its checks."""

from __future__ import annotations

from collections.abc import Iterable
from posixpath import splitext
from typing import Final

from tandem.core.visible import visible_line

_DOCUMENTS: Final = frozenset({".md", ".rst", ".adoc", ".txt", ".png", ".jpg", ".jpeg", ".gif", ".webp"})
_AT_TOP: Final = frozenset({".md", ".rst", ".adoc"})
"""Of the documents, those that are nothing else at the top of a repository, where `requirements.txt` is none."""
_DOCUMENT_FOLDERS: Final = frozenset({"docs", "doc", "documentation", "website"})
_TRANSLATIONS: Final = frozenset({".po", ".pot", ".xliff", ".xlf", ".arb"})
_RISKS: Final = {
    "access": {"access", "auth", "authentication", "authorization", "login", "oauth", "permissions", "security"},
    "secrets": {"crypto", "encryption", "keys", "secrets"},
    "data": {"alembic", "migrate", "migrations", "schema"},
    "money": {"billing", "checkout", "invoices", "payment", "payments"},
    "delivery": {"ansible", "deploy", "deployment", "helm", "infra", "k8s", "terraform", "workflows"},
}

_HEAD = """\
# What a change needs before it lands. The file of the base branch counts, and a change to it needs a person.
# `tandem policy check -n 200` says what the last changes would have needed.
#
# needs: checks, review (by somebody other than the author), agent, person, owner (of CODEOWNERS), agent:NAME (of that
# client or name), agent:other-provider (than the author's).

# Patterns: "*.md" fits at the top only, "**/*.md" in any folder, "docs/**" all in a folder.
# "first": for each path the first rule that fits it; "all": all of them. A path that no rule fits needs a review.
match = "first"
"""
_LENIENT = """
[[rule]]
name = "{name}"
paths = [{paths}]
needs = ["checks"]
"""
_NO_CHECKS = """
# There are no checks yet (.tandem/checks.toml). With some, this rule lets {name} pass by them alone:
#"""
_RISKY = """
[[rule]]
name = "risks"
risk = [{words}]
needs = ["agent", "{second}"]
threshold = "minor"
"""
_REST = """
# [[rule]]
# name = "large changes"
# lines = ">800"
# needs = ["agent", "person"]

[[rule]]
name = "all else"
needs = ["review"]
"""


def init_text(files: Iterable[str], *, has_codeowners: bool, checks: Iterable[str]) -> str:
    """A policy that can be used as it is.

    Args:
        files: The repository's paths.
        has_codeowners: Whether it has a CODEOWNERS file.
        checks: Names of its checks.
    """
    documents: set[str] = set()
    translations: set[str] = set()
    risks: dict[str, set[str]] = {}
    for file in files:
        *folders, name = file.lower().split("/")
        suffix = splitext(name)[1]
        documents |= _document_patterns(folders[0] if folders else "", suffix)
        translations |= {f"**/*{suffix}"} & {f"**/*{known}" for known in _TRANSLATIONS}
        for word, names in _RISKS.items():
            if found := names.intersection(folders):
                risks.setdefault(word, set()).update(f"**/{folder}/**" for folder in found)
    names = [visible_line(name) for name in checks]
    lenient = [("documents", documents), ("translations", translations)]
    parts = [_HEAD, _risks(risks, has_codeowners=has_codeowners)]
    parts += [_lenient(name, patterns, names) for name, patterns in lenient if patterns]
    return "".join([*parts, _REST])


def _document_patterns(folder: str, suffix: str) -> set[str]:
    if not folder and suffix in _AT_TOP:
        return {f"*{suffix}"}
    return {f"{folder}/**/*{suffix}"} if folder in _DOCUMENT_FOLDERS and suffix in _DOCUMENTS else set()


def _risks(risks: dict[str, set[str]], *, has_codeowners: bool) -> str:
    if not risks:
        return ""
    lines = [f"{word} = [{_listed(patterns)}]\n" for word, patterns in sorted(risks.items())]
    rule = _RISKY.format(words=_listed(risks), second="owner" if has_codeowners else "person")
    return "".join(["\n# Where a mistake costs most.\n[risk]\n", *lines, rule])


def _lenient(name: str, patterns: set[str], checks: list[str]) -> str:
    rule = _LENIENT.format(name=name, paths=_listed(patterns))
    if checks:
        return f"\n# By these checks: {', '.join(checks)}.{rule}"
    return _NO_CHECKS.format(name=name) + rule.strip().replace("\n", "\n# ").replace("[[", " [[", 1) + "\n"


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(f'"{text}"' for text in sorted(texts))

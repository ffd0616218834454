"""`.tandem/policy.toml`: every mistake in it is an error with its line, and an error blocks; and a first one."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from posixpath import splitext
from typing import Any, Final, cast

from tandem.core.stand_ins import hex_digest
from tandem.core.visible import visible_line
from tandem.rulings.globs import compiled, folded
from tandem.rulings.policy import (
    AGENT,
    ALL,
    CARRIES,
    CATEGORIES,
    CHECKS,
    FILE,
    MATCHES,
    NEEDS,
    REASONS,
    SAME,
    SEVERITIES,
    Policy,
    Rule,
)

LARGEST_BYTES: Final = 100_000
MOST_RULES: Final = 200
_LONGEST_GLOB = 500
_MOST_ROUNDS = 100
_KEYS = ("match", "carry", "risk", "rule")

_TABLE = re.compile(r"[ \t]*\[")
_RULE = re.compile(r"""[ \t]*\[\[[ \t]*(?:rule|"rule"|'rule')[ \t]*\]\]""")
_RISK = re.compile(r"""[ \t]*\[[ \t]*(?:risk|"risk"|'risk')[ \t]*\]""")
_SYNTAX = re.compile(r"(?P<what>.*?) \(at (?:line (?P<line>\d+), column \d+|end of document)\)", re.DOTALL)
_NAME = re.compile(r"[^\W_][\w .-]{0,99}")
_PROFILE = re.compile(r"agent:([A-Za-z0-9][A-Za-z0-9._-]{0,99})")
_SIZE = re.compile(r"(?P<sign><=|>=|<|>) *(?P<size>\d{1,9})|(?P<least>\d{1,9}) *- *(?P<most>\d{1,9})")
_LONG_STRING = re.compile(r'"""|' + "'''")

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


class PolicyError(ValueError):
    """A policy that cannot be read.

    Attributes:
        line: Where, from 1.
        message: The mistake, and how to correct it.
    """

    def __init__(self, line: int, message: str) -> None:
        """Keep both; as a text they follow the file's name."""
        super().__init__(f"{FILE}, line {line}: {message}")
        self.line = line
        self.message = message


class _WrongValue(ValueError):
    """A value that cannot be read, in words that follow the key's name."""


def parse(content: bytes) -> Policy:
    """The policy that a file holds.

    Raises:
        PolicyError: There is a mistake in it.
    """
    text = _decoded(content)
    lines = _Lines(text)
    document = _document(text, lines)
    if unknown := [key for key in document if key not in _KEYS]:
        raise PolicyError(lines.of_key(unknown[0]), _unknown("key", unknown[0], _KEYS))
    match = _read(_one_of(MATCHES), document.get("match", ALL), "match", lines.of_key("match"))
    carry = _read(_one_of(CARRIES), document.get("carry", SAME), "carry", lines.of_key("carry"))
    tables = _tables(document, lines)
    risk = _risk(document.get("risk", {}), lines)
    rules: list[Rule] = []
    for number, table in enumerate(tables):
        rule = _rule(number, table, risk, lines)
        if any(rule.name == other.name for other in rules):
            raise PolicyError(lines.of_rule(number, "name"), f"another rule has the name {rule.name!r}: choose one")
        rules.append(rule)
    return Policy(hex_digest(content), match, tuple(rules), carry)


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


def _decoded(content: bytes) -> str:
    if len(content) > LARGEST_BYTES:
        raise PolicyError(1, f"the file has more than {LARGEST_BYTES} bytes: join rules that need the same")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise PolicyError(line, "this is no UTF-8: save the file as UTF-8") from None


def _document(text: str, lines: _Lines) -> dict[str, Any]:
    # Within one of these there could be lines that look like a rule's.
    if (long := _LONG_STRING.search(text)) is not None:
        line = text.count("\n", 0, long.start()) + 1
        raise PolicyError(line, "write texts in single quotes or double quotes, not in three of them")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _SYNTAX.fullmatch(str(error))
        what, line = (found["what"], found["line"]) if found is not None else (str(error), None)
        raise PolicyError(int(line) if line else lines.count, f"this is no TOML: {what}") from None
    except RecursionError:
        raise PolicyError(1, "the file is nested too deeply: no value is more than a list of texts") from None


def _tables(document: dict[str, Any], lines: _Lines) -> list[dict[str, Any]]:
    tables: Any = document.get("rule", [])
    if not tables:
        raise PolicyError(lines.count, "there is no rule: add a [[rule]] table with needs, or remove the file")
    if not isinstance(tables, list) or len(cast("list[object]", tables)) != len(lines.rules):
        raise PolicyError(lines.of_key("rule"), "write each rule as a table of its own, below a line [[rule]]")
    if len(lines.rules) > MOST_RULES:
        raise PolicyError(
            lines.rules[MOST_RULES] + 1, f"there are more than {MOST_RULES} rules: join those that need the same"
        )
    return cast("list[dict[str, Any]]", tables)


def _risk(table: object, lines: _Lines) -> dict[str, tuple[str, ...]]:
    if not isinstance(table, dict):
        raise PolicyError(lines.of_key("risk"), 'risk is a table: [risk], with lines like auth = ["src/auth/**"]')
    words = cast("dict[str, object]", table)
    return {word: _read(_globs, globs, word, lines.of_risk(word)) for word, globs in words.items()}


def _rule(number: int, table: dict[str, Any], risk: dict[str, tuple[str, ...]], lines: _Lines) -> Rule:
    read: dict[str, Any] = {}
    for key, value in table.items():
        line = lines.of_rule(number, key)
        reader = _READERS.get(key)
        if reader is None:
            raise PolicyError(line, _unknown("key", key, _READERS))
        read[key] = _read(reader, value, key, line)
    if "needs" not in read:
        raise PolicyError(lines.of_rule(number), 'the rule has no needs: add for example needs = ["review"]')
    if missing := [word for word in read.get("risk", ()) if word not in risk]:
        raise PolicyError(lines.of_rule(number, "risk"), _unknown("word of [risk]", missing[0], risk))
    if "risk" in read:
        read["risk"] = compiled(folded(glob) for word in read["risk"] for glob in risk[word])
    for key in ("paths", "branches"):
        if key in read:
            read[key] = compiled(map(folded, read[key]))
    if "not_paths" in read:
        is_lenient = read["needs"] == (CHECKS,)
        read["not_paths"] = compiled(map(folded, read["not_paths"]) if is_lenient else read["not_paths"])
    name: str = read.pop("name", f"rule {number + 1}")
    return Rule(name, lines.text_of(number), **read)


def _read(reader: Callable[[object], Any], value: object, key: str, line: int) -> Any:
    try:
        return reader(value)
    except _WrongValue as error:
        raise PolicyError(line, f"{key} {error}") from None


class _Lines:
    """Where things stand in the text of a policy, which has no strings of several lines.

    Attributes:
        count: How many lines there are.
        rules: The indexes of the lines `[[rule]]`.
    """

    def __init__(self, text: str) -> None:
        self._lines = [line.rstrip("\r") for line in text.split("\n")]
        self.count = len(text.rstrip().split("\n"))
        self.rules = [number for number, line in enumerate(self._lines) if _RULE.match(line)]

    def of_key(self, key: str) -> int:
        """The line of a key, or of a table, outside of the rules."""
        quoted = rf"""["']?{re.escape(key)}["']?"""
        return self._first(rf"[ \t]*(?:{quoted}[ \t]*[.=]|\[+[ \t]*{quoted}[ \t]*[].])", 0, len(self._lines)) or 1

    def of_risk(self, word: str) -> int:
        """The line of a risk word."""
        start = next((number for number, line in enumerate(self._lines) if _RISK.match(line)), None)
        found = None if start is None else self._key(word, start)
        return self.of_key("risk") if found is None else found

    def of_rule(self, number: int, key: str | None = None) -> int:
        """The line of a rule, or of one of its keys; rules count from 0."""
        start = self.rules[number]
        return (self._key(key, start) if key is not None else None) or start + 1

    def text_of(self, number: int) -> str:
        """The lines of a rule, without the comments before the next one."""
        start = self.rules[number]
        lines = self._lines[start : self._end(start)]
        while not lines[-1].strip() or lines[-1].lstrip().startswith("#"):
            lines.pop()
        return "\n".join(lines)

    def _key(self, key: str, start: int) -> int | None:
        return self._first(rf"""[ \t]*["']?{re.escape(key)}["']?[ \t]*[.=]""", start + 1, self._end(start))

    def _end(self, start: int) -> int:
        following = range(start + 1, len(self._lines))
        return next((number for number in following if _TABLE.match(self._lines[number])), len(self._lines))

    def _first(self, expression: str, start: int, end: int) -> int | None:
        pattern = re.compile(expression)
        return next((number + 1 for number in range(start, end) if pattern.match(self._lines[number])), None)


def _unknown(kind: str, word: str, known: Iterable[str]) -> str:
    names = list(known)
    close = get_close_matches(word, names, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(names) or 'none'}"
    return f"there is no {kind} {word!r}; {hint}"


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise _WrongValue("is a text: write it in quotes")
    if not value.isprintable():
        raise _WrongValue(f"has a character in {value!r} that cannot be seen: remove it")
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise _WrongValue('is a list of texts: write ["…", "…"]')
    listed = cast("list[object]", value)
    if not listed:
        raise _WrongValue("is empty: name something, or remove the key")
    return tuple(dict.fromkeys(map(_text, listed)))


def _glob(value: str) -> str:
    parts = value.split("/")
    if len(value) > _LONGEST_GLOB:
        raise _WrongValue(f"has a pattern of more than {_LONGEST_GLOB} characters: shorten it")
    if value.startswith("!"):
        raise _WrongValue(f"has {value!r}: leave paths out with not_paths")
    if set(value) & set("[]{}\\"):
        raise _WrongValue(f"has {value!r}: patterns have *, ? and **, and ? also stands for a bracket")
    if parts[-1] == "":
        raise _WrongValue(f"has {value!r}: write {value}** for all in a folder")
    if not {"", ".", ".."}.isdisjoint(parts):
        raise _WrongValue(f"has {value!r}: write the path from the top of the repository, as in src/app.py")
    if any("**" in part and part != "**" for part in parts):
        raise _WrongValue(f"has {value!r}: ** stands alone between slashes, as in src/**/test_*.py")
    return value


def _globs(value: object) -> tuple[str, ...]:
    return tuple(map(_glob, _texts(value)))


def _one_of(words: tuple[str, ...]) -> Callable[[object], str]:
    def read(value: object) -> str:
        if value not in words:
            raise _WrongValue(f"is one of {', '.join(words)}, in quotes")
        return cast("str", value)

    return read


def _categories(value: object) -> tuple[str, ...]:
    listed = _texts(value)
    for one in listed:
        if one not in CATEGORIES:
            raise _WrongValue(f"is a list: {_unknown('category', one, CATEGORIES)}")
    return listed


def _needs(value: object) -> tuple[str, ...]:
    listed = _texts(value)
    if len(listed) < len(cast("list[object]", value)):
        raise _WrongValue("has a word twice, which needs no second approval: name each once")
    for one in listed:
        if one not in NEEDS and _PROFILE.fullmatch(one) is None:
            raise _WrongValue(f"is a list: {_unknown('word', one, (*NEEDS, f'{AGENT}:NAME'))}")
    return listed


def _size(value: object) -> range:
    found = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        raise _WrongValue('is a size in quotes: "<=20", "<20", ">20", ">=20" or "5-20"')
    least, number = int(found["least"] or 0), int(found["most"] or found["size"])
    size = {
        None: range(least, number + 1),
        "<=": range(number + 1),
        "<": range(number),
        ">": range(number + 1, sys.maxsize),
        ">=": range(number, sys.maxsize),
    }[found["sign"]]
    if not size:
        raise _WrongValue("holds of no size: the smaller number stands first")
    return size


def _generated(value: object) -> bool:
    if not isinstance(value, bool):
        raise _WrongValue("is true or false, without quotes")
    return value


def _rounds(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _MOST_ROUNDS:
        raise _WrongValue(f"is a number from 1 to {_MOST_ROUNDS}, without quotes")
    return value


def _name(value: object) -> str:
    name = _text(value)
    if _NAME.fullmatch(name) is None or name in REASONS:
        raise _WrongValue("is letters, digits, spaces, dots and hyphens, 100 at most: choose another one")
    return name


_READERS: dict[str, Callable[[object], Any]] = {
    "name": _name,
    "paths": _globs,
    "not_paths": _globs,
    "risk": _texts,
    "branches": _globs,
    "categories": _categories,
    "lines": _size,
    "files": _size,
    "by": _texts,
    "generated": _generated,
    "needs": _needs,
    "threshold": _one_of(SEVERITIES),
    "rounds": _rounds,
}


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

"""Which lexer a file is read with.

A list of its own rather than all that Pygments knows: a lexer runs regular expressions over texts from strangers, so
only those that are in daily use (and that the tests feed with hostile texts) are let near them, and looking a name up
is one step.
"""

from __future__ import annotations

from functools import lru_cache

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name  # pyright: ignore[reportUnknownVariableType] - its options are untyped

_BY_SUFFIX = {
    "python": "py pyi pyw",
    "javascript": "js mjs cjs jsx",
    "typescript": "ts mts cts tsx",
    "json": "json jsonc webmanifest ipynb",
    "html": "html htm xhtml",
    "xml": "xml svg xsd xsl plist csproj",
    "css": "css",
    "scss": "scss",
    "less": "less",
    "vue": "vue",
    "markdown": "md markdown",
    "rst": "rst",
    "yaml": "yaml yml",
    "toml": "toml",
    "ini": "ini cfg conf properties editorconfig",
    "bash": "sh bash zsh ksh",
    "fish": "fish",
    "powershell": "ps1 psm1",
    "batch": "bat cmd",
    "make": "mk mak",
    "cmake": "cmake",
    "docker": "dockerfile",
    "nginx": "nginx",
    "terraform": "tf tfvars hcl",
    "nix": "nix",
    "c": "c h",
    "cpp": "cc cpp cxx hh hpp hxx ino",
    "csharp": "cs",
    "java": "java",
    "kotlin": "kt kts",
    "scala": "scala sc",
    "groovy": "groovy gradle",
    "go": "go",
    "rust": "rs",
    "swift": "swift",
    "objective-c": "m mm",
    "dart": "dart",
    "zig": "zig",
    "ruby": "rb rake gemspec",
    "php": "php",
    "perl": "pl pm",
    "lua": "lua",
    "r": "r",
    "julia": "jl",
    "elixir": "ex exs",
    "erlang": "erl hrl",
    "haskell": "hs",
    "ocaml": "ml mli",
    "fsharp": "fs fsx",
    "clojure": "clj cljs cljc edn",
    "common-lisp": "lisp el",
    "scheme": "scm",
    "sql": "sql",
    "graphql": "graphql gql",
    "protobuf": "proto",
    "diff": "diff patch",
    "jinja": "j2 jinja jinja2",
    "tex": "tex sty",
}
_BY_NAME = {
    "makefile": "make",
    "gnumakefile": "make",
    "dockerfile": "docker",
    "containerfile": "docker",
    "gemfile": "ruby",
    "rakefile": "ruby",
    "cmakelists.txt": "cmake",
    ".bashrc": "bash",
    ".profile": "bash",
    ".zshrc": "bash",
    ".gitconfig": "ini",
    "jenkinsfile": "groovy",
}
_ALIASES = {suffix: name for name, suffixes in _BY_SUFFIX.items() for suffix in suffixes.split()}

LANGUAGES = tuple(_BY_SUFFIX)
"""Every lexer that is used, by Pygments' name for it."""


def language_of(path: str) -> str | None:
    """The lexer for a file by its name; None for a file that is shown plainly."""
    name = path.rpartition("/")[2].lower()
    return _BY_NAME.get(name) or _ALIASES.get(name.rpartition(".")[2] if "." in name else "")


def language_named(name: str) -> str | None:
    """The lexer that a fence in Markdown asks for, by its name or a suffix of its files."""
    lowered = name.lower()
    return lowered if lowered in _BY_SUFFIX else _ALIASES.get(lowered)


@lru_cache(maxsize=len(_BY_SUFFIX))
def lexer_of(language: str) -> Lexer:
    """The lexer itself, made once for all threads: it keeps nothing between two texts."""
    return get_lexer_by_name(language)

"""Run contexts and prompts that the tests of all providers share."""

from __future__ import annotations

from dataclasses import replace

from tandem.pool.reviewers import Finished, Invocation, RunContext
from tandem.pool.reviewers.providers import provider
from tandem.pool.reviewers.providers.clean_room import Provider

SCHEMA = {"type": "object", "properties": {"verdict": {"type": "string"}}}
PROMPT = "Review $(touch x) `touch x`; touch x\n--help\n@/etc/passwd é"
MODEL = "some/model-1.5:latest"
MCP = "http://127.0.0.1:8321/mcp?project=shop"

OWN_KEYS = {
    "codex": {"CODEX_API_KEY": "key"},
    "claude": {"ANTHROPIC_API_KEY": "key", "ANTHROPIC_BASE_URL": "https://models.example.invalid"},
    "gemini": {"GEMINI_API_KEY": "key", "GOOGLE_GEMINI_BASE_URL": "https://models.example.invalid"},
    "opencode": {"SOME_API_KEY": "key"},
    "custom": {},
}
"""The part of the environment below that each provider's program gets."""

OFFERED = {
    "LANG": "de_CH.UTF-8",
    "HTTPS_PROXY": "http://proxy.example.invalid:3128",
    "no_proxy": "localhost",
    "SSL_CERT_FILE": "/etc/ssl/own.pem",
    "GITHUB_TOKEN": "secret",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "LD_PRELOAD": "/tmp/evil.so",
    "NODE_OPTIONS": "--require /tmp/evil.js",
    "TANDEM_DATABASE_URL": "postgresql://secret",
    "XDG_CONFIG_HOME": "/home/somebody/.config",
    "CLAUDE_CODE_SAFE_MODE": "0",
    **{name: value for keys in OWN_KEYS.values() for name, value in keys.items()},
}


def made(name: str) -> Provider:
    return provider(name, ("/opt/reviewer", "--flag") if name == "custom" else ())


def ended(stdout: str, exit_code: int = 0) -> Finished:
    return Finished(exit_code, stdout.encode(), b"", "itself", 1.0, output_was_cut=False)


def values(invocation: Invocation, option: str) -> list[str]:
    """The values of an option, one for each place where it is given."""
    argv = invocation.argv
    return [argv[at + 1] for at, word in enumerate(argv[:-1]) if word == option]


def without_keys(room: RunContext, **further: str) -> RunContext:
    keys = {name for keys in OWN_KEYS.values() for name in keys}
    return replace(room, environment={one: v for one, v in room.environment.items() if one not in keys} | further)

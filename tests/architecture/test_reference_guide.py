"""The guides to the reviewer pool and their reference are right in numbers, settings and programs."""

from __future__ import annotations

import json
import re
import sys
import threading
import tomllib
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tandem.pool.reviewers import RunContext, RunLimits, programs
from tandem.pool.reviewers.programs import lay_out
from tandem.pool.reviewers.prompt import load_template
from tandem.pool.reviewers.providers import NAMES, provider
from tandem.pool.reviewers.verdicts import SCHEMA, read_answer
from tandem.settings import pool as pool_settings
from tandem.settings.config import Settings
from tandem.settings.pool import PoolSettings
from tests.architecture.pages import Page
from tests.architecture.source import ROOT

GUIDES = [Page(ROOT / "docs" / "guide" / name) for name in ("reviewer-pool.md", "reviewer-profiles.md")]
REFERENCE = Page(ROOT / "docs" / "reference" / "reviewer-programs.md")
BLOCKS = [block for page in (*GUIDES, REFERENCE) for block in page.blocks]
TABLES = [tomllib.loads(block.text)["reviewer_pool"] for block in BLOCKS if block.language == "toml"]
# `max_pool_size` (3)
NUMBER = re.compile(r"`(?P<name>[a-z_]+)` \((?P<number>\d+)\)")
ANSWER: dict[str, Any] = {
    "nonce": "n",
    "digest": "abc",
    "summary": None,
    "answers": [],
    "findings": [],
    "reason": "Sound: é “”.",
    "verdict": "approved",
}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.get("provider", "any"))
def test_the_tables_of_the_guide_are_taken(table: dict[str, Any]) -> None:
    assert pool_settings.load(table).enabled


def test_every_provider_has_a_table() -> None:
    assert {table["provider"] for table in TABLES if "provider" in table} == {*NAMES}


def test_the_numbers_of_the_guide_are_the_defaults() -> None:
    defaults = {**Settings.model_fields, **PoolSettings.model_fields}
    stated = [
        (one["name"], float(one["number"])) for page in (*GUIDES, REFERENCE) for one in NUMBER.finditer(page.prose)
    ]
    assert stated
    assert [(name, number) for name, number in stated if defaults[name].default != number] == []


def test_the_template_of_the_guide_is_one_that_is_taken(tmp_path: Path) -> None:
    (text,) = [block.text for block in BLOCKS if "{{proposal}}" in block.text]
    (tmp_path / "prompt.md").write_text(text, "utf-8")
    assert load_template(tmp_path / "prompt.md") == text


class _Model(BaseHTTPRequestHandler):
    """Answers each question with the same answer, and keeps the question."""

    asked: dict[str, Any]

    def do_POST(self) -> None:
        type(self).asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps({"choices": [{"message": {"content": json.dumps(ANSWER)}}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Say nothing."""


@contextmanager
def model() -> Generator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Model)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/chat/completions"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_program_of_the_guide_gives_a_verdict(tmp_path: Path) -> None:
    (text,) = [block.text for block in BLOCKS if block.language == "python"]
    program = tmp_path / "review-locally"
    program.write_text(text, "utf-8")
    scratch = tmp_path / "run"
    scratch.mkdir()
    room = RunContext(
        workspace=str(tmp_path),
        scratch=str(scratch),
        model="coder",
        effort="high",
        schema=SCHEMA,
        environment={},
        reviewer_id="custom-r1-abcdef",
    )
    limits = RunLimits(
        start_seconds=None, total_seconds=60.0, silence_seconds=None, output_bytes=1_000_000, grace_seconds=1.0
    )
    with model() as address:
        custom = provider("custom", (sys.executable, str(program), address))
        invocation = custom.review(room, "Review this: é “”")
        lay_out(scratch, invocation.files)
        finished = programs.run(invocation, limits, on_start=lambda _: None, cancelled=threading.Event())
    assert (finished.ended_by, finished.exit_code) == ("itself", 0), finished.stderr_tail.decode()
    answer = read_answer(custom.read(finished, room).text or "", nonce="n", digest="abc", files=None)
    assert (answer.verdict, answer.reason) == ("approved", "Sound: é “”.")
    assert _Model.asked["model"] == "coder"
    assert _Model.asked["messages"][0]["content"] == "Review this: é “”"
    assert _Model.asked["response_format"]["json_schema"]["schema"] == SCHEMA

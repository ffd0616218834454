"""How a broker starts that no person started, and how one ends whose data folder is gone."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tandem.bridge.broker import start_broker
from tandem.bridge.location import published_url
from tests.commandline import Ended
from tests.forked import Started, run_tandem, start_tandem
from tests.interfaces.bridging import BridgeProcess, bridge
from tests.modes import VARIATION
from tests.ports import HeldPort
from tests.stranger import dripping, listening

PATIENCE_SECONDS = 60.0
SOON_SECONDS = 5.0
CLIENT = {"name": "test", "version": "1"}


class User:
    """Somebody with a data folder of their own, in which one broker after another runs."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.data_dir = folder / "data"
        self.said = folder / "stderr"
        self.port = port
        self.environment = {
            **{name: value for name, value in os.environ.items() if name != "TANDEM_PORT"},
            "TANDEM_DATA_DIR": str(self.data_dir),
            "TANDEM_CONFIG_DIR": str(folder / "config"),
        }

    def run(self, *words: str) -> Ended:
        ended = run_tandem(words, self.folder, self.environment, seconds=PATIENCE_SECONDS)
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    def up(self, *options: str) -> dict[str, Any]:
        """Start a broker in the background; its report of itself."""
        return self.run("up", "--background", "--json", *options).data

    def status(self) -> dict[str, Any]:
        return json.loads(self.run("status", "--json").stdout)["data"]

    @contextmanager
    def in_front(self, *options: str) -> Generator[Started]:
        """A broker in the foreground, once it answers; it is killed in the end."""
        words, pipe = ["up", "--json", *options], subprocess.PIPE
        with (
            self.said.open("ab") as errors,
            start_tandem(words, self.folder, self.environment, stdout=pipe, stderr=errors.fileno()) as process,
        ):
            assert process.stdout is not None
            assert process.stdout.readline()
            try:
                yield process
            finally:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()

    def killed(self, *options: str, **environment: str) -> None:
        """A run of the past, with these options and variables."""
        own = self.environment
        self.environment = {**own, **environment}
        with self.in_front(*options):
            pass
        self.environment = own

    def started_for_a_client(self) -> None:
        start_broker(str(self.data_dir), environment=self.environment)
        wait_for(lambda: self.status()["running"])


def wait_for(come: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not come():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    held = HeldPort()
    user = User(tmp_path, held.hold())
    yield user
    user.run("down")
    # Who waited for the place of one that hung has it now.
    wait_for(lambda: not brokers(user) or user.run("down").status != 0)
    held.release()


def brokers(user: User) -> list[int]:
    return [one.pid for one in psutil.process_iter(["cmdline"]) if str(user.data_dir) in (one.info["cmdline"] or ())]


def test_a_start_without_options_has_those_of_the_last_run(user: User) -> None:
    user.killed("--port", str(user.port), "--host", "localhost")
    user.started_for_a_client()
    assert user.status()["url"] == f"http://localhost:{user.port}"
    assert user.run("down").status == 0
    # The person's configuration file counts more than an earlier option.
    (user.folder / "config").mkdir()
    (user.folder / "config" / "config.toml").write_text("host = '127.0.0.1'\n", "utf-8")
    with user.in_front():
        assert user.status()["url"] == f"http://127.0.0.1:{user.port}"


@VARIATION
def test_a_start_by_itself_asks_for_tokens_as_the_last_run_did_whatever_became_of_its_record(user: User) -> None:
    file = user.data_dir / "last_run.json"
    user.killed("--port", str(user.port), TANDEM_AUTH="token")
    # What somebody wrote makes no broker more trusting.
    for record in ("{", '{"port": 0, "options": {"auth": "trusted"}}', None):
        file.unlink()
        if record is not None:
            file.write_text(record, "utf-8")
        with user.in_front("--port", "0"):
            assert status_without_a_token(user) == 401
    with user.in_front("--any-port"):
        assert status_without_a_token(user) == 401
        assert user.run("review", "list").status == 0


def test_a_start_by_itself_asks_for_tokens_where_the_last_run_may_have_done_so_on_another_database(user: User) -> None:
    user.killed("--port", "0")
    other = {"TANDEM_DATABASE_URL": f"sqlite:///{user.folder}/other.db", "TANDEM_AUTH": "token"}
    user.killed("--port", "0", **other)
    (user.data_dir / "last_run.json").unlink()
    with user.in_front("--any-port"):
        assert status_without_a_token(user) == 401


def test_a_start_by_itself_asks_for_tokens_on_an_older_copy_if_nothing_says_how_the_last_run_let_callers_in(
    user: User,
) -> None:
    with user.in_front("--port", "0"):
        assert user.run("data", "backup", str(user.folder / "copy.gz")).status == 0
        assert user.run("down").status == 0
    trusting = user.environment
    user.environment = {**trusting, "TANDEM_AUTH": "token"}
    with user.in_front("--port", "0"):
        assert user.run("token", "create", "somebody", "--role", "operator").status == 0
        assert user.run("down").status == 0
    user.environment = trusting
    assert user.run("data", "restore", "--replace", str(user.folder / "copy.gz")).status == 0
    (user.data_dir / "last_run.json").unlink()
    with user.in_front("--port", "0"):
        assert status_without_a_token(user) == 401


def test_a_record_of_the_last_run_with_a_value_that_cannot_be_used_is_named(user: User) -> None:
    user.data_dir.mkdir(parents=True, exist_ok=True)
    file = user.data_dir / "last_run.json"
    file.write_text('{"port": 0, "options": {"database_url": "nowhere"}}', "utf-8")
    refused = user.run("up", "--background", "--port", "0")
    assert f"{file}: database_url must match" in refused.stderr
    assert "--database" not in refused.stderr


def test_a_folder_in_place_of_the_brokers_record_is_named(user: User) -> None:
    (user.data_dir / "broker.json").mkdir(parents=True)
    refused = user.run("up", "--port", "0")
    assert refused.status == 1
    assert f"{user.data_dir / 'broker.json'} cannot be removed" in refused.stderr


def test_a_broker_trusts_everybody_again_once_a_person_says_so(user: User) -> None:
    started = user.environment
    user.killed("--port", "0", TANDEM_AUTH="token")
    for auth, status in ((None, 401), ("trusted", 200), (None, 200)):
        (user.data_dir / "last_run.json").unlink()
        user.environment = started if auth is None else {**started, "TANDEM_AUTH": auth}
        with user.in_front("--port", "0"):
            assert status_without_a_token(user) == status


def status_without_a_token(user: User) -> int:
    url = f"{user.status()['url']}/api/v1/list_reviews"
    return httpx.post(url, json={}, timeout=PATIENCE_SECONDS).status_code


def test_a_start_by_itself_makes_no_new_database_where_brokers_of_the_folder_had_another_one(user: User) -> None:
    user.killed("--port", str(user.port), TANDEM_DATABASE_URL=f"sqlite:///{user.folder}/other.db")
    (user.data_dir / "last_run.json").unlink()
    refused = user.run("up", "--background", "--port", "0")
    assert f"a broker of this data folder worked on sqlite:///{user.folder}/other.db" in refused.stderr
    assert "TANDEM_DATABASE_URL=URL tandem up --background" in refused.stderr
    assert not (user.data_dir / "tandem.db").exists()


def test_a_free_port_of_the_last_run_is_taken_again(user: User) -> None:
    with user.in_front("--port", "0"):
        first = user.status()["url"]
        assert user.run("down").status == 0
    with user.in_front():
        assert user.status()["url"] == first


def test_automatic_starts_at_once_start_one_broker(user: User) -> None:
    user.killed("--port", str(user.port))
    with bridge(folder=user.folder, **user.environment) as client:
        number = client.send("tools/call", {"name": "get_review_stats", "arguments": {}})
        start_broker(str(user.data_dir), environment=user.environment)
        user.up()
        answer = client.receive()
        assert (answer["id"], answer["result"]["structuredContent"]["ok"]) == (number, True)
    pid = user.status()["pid"]
    wait_for(lambda: brokers(user) == [pid])


@pytest.mark.parametrize("is_made_again", [False, True], ids=["deleted", "made again"])
def test_p3_a_broker_whose_data_folder_is_gone_says_so_and_ends(user: User, *, is_made_again: bool) -> None:
    with ExitStack() as stack:
        process = stack.enter_context(user.in_front("--port", str(user.port)))
        shutil.rmtree(user.data_dir)
        if is_made_again:
            stack.enter_context(user.in_front("--port", "0"))
        second = user.status()["url"] if is_made_again else ""
        assert process.wait(SOON_SECONDS + PATIENCE_SECONDS * bool(is_made_again)) == 0
        said = user.said.read_text("utf-8")
        assert f"The data folder {user.data_dir} was deleted or replaced: the broker ends." in said
        if second:
            # The new one's files are left alone.
            assert published_url(str(user.data_dir)) == second
            assert user.status()["running"]


@pytest.mark.parametrize("is_made_again", [False, True], ids=["deleted", "made again"])
def test_down_ends_a_broker_that_hangs_and_whose_data_folder_is_gone(user: User, *, is_made_again: bool) -> None:
    with ExitStack() as stack:
        process = stack.enter_context(user.in_front("--port", str(user.port)))
        os.kill(process.pid, signal.SIGSTOP)
        shutil.rmtree(user.data_dir)
        if is_made_again:
            stack.enter_context(user.in_front("--port", "0"))
        said = user.run("status")
        if not is_made_again:
            assert f"Process {process.pid}, started from {user.folder}, holds port {user.port}" in said.stderr
            assert f"does not answer (its data folder is gone). End it: kill -9 {process.pid}" in said.stderr
        ended = user.run("down")
        assert f"(process {process.pid}) has stopped" in ended.stderr
        assert process.wait(SOON_SECONDS) == 0
    assert not brokers(user)


def test_a_broker_is_stopped_and_its_log_read_though_the_settings_are_wrong_by_now(user: User) -> None:
    with user.in_front("--port", "0") as process:
        (user.folder / "config").mkdir(exist_ok=True)
        (user.folder / "config/config.toml").write_text("port = -1\n", "utf-8")
        log = user.run("logs", "-n", "1")
        assert (log.status, "only the data folder counts here" in log.stderr) == (0, True)
        assert user.run("down").status == 0
        assert process.wait(SOON_SECONDS) == 0


def test_a_stated_port_is_taken_or_refused_where_a_broker_runs(user: User) -> None:
    url = user.up("--port", "0", "--data-dir", str(user.data_dir))["url"]
    refused = user.run("up", "--background", "--port", str(user.port))
    assert (refused.status, f"A broker runs already at {url}" in refused.stderr) == (1, True)
    assert user.up("--port", url.rpartition(":")[2])["url"] == url


def test_a_broker_that_runs_is_found_again_after_its_broker_json_was_lost(user: User) -> None:
    file = user.data_dir / "broker.json"
    with user.in_front("--port", str(user.port)):
        url = user.status()["url"]
        for content in (b"garbage", None):
            file.unlink()
            if content is not None:
                file.write_bytes(content)
            wait_for(lambda: published_url(str(user.data_dir)) == url, SOON_SECONDS)
        assert user.up()["url"] == url


def silent(stack: ExitStack) -> int:
    """A program that takes connections and never answers."""
    server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    return int(server.getsockname()[1])


def no_broker(stack: ExitStack) -> int:
    """A web server of somebody else."""
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi"
    port, _ = stack.enter_context(listening(lambda _request: answer))
    return port


def never_done(stack: ExitStack) -> int:
    """A program that begins each answer, and goes on with it without end."""
    return stack.enter_context(dripping(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"))


@pytest.mark.parametrize("stranger", [silent, pytest.param(no_broker, marks=VARIATION), never_done])
def test_p12_mcp_answers_soon_beside_a_stranger_at_the_usual_port(
    user: User, stranger: Callable[[ExitStack], int]
) -> None:
    with ExitStack() as stack:
        port = stranger(stack)
        home = {"XDG_STATE_HOME": str(user.folder), "TANDEM_DATA_DIR": "", "TANDEM_PORT": str(port)}
        user.environment |= home
        user.data_dir = user.folder / "tandem"
        client = stack.enter_context(bridge(folder=user.folder, **user.environment))
        answered_soon(client)
        assert client.tool("get_review_stats")["ok"] is True
        assert user.status()["url"] != f"http://127.0.0.1:{port}"


def test_p12_commands_beside_a_stranger_whose_answer_never_ends_say_soon_whose_port_it_is(user: User) -> None:
    with ExitStack() as stack:
        port = never_done(stack)
        user.environment |= {"XDG_STATE_HOME": str(user.folder), "TANDEM_DATA_DIR": "", "TANDEM_PORT": str(port)}
        asked = {"status": 10, "review list": 20, "doctor": 10}

        def soon(words: str) -> bool:
            began = time.monotonic()
            said = user.run(*words.split())
            assert "listens there" in said.stdout + said.stderr, words
            return time.monotonic() - began < asked[words]

        with ThreadPoolExecutor(len(asked)) as pool:
            assert [*pool.map(soon, asked)] == [True] * len(asked)


def test_p12_mcp_answers_soon_beside_a_broker_that_hangs_and_says_what_is_wrong(user: User) -> None:
    with user.in_front("--port", str(user.port)) as broker:
        os.kill(broker.pid, signal.SIGSTOP)
        with bridge(folder=user.folder, **user.environment) as client:
            says = f"holds port {user.port} and does not answer (it hangs). End it: kill -9 {broker.pid}"
            assert says in answered_soon(client)["instructions"]
            refused = client.tool("get_review_stats")
            assert refused["error"]["code"] == "UNAVAILABLE"
            assert says in refused["error"]["message"]


def test_p12_a_start_beside_a_broker_that_hangs_says_soon_which_process_to_end(user: User) -> None:
    with user.in_front("--port", str(user.port)) as broker:
        os.kill(broker.pid, signal.SIGSTOP)
        began = time.monotonic()
        refused = user.run("up", "--background")
        assert time.monotonic() - began < 4 * SOON_SECONDS
        assert refused.status == 3, refused
        says = f"holds port {user.port} and does not answer (it hangs). End it: kill -9 {broker.pid}"
        assert says in refused.unwrapped
        # None is left behind that waits for the place.
        assert brokers(user) == []
        broker.kill()
        broker.wait(PATIENCE_SECONDS)
    assert user.up()["pid"] != broker.pid


def answered_soon(client: BridgeProcess) -> dict[str, Any]:
    # The start of the process is not measured.
    client.call("ping")
    began = time.monotonic()
    asked = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": CLIENT}
    answer = client.call("initialize", asked)
    assert time.monotonic() - began < SOON_SECONDS
    client.notify("notifications/initialized", {})
    assert answer["result"]["protocolVersion"] == "2025-06-18"
    return answer["result"]

"""How soon a broker and a bridge are of use after their start, and what an idle broker holds."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import time
from collections import defaultdict
from pathlib import Path
from statistics import median

import orjson

from bench import machine
from bench.commits import approve, change, working_tree
from bench.processes import ROOT, Broker, environment, free_port, python
from bench.report import quartiles, ratio_of_pairs
from bench.run import Recorder, Run
from bench.wire import MODERN, SESSION_ERA, Agent, Connection, api_call, http_request, initialize_message

MEASURE = "starts: from the start of a process to its first answer"
FIRST_CALL_SECONDS = 1.2
BRIDGE_MS = 80.0
IDLE_MB = 100.0
COMMANDS = {
    "--version": 5.0,
    "review list": 10.0,
    "submit -m Measured": 10.0,
    "review status {review} --wait": 10.0,
    "gate check": 10.0,
    "checks list {review}": 10.0,
}
"""Commands, and how often the CPU time of a bare interpreter each may take; git's is in it."""
_USAGE = 2
"""The exit status of a command that this Tandem does not have."""
_LONGEST_SECONDS = 60
_PAUSE_SECONDS = 0.002
_LIST = http_request("POST", "/api/v1/list_reviews", b'{"project":"bench"}')


async def measure(run: Run) -> None:
    """Brokers on fresh data, each asked in another way; then bridges to a broker that runs."""
    record = run.recorder(MEASURE)
    times = run.times(5, 3)
    for face in ("JSON API", SESSION_ERA, MODERN):
        taken = [await _first_call(run, face, number) for number in range(times)]
        name = f"broker: first answered call, {face}"
        record.add(name, median(taken), "s", FIRST_CALL_SECONDS, detail=quartiles(taken))
    await _bridges(run, record)


async def _first_call(run: Run, face: str, number: int) -> float:
    """Seconds from the start of the process to the answer of the first call, sent as soon as the port opens."""
    port = free_port()
    started = time.perf_counter()
    with Broker.starting(run.scratch / f"start-{face.replace(' ', '-')}-{number}", port):
        connection = await _connected(port)
        if face == "JSON API":
            await connection.ask(_LIST)
        else:
            await Agent(connection, face).call("list_reviews", project="bench")
        took = time.perf_counter() - started
        await connection.close()
    return took


async def _connected(port: int) -> Connection:
    deadline = time.monotonic() + _LONGEST_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            return await Connection.open(port)
        await asyncio.sleep(_PAUSE_SECONDS)
    raise TimeoutError("the broker opened no port")


async def _bridges(run: Run, record: Recorder) -> None:
    with Broker(run.scratch / "bridged") as broker:
        # The first message that the SDK answers is proof that it has been imported.
        agent = await Agent.connect(broker.port, SESSION_ERA)
        await agent.call("list_reviews", project="bench")
        idle = broker.rss_bytes() / 1e6
        record.add("broker: memory when idle, SDK imported", idle, "MB", IDLE_MB)
        env = environment(broker.data_dir)
        times = run.times(15, 5)
        taken = [await asyncio.to_thread(_bridge_answer_ms, env) for _ in range(times)]
        bare = [await asyncio.to_thread(_bare_python_ms, env) for _ in range(times)]
        detail = f"{quartiles(taken, digits=0)}; python -c pass takes {median(bare):.0f}"
        record.add("bridge: initialize answered", median(taken), "ms", BRIDGE_MS, detail=detail)
        root = working_tree(run.scratch / "commanded", env)
        await api_call(broker.port, "register_project", root=str(root), name="commanded")
        change(root, env, 0)
        submitted = await asyncio.to_thread(_run, ["-m", "tandem", "submit", "-m", "Measured", "--json"], root, env)
        review = json.loads(submitted.stdout)["data"]["review_id"]
        await approve(broker.port, review)
        await asyncio.to_thread(_commands, run, record, review, root, env)
        await agent.connection.close()


def _commands(run: Run, record: Recorder, review: str, root: Path, env: dict[str, str]) -> None:
    """The cost of commands that an agent or a person runs all day, in multiples of an interpreter's.

    The staged change is approved, so that each command answers at once and ends well.
    """
    words = {name: ["-m", "tandem", *name.format(review=review).split()] for name in COMMANDS}
    known = [name for name, arguments in words.items() if _run(arguments, root, env).returncode != _USAGE]
    taken: dict[str, list[float]] = defaultdict(list)
    for _ in range(run.times(15, 7)):
        taken[""].append(_cpu_ms(["-c", "pass"], root, env))
        for name in known:
            taken[name].append(_cpu_ms(words[name], root, env))
    for name in known:
        detail = f"{quartiles(taken[name], digits=0)} ms; python -c pass takes {median(taken['']):.0f}"
        title = f"tandem {name.format(review='REVIEW')}: CPU"
        record.add(title, ratio_of_pairs(taken[name], taken[""]), "x", COMMANDS[name], detail=detail)


def _cpu_ms(arguments: list[str], root: Path, env: dict[str, str]) -> float:
    """Processor time of an interpreter that ends well, user and system, with that of its own children."""
    before = machine.children_cpu_ms()
    _run(arguments, root, env).check_returncode()
    return machine.children_cpu_ms() - before


def _run(arguments: list[str], root: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([python(), *arguments], cwd=root, env=env, check=False, capture_output=True, text=True)


def _bridge_answer_ms(env: dict[str, str]) -> float:
    """From the start of `tandem mcp` to its answer to `initialize`."""
    started = time.perf_counter()
    with machine.starting_a_server():
        bridge = subprocess.Popen(
            [python(), "-m", "tandem", "mcp"], cwd=ROOT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
    with bridge:
        assert bridge.stdin is not None
        assert bridge.stdout is not None
        bridge.stdin.write(orjson.dumps(initialize_message()) + b"\n")
        bridge.stdin.flush()
        answer = json.loads(bridge.stdout.readline())
        took = (time.perf_counter() - started) * 1000
        assert answer["result"]["serverInfo"], answer
        bridge.stdin.close()
        bridge.wait(_LONGEST_SECONDS)
    return took


def _bare_python_ms(env: dict[str, str]) -> float:
    started = time.perf_counter()
    with machine.starting_a_server():
        bare = subprocess.Popen([python(), "-c", "pass"], cwd=ROOT, env=env)
    bare.wait(_LONGEST_SECONDS)
    return (time.perf_counter() - started) * 1000

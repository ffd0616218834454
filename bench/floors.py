"""The floors: the interpreter, a route on a bare server, a durable transaction in hand-written SQL, a git process."""

from __future__ import annotations

import asyncio
import hashlib
import platform
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from statistics import median

from bench import machine
from bench.processes import BareServer
from bench.report import quartiles
from bench.run import Run
from bench.wire import Connection, http_request, tool_call

MEASURE = "floors: the same machine at the same time, without a broker"
ROUTE = "route"
TRANSACTION = "transaction"
PROCESS = "process"
_CLIENTS = 32
_TURNS = 100_000
_SCHEMA = """
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    CREATE TABLE head (id INTEGER PRIMARY KEY, seq INTEGER NOT NULL);
    CREATE TABLE events (seq INTEGER PRIMARY KEY, subject TEXT NOT NULL, data TEXT NOT NULL, hash TEXT NOT NULL);
    CREATE INDEX by_subject ON events (subject, seq);
    CREATE TABLE reviews (id TEXT PRIMARY KEY, state TEXT NOT NULL, event_hash TEXT NOT NULL) WITHOUT ROWID;
    CREATE INDEX by_state ON reviews (state, id);
    INSERT INTO head VALUES (1, 0);
"""
_DATA = '{"round": 1, "digest": null, "claim_generation": 1}' * 8


async def measure(run: Run) -> None:
    """Measure them, and leave them for other measures to compare with."""
    _interpreter(run)
    await _route(run)
    _transaction(run)
    _process(run)


def _interpreter(run: Run) -> None:
    """What Python itself takes: builds of the same version differ by a third."""
    cpu: list[float] = []
    for _ in range(run.times(20, 5)):
        used = time.thread_time()
        _turns()
        cpu.append((time.thread_time() - used) * 1000)
    detail = f"{quartiles(cpu)}; Python {platform.python_version()}, {sys.executable}"
    run.recorder(MEASURE).add(f"interpreter: {_TURNS:,} turns of a loop, CPU", median(cpu), "ms", detail=detail)


def _turns() -> int:
    """Calls, numbers, texts, tuples and dictionaries, as an operation is made of them."""
    kept: dict[int, tuple[int, str]] = {}
    total = 0
    for number in range(_TURNS):
        kept[number % 100] = (number, str(number))
        total += kept[number % 100][0]
    return total


async def _route(run: Run) -> None:
    record = run.recorder(MEASURE)
    request = http_request(
        "POST", "/", tool_call("2025-06-18", "get_review_status", {"review_id": "rv_1"}).split(b"\r\n\r\n", 1)[1]
    )
    with BareServer() as server:
        connections = [await Connection.open(server.port) for _ in range(_CLIENTS)]

        async def ask(connection: Connection, times: int) -> None:
            for _ in range(times):
                await connection.ask(request)

        await ask(connections[0], 300)
        alone: list[float] = []
        together: list[float] = []
        cpu: list[float] = []
        crowded_cpu: list[float] = []
        count = run.times(2_000, 500)
        for _ in range(run.times(5, 3)):
            used, started = server.cpu_ms(), time.perf_counter()
            await ask(connections[0], count)
            alone.append((time.perf_counter() - started) * 1000 / count)
            cpu.append((server.cpu_ms() - used) / count)
            used, started = server.cpu_ms(), time.perf_counter()
            each = 2 * count // _CLIENTS
            await asyncio.gather(*(ask(connection, each) for connection in connections))
            together.append(each * _CLIENTS / (time.perf_counter() - started))
            crowded_cpu.append((server.cpu_ms() - used) / (each * _CLIENTS))
        for connection in connections:
            await connection.close()
    run.floors[ROUTE] = median(cpu)
    record.add("bare route: CPU a request, 1 client", median(cpu), "ms", detail=quartiles(cpu, digits=3))
    detail = quartiles(crowded_cpu, digits=3)
    record.add(f"bare route: CPU a request, {_CLIENTS} clients", median(crowded_cpu), "ms", detail=detail)
    record.add("bare route: answer, 1 client", median(alone), "ms", detail=quartiles(alone, digits=3))
    record.add(f"bare route: {_CLIENTS} clients", median(together), "req/s")


def _transaction(run: Run) -> None:
    record = run.recorder(MEASURE)
    wall: list[float] = []
    cpu: list[float] = []
    with closing(_database(run.scratch / "floor.db")) as connection:
        for number in range(200):
            _write(connection, number)
        for number in range(200, 200 + run.times(2_000, 500)):
            started, used = time.perf_counter(), time.thread_time()
            _write(connection, number)
            wall.append((time.perf_counter() - started) * 1000)
            cpu.append((time.thread_time() - used) * 1000)
    run.floors[TRANSACTION] = median(cpu)
    record.add("bare transaction (WAL, FULL): CPU", median(cpu), "ms", detail=quartiles(cpu, digits=3))
    record.add("bare transaction (WAL, FULL)", median(wall), "ms", detail=quartiles(wall, digits=3))


def _process(run: Run) -> None:
    """The least that a git command takes, where the broker's own git runs."""
    wall: list[float] = []
    with machine.starting_a_server():
        for _ in range(run.times(100, 30)):
            started = time.perf_counter()
            subprocess.run(["git", "--version"], check=True, stdout=subprocess.DEVNULL)
            wall.append((time.perf_counter() - started) * 1000)
    run.floors[PROCESS] = median(wall)
    run.recorder(MEASURE).add("git --version", median(wall), "ms", detail=quartiles(wall))


def _database(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript(_SCHEMA)
    return connection


def _write(connection: sqlite3.Connection, number: int) -> None:
    """A numbered event with a hash, and the state that it leads to: what the least of brokers would write."""
    subject = f"rv_{number:08}"
    connection.execute("BEGIN IMMEDIATE")
    (seq,) = connection.execute("UPDATE head SET seq = seq + 1 WHERE id = 1 RETURNING seq").fetchone()
    digest = hashlib.sha256(f"{seq}{subject}{_DATA}".encode()).hexdigest()
    connection.execute("INSERT INTO events VALUES (?, ?, ?, ?)", (seq, subject, _DATA, digest))
    connection.execute("INSERT INTO reviews VALUES (?, 'pending', ?)", (subject, digest))
    connection.execute("COMMIT")

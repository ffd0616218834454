"""Several brokers on one PostgreSQL, beside one on SQLite: rates, lock waits, the database's processor time, wake-ups.

PostgreSQL writes durably, as its users run it. Clients have a processor of their own; brokers and database share the
others. `python -m bench.brokers PORT...` is the load under which wake-ups are measured.
"""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing, contextmanager
from statistics import median
from typing import TYPE_CHECKING, Any, Self

import psutil
import psycopg

from bench import life_cycle, machine
from bench.processes import ROOT, Broker
from bench.report import percentile, quartiles
from bench.wire import Agent, health
from tests.postgres import PostgresServer

if TYPE_CHECKING:
    from bench.run import Recorder, Run

MEASURE = "brokers: life cycles on SQLite and on PostgreSQL, by one broker and by several"
NUMBERS = (1, 2, 4)
CLIENTS = life_cycle.CLIENTS
SHARE_OF_SQLITE = 0.5
TWO_AGAINST_ONE = 1.5
LOCK_WAITS_PER_CENT = 5.0
CPU_OF_BARE = 1.3
WAKE_MS, WAKE_P99_MS = 5.0, 20.0
_WRITES = 4
"""Transactions that the least of brokers would need for a life cycle."""
_WITHOUT_FREE = 3
"""Processors that a client, two brokers and a database keep busy."""
_SAMPLE_SECONDS = 0.005
_SAMPLE = """
    SELECT coalesce(wait_event_type, 'runs'), count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND backend_type = 'client backend' AND state <> 'idle'
    AND pid <> pg_backend_pid() AND query NOT LIKE 'LISTEN%' GROUP BY 1
"""
_BARE_TABLES = (
    "CREATE TABLE bare_events (seq bigserial PRIMARY KEY, subject text NOT NULL, data text NOT NULL)",
    "CREATE TABLE bare_state (id integer PRIMARY KEY, data text NOT NULL)",
    "INSERT INTO bare_state SELECT number, '' FROM generate_series(0, 99) AS number",
)
_DATA = '{"round": 1, "digest": null, "claim_generation": 1}' * 8


async def measure(run: Run) -> None:
    """SQLite first, then one, two and four brokers on a PostgreSQL of their own."""
    record = run.recorder(MEASURE)
    with Broker(run.scratch / "brokers-sqlite") as broker:
        sqlite = await _rates(run, record, "SQLite, 1 broker", [broker])
    with machine.starting_a_server():
        server = PostgresServer(durable=True)
        stack = ExitStack()
        stack.callback(server.remove)
        server.start()
    with stack:
        bare = _bare_ms(run, record, server)
        one: tuple[float, float] | None = None
        for number in NUMBERS[: run.times(3, 2)]:
            name = f"PostgreSQL, {number} broker{'s' * (number > 1)}"
            with _brokers(run, server, number) as (brokers, url):
                empty, _ = _size(url)
                with _Watched(url) as watched:
                    rates = await _rates(run, record, name, brokers, watched=watched)
                watched.report(record, name, bare, CPU_OF_BARE if number <= NUMBERS[1] else None)
                if one is None:
                    one = rates
                    full, cycles = _size(url)
                    size = (full - empty) / cycles / 1000
                    record.add("size of the database a cycle, PostgreSQL", size, "kB", detail=f"{cycles} cycles")
                    for clients, ours, theirs in zip((1, CLIENTS), rates, sqlite, strict=True):
                        what = f"{name}: against SQLite, {clients} client{'s' * (clients > 1)}"
                        record.add(what, ours / theirs, "x", SHARE_OF_SQLITE, ">=")
                else:
                    # With fewer processors, brokers share one with the database, which tells by its processor time
                    # whether they are in each other's way.
                    processors = machine.facts()["processors"]
                    target = TWO_AGAINST_ONE if number == NUMBERS[1] and processors > _WITHOUT_FREE else None
                    what = f"{name}: against 1 broker, {CLIENTS} clients"
                    record.add(what, rates[1] / one[1], "x", target, ">=", f"{processors} processors")
                if number == NUMBERS[1]:
                    await _wake(run, record, name, brokers)


def _size(url: str) -> tuple[int, int]:
    """The size of a database in bytes, and how many reviews it has."""
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT pg_database_size(current_database()), count(*) FROM reviews").fetchone()
    assert row is not None
    return row


@contextmanager
def _brokers(run: Run, server: PostgresServer, number: int) -> Generator[tuple[list[Broker], str]]:
    """So many brokers on a fresh database, and its URL."""
    url = server.create_database()
    with ExitStack() as stack:
        stack.callback(server.drop_database, url)
        folder = run.scratch / f"brokers-{number}"
        shared: dict[str, Any] = {"database_url": url, "secret_key_file": folder / "secret.key"}
        # One after the other: the first makes the tables and the secret.
        yield [stack.enter_context(Broker(folder / str(which), **shared)) for which in range(number)], url


async def _rates(
    run: Run, record: Recorder, name: str, brokers: Sequence[Broker], *, watched: _Watched | None = None
) -> tuple[float, float]:
    """Life cycles a second with one client and with many, who are spread over the brokers."""
    ports = [broker.port for broker in brokers]
    agents = [await Agent.connect(port) for port, _ in zip(itertools.cycle(ports), range(CLIENTS), strict=False)]
    await _together(agents, 2)
    alone: list[float] = []
    together: list[float] = []
    latencies: life_cycle.Latencies = defaultdict(list)
    for _ in range(run.times(5, 2)):
        count = run.times(60, 20)
        started = time.perf_counter()
        for _ in range(count):
            await life_cycle.cycle(agents[0], latencies)
        alone.append(count / (time.perf_counter() - started))
        each = run.times(12, 3)
        before = watched.cpu_ms() if watched else 0.0
        if watched:
            watched.is_sampling.set()
        together.append(await _together(agents, each))
        if watched:
            watched.is_sampling.clear()
            watched.cycles_ms.append((watched.cpu_ms() - before) / (each * CLIENTS))
    record.add(f"{name}: cycles, 1 client", median(alone), "/s", detail=quartiles(alone))
    record.add(f"{name}: cycles, {CLIENTS} clients", median(together), "/s", detail=quartiles(together))
    for agent in agents:
        await agent.connection.close()
    return median(alone), median(together)


async def _together(agents: Sequence[Agent], each: int) -> float:
    latencies: life_cycle.Latencies = defaultdict(list)

    async def several(agent: Agent) -> None:
        for _ in range(each):
            await life_cycle.cycle(agent, latencies)

    started = time.perf_counter()
    await asyncio.gather(*map(several, agents))
    return each * len(agents) / (time.perf_counter() - started)


class _Watched:
    """A database under watch: what its connections wait for, and what its processes take.

    Attributes:
        is_sampling: Set while samples are taken.
        cycles_ms: The database's processor time for a life cycle, in each round.
    """

    def __init__(self, url: str) -> None:
        self.is_sampling = threading.Event()
        self.cycles_ms: list[float] = []
        self._samples: Counter[str] = Counter()
        self._connection = psycopg.connect(url, autocommit=True)
        self._postmaster = _postmaster(self._connection)
        self._is_over = False
        self._thread = threading.Thread(target=self._sample, name="samples")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self.is_sampling.set()
        self._thread.join()
        self._connection.close()

    def cpu_ms(self) -> float:
        """Processor time of all the server's processes so far but for the one that takes the samples."""
        return _cpu_ms(self._postmaster, without=self._connection.info.backend_pid)

    def report(self, record: Recorder, name: str, bare_ms: float, target: float | None) -> None:
        """The figures of the samples that were taken while many clients were at work."""
        total = max(1, self._samples.total())
        shares = " ".join(f"{kind}={100 * count / total:.0f}%" for kind, count in self._samples.most_common())
        waits = 100 * self._samples["Lock"] / total
        record.add(f"{name}: busy connections that wait for a lock", waits, "%", LOCK_WAITS_PER_CENT, detail=shares)
        cpu = median(self.cycles_ms)
        record.add(f"{name}: database CPU a cycle", cpu, "ms", detail=quartiles(self.cycles_ms))
        what = f"{name}: the same against {_WRITES} bare transactions"
        record.add(what, cpu / (_WRITES * bare_ms), "x", target)

    def _sample(self) -> None:
        while self.is_sampling.wait() and not self._is_over:
            for kind, count in self._connection.execute(_SAMPLE):
                self._samples[kind] += count
            time.sleep(_SAMPLE_SECONDS)


def _postmaster(connection: psycopg.Connection) -> psutil.Process:
    found = psutil.Process(connection.info.backend_pid).parent()
    assert found is not None
    return found


def _cpu_ms(postmaster: psutil.Process, *, without: int = 0) -> float:
    total = 0.0
    for process in (postmaster, *postmaster.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system if process.pid != without else 0.0
    return total * 1000


def _bare_ms(run: Run, record: Recorder, server: PostgresServer) -> float:
    """The database's processor time for an update, an insert and a commit that are sent together, prepared."""
    url = server.create_database()
    cpu: list[float] = []
    rates: list[float] = []
    with closing(psycopg.connect(url, autocommit=True, prepare_threshold=0)) as connection:
        for statement in _BARE_TABLES:
            connection.execute(statement)
        postmaster = _postmaster(connection)
        count = run.times(2_000, 500)
        for turn in range(run.times(6, 3)):
            before, started = _cpu_ms(postmaster), time.perf_counter()
            for number in range(count):
                with connection.pipeline(), connection.transaction():
                    connection.execute("UPDATE bare_state SET data = %s WHERE id = %s", (str(number), number % 100))
                    subject = f"rv_{number:08}"
                    connection.execute("INSERT INTO bare_events (subject, data) VALUES (%s, %s)", (subject, _DATA))
            if turn:
                rates.append(count / (time.perf_counter() - started))
                cpu.append((_cpu_ms(postmaster) - before) / count)
    server.drop_database(url)
    record.add("bare transaction on PostgreSQL, pipelined, 1 client", median(rates), "/s", detail=quartiles(rates))
    record.add("bare transaction on PostgreSQL: database CPU", median(cpu), "ms", detail=quartiles(cpu, digits=3))
    return median(cpu)


async def _wake(run: Run, record: Recorder, name: str, brokers: Sequence[Broker]) -> None:
    """From a write that one broker has answered to the answer of who waited for it at another, while others work."""
    load = [sys.executable, "-m", "bench.brokers", *(str(broker.port) for broker in brokers)]
    with subprocess.Popen(load, cwd=ROOT, stdout=subprocess.PIPE) as loading:  # noqa: ASYNC220 - it takes a millisecond
        try:
            assert loading.stdout is not None
            assert await asyncio.to_thread(loading.stdout.readline), "the load did not begin"
            writer, waiter = await Agent.connect(brokers[0].port), await Agent.connect(brokers[1].port)
            taken = [await _woken_ms(writer, waiter, brokers[1]) for _ in range(run.times(600, 60))]
            assert loading.poll() is None, "the load ended before the measurement"
            await writer.connection.close()
            await waiter.connection.close()
        finally:
            loading.terminate()
    detail = f"{quartiles(taken)}; {CLIENTS} clients at work"
    record.add(f"{name}: from a write at one to a waiter at another", median(taken), "ms", WAKE_MS, detail=detail)
    record.add(f"{name}: the same, p99", percentile(taken, 0.99), "ms", WAKE_P99_MS)


async def _woken_ms(writer: Agent, waiter: Agent, waited_at: Broker) -> float:
    who = {"agent_type": "gsd-executor", "proposer_id": "bench-proposer"}
    created = await writer.call("create_review", project="bench-wake", intent="Wait for me", **who)
    which = {"review_id": created["review_id"]}
    waiter.begin("get_review_status", wait=True, wake_on="any", cursor=created["cursor"], timeout_s=30, **which)
    while not (await health(waited_at.port))["waiting"]:  # noqa: ASYNC110 - only the broker knows, and has to be asked
        await asyncio.sleep(0.001)

    async def noted() -> float:
        assert (await waiter.end())["changed"]
        return time.perf_counter()

    waiting = asyncio.create_task(noted())
    await writer.call("close_review", **which)
    written = time.perf_counter()
    return max(0.0, (await waiting - written) * 1000)


async def _load(ports: Sequence[int]) -> None:
    """Life cycles without end; says so once all are at work."""
    agents = [await Agent.connect(port) for port, _ in zip(itertools.cycle(ports), range(CLIENTS), strict=False)]
    await _together(agents, 1)
    sys.stdout.write("at work\n")
    sys.stdout.flush()
    while True:
        await _together(agents, 10)


if __name__ == "__main__":
    machine.pin_client()
    asyncio.run(_load([int(port) for port in sys.argv[1:]]))

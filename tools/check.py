"""Everything that a change must pass: `make test`, and so CI.

    python tools/check.py [--static | --tests | --fuzz MINUTES] [--clients NAMES] [--installation] [--keep-going]
                          [arguments of pytest]

The checks that only read run first, two at a time; when one fails, its output is shown and the tests
are not started (unless `--keep-going`). The slowest of them, that of the types, runs beside the tests:
alone it would leave processors idle for a minute. So do, with `--clients`, the tests of the real client
programs (`tools/clients.py`), which mostly wait, and with `--installation` what `tools/installation.py` tries. The
last line counts checks and tests together: `1234 passed, 0 failed`. Exit status 0 means that nothing failed.

`--fuzz` is another thing: the tests that explore, with random examples, for so long (`tests/fuzzing.py`).
"""

from __future__ import annotations

import argparse
import compileall
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PARALLEL_CHECKS = 2
MOST_WORKERS = 4
MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it
# A run of the tests has some 0.7 GB of files.
MEMORY_BYTES = 4_000_000_000
# Pytest's exit status when it found none.
NO_TESTS = 5
# Pytest has this long to stop its servers after Ctrl-C, before it is asked less kindly.
STOP_SECONDS = 15


@dataclass(frozen=True)
class Check:
    """A command that is right when its exit status is 0.

    Attributes:
        only_if: A file or folder without which it has no meaning yet.
        tells: Whether its errors are shown as they come, because it may take long and reports its progress. Where it
            fails, the first of the tests that need it fails.
        sums_up: Whether its last line is shown beside its outcome: how much it checked.
    """

    name: str
    arguments: tuple[str, ...]
    only_if: str = "pyproject.toml"
    tells: bool = False
    sums_up: bool = False


@dataclass(frozen=True)
class Outcome:
    """How many passed and failed in a step, and how long it took."""

    name: str
    passed: int
    failed: int
    seconds: float
    output: str = ""
    remark: str = ""


TYPES = Check("types (pyright)", ("-m", "pyright", "--warnings"))
CHECKS = (
    Check("lint (ruff)", ("-m", "ruff", "check", ".")),
    Check("format (ruff)", ("-m", "ruff", "format", "--check", ".")),
    Check("imports (import-linter)", ("-c", "from importlinter.cli import lint_imports_command as run; run()")),
    Check("pinned versions", ("tools/constraints.py", "--check")),
    Check("versions fit", ("-m", "pip", "--disable-pip-version-check", "check")),
    Check("generated pages", ("tools/reference.py", "--check"), "tools/reference.py"),
    Check("generated client", ("tools/python_client.py", "--check"), "tools/python_client.py"),
    Check("generated commands", ("tools/commands_table.py", "--check"), "tools/commands_table.py"),
    Check("words", ("tools/words.py",), "tools/words.py", sums_up=True),
    Check("commits", ("tools/commits.py",), "tools/commits.py", sums_up=True),
)
# No test of the pages without it; brought while the others are at work.
BROWSER = Check("browser (Chromium)", ("tools/browser.py",), "tests/pages", tells=True)
SCREENSHOTS = "TANDEM_SCREENSHOTS"


def main() -> int:
    """Runs the wanted checks and prints the summary last."""
    options, pytest_arguments = _arguments()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    started = time.monotonic()
    outcomes: list[Outcome] = []
    try:
        if options.fuzz is not None:
            return fuzz(options.fuzz, pytest_arguments)
        # The longest first, so that the others run beside it.
        wanted = (TYPES, *CHECKS) if options.static else (BROWSER, *(() if options.tests else CHECKS))
        outcomes += run_checks([check for check in wanted if (ROOT / check.only_if).exists()])
        stop = any(outcome.failed for outcome in outcomes) and not options.keep_going
        if not options.static and not stop:
            beside = [] if options.tests else [TYPES]
            if options.clients:
                of_clients = ("tools/clients.py", "--only", options.clients, "--quiet")
                beside.insert(0, Check("real clients (pytest)", of_clients))
            if options.installation:
                beside.append(Check("installation", ("tools/installation.py",)))
            outcomes += run_tests_beside(beside, pytest_arguments)
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    _summarise(outcomes, time.monotonic() - started, tests_left_out=not options.static and stop)
    return 1 if any(outcome.failed for outcome in outcomes) else 0


def _arguments() -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(description="Run the checks and the tests.", allow_abbrev=False)
    parser.add_argument("--static", action="store_true", help="only the checks that read")
    parser.add_argument("--tests", action="store_true", help="only the tests")
    parser.add_argument("--fuzz", type=float, metavar="MINUTES", help="only look for new counterexamples, so long")
    parser.add_argument("--clients", metavar="NAMES", help="the tests of these real clients, too: codex,claude")
    parser.add_argument("--installation", action="store_true", help="installing it in empty environments, too")
    parser.add_argument("--keep-going", action="store_true", help="run the tests even when a check has failed")
    return parser.parse_known_args()


def run_checks(checks: list[Check]) -> list[Outcome]:
    """All of them, a few at a time; the output of those that fail is printed."""
    outcomes: list[Outcome] = []
    with ThreadPoolExecutor(PARALLEL_CHECKS) as pool:
        for future in as_completed([pool.submit(_run_check, check) for check in checks]):
            outcome = future.result()
            outcomes.append(outcome)
            _tell(outcome)
    return outcomes


def run_tests_beside(checks: list[Check], arguments: list[str]) -> list[Outcome]:
    """The tests, and meanwhile checks whose outcome is told after them."""
    with ThreadPoolExecutor(PARALLEL_CHECKS) as pool:
        running = [pool.submit(_run_check, check) for check in checks]
        tests = run_tests(arguments)
        outcomes = [future.result() for future in running]
    for outcome in outcomes:
        _tell(outcome)
    return [*outcomes, tests]


def _run_check(check: Check) -> Outcome:
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, *check.arguments],
        cwd=ROOT,
        env=_environment(),
        stdout=subprocess.PIPE,
        stderr=None if check.tells else subprocess.STDOUT,
        check=False,
    )
    output = done.stdout.decode("utf-8", "replace")
    failed = int(done.returncode != 0)
    seconds = time.monotonic() - started
    if failed and check.tells:
        return Outcome(check.name, 0, 0, seconds, remark="the first test that needs it fails")
    remark = output.strip().rpartition("\n")[2] if check.sums_up and not failed else ""
    return Outcome(check.name, 1 - failed, failed, seconds, output, remark)


def _environment() -> dict[str, str]:
    """Ours, without what a git hook or an active environment adds, and with Node from the pinned wheel.

    Python keeps its compiled files, also where it is told not to: else every worker compiles every test again.
    """
    without = ("GIT_", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(without)}
    ours = {"PYRIGHT_PYTHON_GLOBAL_NODE": "0", "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1", "PYTHONUTF8": "1"}
    return {**kept, **ours, SCREENSHOTS: str(screenshots())}


def run_tests(arguments: list[str]) -> Outcome:
    """Pytest over all processors, its output shown as it comes."""
    started = time.monotonic()
    # Once, and not by each of the thousands of processes that tests start: some machines have Python keep nothing.
    compileall.compile_dir(ROOT / "src", quiet=2)
    began = time.time()
    memory = _memory()
    with tempfile.TemporaryDirectory(prefix="tandem-check-", dir=memory) as folder:
        # PostgreSQL may run as another user, who has to get to its own folder in this one.
        Path(folder).chmod(0o711)
        report = Path(folder) / "tests.xml"
        # Tests wait for other processes, the disk and the clock: with two more there is one that can go on,
        # and each more collects all tests, and starts the servers that they share, once more.
        workers = str(min((os.cpu_count() or 1) + 2, MOST_WORKERS))
        spread = ["--numprocesses", workers, "--dist", "worksteal"]
        # Sets have the same order in every run.
        there = {"PYTHONHASHSEED": "0", **({"TMPDIR": folder} if memory else {})}
        status = _stream(["-m", "pytest", *spread, f"--junitxml={report}", *arguments], there)
        passed, failed, skipped = _counts(report)
    if status != 0 and failed == 0:
        # Nothing collected, a crash or a wrong argument: not a failed test, and not a success.
        failed, remark = 1, f"pytest ended with exit status {status}"
    else:
        remark = ", ".join(filter(None, [f"{skipped} skipped" if skipped else "", _pictures(began)]))
    return Outcome("tests (pytest)", passed, failed, time.monotonic() - started, remark=remark)


def fuzz(minutes: float, arguments: list[str]) -> int:
    """Run the tests that explore, in one pytest for each processor; 0 if nothing was found."""
    parts = os.cpu_count() or 1
    print(f"fuzz: {minutes:g} minutes in {parts} processes", flush=True)
    wanted = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--fuzz", str(minutes * 60), *arguments]
    memory = _memory()
    with tempfile.TemporaryDirectory(prefix="tandem-fuzz-", dir=memory) as folder:
        there = {"TMPDIR": folder} if memory else {}
        running = [_started([*wanted, "--fuzz-share", f"{part + 1}/{parts}"], there) for part in range(parts)]
        try:
            statuses = {process.wait() for process in running}
        except KeyboardInterrupt:
            for process in running:
                _end(process)
            raise
    # One part may have no test.
    found = statuses not in ({0}, {0, NO_TESTS})
    print("fuzz: something was found, or went wrong: see above" if found else "fuzz: nothing was found", flush=True)
    return int(found)


def _memory() -> Path | None:
    """A file system in memory with room for the tests' files, whose every commit waits for the disk elsewhere."""
    if sys.platform != "linux" or "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK):
        return None
    if os.statvfs(MEMORY).f_flag & os.ST_NOEXEC or shutil.disk_usage(MEMORY).free < MEMORY_BYTES:
        return None
    return MEMORY


def _pictures(since: float) -> str:
    """What tests of the pages have kept for people to look at."""
    folder = screenshots()
    fresh = [path for path in folder.glob("*.png") if path.stat().st_mtime >= since]
    return f"{len(fresh)} screenshots in {os.path.relpath(folder, ROOT)}" if fresh else ""


def screenshots() -> Path:
    """The folder with the tests' pictures of pages."""
    return Path(os.environ.get(SCREENSHOTS) or ROOT / "build" / "screenshots").resolve()


def _started(arguments: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    # A group of its own, so that an interruption reaches every worker, wherever it came from.
    command = [sys.executable, *arguments]
    return subprocess.Popen(command, cwd=ROOT, env={**_environment(), **environment}, start_new_session=True)


def _stream(arguments: list[str], environment: dict[str, str]) -> int:
    with _started(arguments, environment) as process:
        try:
            return process.wait()
        except KeyboardInterrupt:
            _end(process)
            raise


def _end(process: subprocess.Popen[bytes]) -> None:
    """Asks pytest and its workers to stop, and makes them when they do not."""
    if sys.platform == "win32":
        process.kill()
        return
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(STOP_SECONDS)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def _counts(report: Path) -> tuple[int, int, int]:
    """Passed, failed and skipped tests of a JUnit report; zeros when pytest did not get to write one."""
    if not report.exists():
        return 0, 0, 0
    passed = failed = skipped = 0
    for case in ET.parse(report).getroot().iter("testcase"):  # noqa: S314 - written by our own pytest a moment ago
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.find("skipped") is not None:
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def _tell(outcome: Outcome) -> None:
    print(_line(outcome), flush=True)
    if outcome.failed:
        print(f"\n{outcome.output.strip()}\n", flush=True)


def _line(outcome: Outcome) -> str:
    mark = "FAILED" if outcome.failed else "ok" if outcome.passed else "none"
    count = f"{outcome.passed} passed, {outcome.failed} failed" if outcome.passed + outcome.failed > 1 else ""
    facts = ", ".join(filter(None, [count, outcome.remark]))
    return f"  {mark:<7} {outcome.name:<26}{outcome.seconds:>7.1f} s  {facts}".rstrip()


def _summarise(outcomes: list[Outcome], seconds: float, *, tests_left_out: bool) -> None:
    print("\nSummary")
    for outcome in outcomes:
        print(_line(outcome))
    if tests_left_out:
        print("  The tests were not run, because a check failed; `--keep-going` runs them all the same.")
    minutes, rest = divmod(round(seconds), 60)
    print(f"  {minutes} min {rest} s")
    passed = sum(outcome.passed for outcome in outcomes)
    failed = sum(outcome.failed for outcome in outcomes)
    print(f"{passed} passed, {failed} failed", flush=True)


if __name__ == "__main__":
    sys.exit(main())

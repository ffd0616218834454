"""The package: what a wheel and an sdist hold, what an index shows of it, and what users' programs see of it."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
from functools import partial
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

import distribution
from tandem.core.platforms import EXTRAS
from tandem.git.runner import OLDEST_GIT
from tests.architecture.pages import pages
from tests.architecture.source import ROOT
from tests.modes import VARIATION

GIT_VERSION = ".".join(map(str, OLDEST_GIT))
PROGRAM = re.compile(r"```python\n(.*?)```", re.DOTALL)
WITHOUT_EXTRAS = "import sys; sys.modules.update({'psycopg': None, 'textual': None, 'opentelemetry.sdk': None})"


def run(folder: Path, *command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    # The editable installation must not stand in for the wheel.
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHONPATH", "COV"))}
    return subprocess.run(
        list(map(str, command)), cwd=folder, env=kept | environment, capture_output=True, text=True, check=False
    )


def built(source: Path, kind: str, folder: Path) -> Path:
    done = run(source, sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", folder)
    assert done.returncode == 0, done.stderr
    return next(folder.glob("*.whl" if kind == "wheel" else "*.tar.gz"))


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(ROOT, "sdist", tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def unpacked(sdist: Path) -> Path:
    with tarfile.open(sdist) as archive:
        # By name: `extractall(filter=…)` came with Python 3.11.4.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(sdist.parent)
    return next(path for path in sdist.parent.iterdir() if path.is_dir())


@pytest.fixture(scope="module")
def wheel(unpacked: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(unpacked, "wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def about(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel, and from ours what the wheel needs, but for the extras."""
    folder = tmp_path_factory.mktemp("environment")
    run(folder, sys.executable, "-m", "venv", "--without-pip", folder)
    packages = next(folder.glob("lib/python3*/site-packages"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    ours = Path(pytest.__file__).parents[1]
    # No `sitecustomize`: Debian's Python has one of its own, which comes first.
    (packages / "ours.pth").write_text(f"{WITHOUT_EXTRAS}\n{ours}\n", "utf-8")
    return folder


def test_the_sdist_has_every_file_of_the_repository(unpacked: Path) -> None:
    packed = {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*") if path.is_file()}
    # Where these tests run in an unpacked sdist, its own files are what there is.
    listed = run(ROOT, "git", "ls-files").stdout.splitlines() if (ROOT / ".git").exists() else ["tests/conftest.py"]
    assert {name for name in listed if (ROOT / name).is_file()} - packed == set()


def test_a_wheel_says_the_version_that_its_sdist_has_written_down(about: Message, sdist: Path) -> None:
    assert sdist.name == f"tandem_broker-{about['Version']}.tar.gz"
    assert set(about.get_all("Provides-Extra", [])) >= {"postgres", "screen", "traces"}


def test_an_index_can_show_every_picture_and_follow_every_link(about: Message) -> None:
    assert about["Description-Content-Type"] == "text/markdown"
    text = about.get_payload()
    assert isinstance(text, str)
    tokens = [child for token in MarkdownIt().parse(text) for child in token.children or ()]
    targets = [str(token.attrs.get("src") or token.attrs.get("href")) for token in tokens if token.tag in {"a", "img"}]
    targets += re.findall(r"<[^>]+(?:src|href|srcset)=[\"']([^\"']+)", text)
    assert [target for target in targets if target != "None" and not target.startswith(("https://", "#"))] == []
    assert any(target.endswith(".svg") and "/raw/" in target for target in targets)
    repository = about.get_all("Project-URL", [])[0].removeprefix("Repository, ")
    assert {path for path in paths_in(targets, repository) if not (ROOT / path).exists()} == set()


def paths_in(targets: list[str], repository: str) -> set[str]:
    """The files of the repository that whole addresses name."""
    found = (re.fullmatch(rf"{re.escape(repository)}/(?:raw|blob)/v[^/]+/([^#]+)(?:#.*)?", one) for one in targets)
    return {one[1] for one in found if one}


def test_the_registry_of_mcp_servers_takes_server_json(about: Message) -> None:
    """As its schema of 2025-12-11 has it, and as it looks for who owns the package."""
    entry = json.loads((ROOT / "server.json").read_text("utf-8"))
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", entry["name"])
    assert 0 < len(entry["description"]) <= 100
    assert entry["version"] == entry["packages"][0]["version"] == distribution.released()[0]
    assert entry["packages"][0]["identifier"] == about["Name"]
    assert f"mcp-name: {entry['name']} " in str(about.get_payload())


def test_every_text_has_the_repositorys_own_address(about: Message) -> None:
    own = "/".join(about.get_all("Project-URL", [])[0].split("/")[-2:])
    files = [ROOT / "pyproject.toml", ROOT / "server.json", *(page.path for page in pages())]
    texts = {path.name: path.read_text("utf-8") for path in files}
    address = re.compile(r"(?:github\.com/|io\.github\.|uses: )([\w.-]+/tandem)\b")
    assert {named for text in texts.values() for named in address.findall(text)} == {own}
    assert [name for name, text in texts.items() if re.search(r"(?<![\w.])example/", text)] == []


@pytest.mark.parametrize("checker", [pytest.param("mypy", marks=VARIATION), "pyright"])
def test_a_users_program_is_accepted_by(checker: str, environment: Path, tmp_path: Path) -> None:
    guide = (ROOT / "docs/guide/python.md").read_text("utf-8")
    programs = [tmp_path / f"program_{number}.py" for number, _ in enumerate(PROGRAM.findall(guide))]
    for path, text in zip(programs, PROGRAM.findall(guide), strict=True):
        path.write_text(text + "\n\nreveal_type(TandemClient().create_review)\n", "utf-8")
    settings = {"typeCheckingMode": "strict", "venvPath": str(environment.parent), "venv": environment.name}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), "utf-8")
    python = ["--strict", "--cache-dir", tmp_path / "cache", "--python-executable", environment / "bin/python"]
    arguments = [*python, *programs] if checker == "mypy" else ["--project", tmp_path]
    done = run(tmp_path, sys.executable, "-m", checker, *arguments, PYRIGHT_PYTHON_GLOBAL_NODE="0")
    assert done.returncode == 0, done.stdout + done.stderr
    # Typed, not merely unknown.
    assert done.stdout.count("Creat") >= len(programs) > 0, done.stdout


def test_the_packages_that_refusals_name_are_those_of_the_extras(about: Message) -> None:
    needed = [re.match(r"([^<>=; ]+)[^;]*; extra == '(\w+)'$", one) for one in about.get_all("Requires-Dist", [])]
    extras = {(found[2], found[1]) for found in needed if found is not None and found[2] != "dev"}
    assert {(extra, package) for extra, packages in EXTRAS.items() for package in packages} == extras


def test_a_broker_runs_without_the_extras(environment: Path, tmp_path: Path) -> None:
    place = {"TANDEM_DATA_DIR": str(tmp_path / "data"), "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}
    tandem = partial(run, tmp_path, environment / "bin/python", "-m", "tandem", **place)
    started = tandem("up", "--background", "--port", "0")
    try:
        assert started.returncode == 0, started.stdout + started.stderr
        assert tandem("review", "list").returncode == 0
    finally:
        tandem("down")
    log = (tmp_path / "data/logs/broker.jsonl").read_text("utf-8")
    assert '-m pip install \\"opentelemetry-' in log


def test_without_the_driver_of_postgresql_a_broker_says_what_to_install(environment: Path, tmp_path: Path) -> None:
    place = {"TANDEM_DATA_DIR": str(tmp_path / "data"), "TANDEM_DATABASE_URL": "postgresql://localhost/tandem"}
    done = run(tmp_path, environment / "bin/python", "-m", "tandem", "up", "--port", "0", **place)
    assert done.returncode != 0
    assert '-m pip install "greenlet" "psycopg[binary]"' in " ".join(done.stderr.split())


def test_without_its_library_the_screen_says_what_to_install(environment: Path, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    asked = [environment / "bin/python", "-m", "tandem", "review"]
    done = subprocess.run(asked, cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, check=False)
    os.close(ours)
    os.close(theirs)
    assert done.returncode != 0
    said = " ".join(done.stderr.decode().split())
    assert '-m pip install "textual"' in said
    assert "tandem open" in said


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit, which stands in for ours."""
    (tmp_path / "CHANGELOG.md").write_text("## [Unreleased]\n\n## [0.9.0] - 2026-11-23\n", "utf-8")
    for command in (["init", "-q"], ["add", "--all"], ["commit", "-qm", "One"]):
        assert run(tmp_path, "git", *command).returncode == 0
    monkeypatch.setattr(distribution, "ROOT", tmp_path)
    return tmp_path


def test_the_version_is_that_of_the_tag(checkout: Path) -> None:
    run(checkout, "git", "tag", "v1.2.9")
    assert distribution.version() == "1.2.9"
    run(checkout, "git", "commit", "-qm", "Two", "--allow-empty")
    commit = run(checkout, "git", "rev-parse", "--short", "HEAD").stdout.strip()
    assert distribution.version() == f"1.2.10.dev1+g{commit}"


def test_without_tags_the_changelog_says_the_version(checkout: Path) -> None:
    assert re.fullmatch(r"0\.9\.1\.dev0\+g[0-9a-f]+", distribution.version())
    (checkout / ".git").rename(checkout / "elsewhere")
    assert distribution.version() == "0.9.1.dev0"


def test_the_changelog_has_versions_with_dates_newest_first() -> None:
    headings = re.findall(r"(?m)^## (.*)$", (ROOT / "CHANGELOG.md").read_text("utf-8"))
    assert headings[0] == "[Unreleased]"
    assert len(headings) - 1 == len(distribution.released())
    dated = [
        (heading.partition(" - ")[2], tuple(map(int, re.findall(r"\d+", heading)[:3]))) for heading in headings[1:]
    ]
    assert dated == sorted(dated, reverse=True)
    tags = run(ROOT, "git", "tag", "--list", "v*").stdout.split() if (ROOT / ".git").exists() else []
    assert {tag.removeprefix("v") for tag in tags} <= set(distribution.released())


def test_the_oldest_git_is_the_same_everywhere() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs/guide").glob("*.md")]
    stated = {
        page.name: set(re.findall(r"[Gg]it (\d+\.\d+)(?= or newer)", " ".join(page.read_text("utf-8").split())))
        for page in pages
    }
    assert {name: versions for name, versions in stated.items() if versions - {GIT_VERSION}} == {}
    assert {name for name, versions in stated.items() if versions} >= {"README.md", "CONTRIBUTING.md", "install.md"}


def test_set_up_refuses_a_git_that_is_too_old(tmp_path: Path) -> None:
    program = tmp_path / "git"
    program.write_text("#!/bin/sh\necho git version 2.30.2\n", "utf-8")
    program.chmod(0o755)
    done = run(tmp_path, sys.executable, ROOT / "tools/setup.py", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert done.returncode == 1
    assert f"git is too old (git version 2.30.2). Install git {GIT_VERSION} or newer" in done.stderr

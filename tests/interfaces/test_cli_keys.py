"""Keys at the command line: made and shown once, read from places that no one else can read, and never leaked."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.commandline import Inside
from tests.interfaces.bridging import losing
from tests.interfaces.broker_process import WatchedBroker

OWN_KEY = "a key that gemini has chosen"
BROKER = {"log_level": "debug"}


def keys_of(tandem: Inside, *options: str) -> dict[str, str]:
    return tandem.run("cycle", "init", *options, "--json", MINE=OWN_KEY).data["keys"]


def test_each_key_is_shown_once_and_opens_a_session(tandem: Inside) -> None:
    init = tandem.run("cycle", "init")
    assert "shown this once" in init.stdout
    keys = {line.split()[0]: line.split()[1] for line in init.stdout.splitlines() if "psk_" in line}
    assert keys.keys() == {"gemini", "codex"}
    for role, key in keys.items():
        assert tandem.run("session", "open", role, TANDEM_PSK=key).status == 0
        assert key not in tandem.run("cycle", "init").stdout
    again = tandem.run("cycle", "init", "--json").data
    assert (again["keys"], again["kept"]) == ({}, ["gemini", "codex"])


def test_no_key_reaches_a_log_or_standard_error(tandem: Inside, broker: WatchedBroker, tmp_path: Path) -> None:
    keys = keys_of(tandem, "--key", "gemini=env:MINE")
    assert keys["gemini"] == OWN_KEY
    (tmp_path / "key").write_text(keys["codex"], "utf-8")
    said = [
        tandem.run("session", "open", "codex", "--psk-file", str(tmp_path / "key")),
        tandem.run("session", "open", "gemini", TANDEM_PSK=keys["codex"]),
        tandem.run("session", "open", "unknown", TANDEM_PSK=OWN_KEY),
        tandem.run("cycle", "init", "--key", "gemini=env:MINE", MINE=OWN_KEY),
        tandem.run("cycle", "rotate", "unknown", "--key", "env:MINE", MINE=OWN_KEY),
        tandem.run("audit", "log", "--json"),
        tandem.run("cycle", "list", "--json"),
    ]
    assert [ended.status for ended in said] == [0, 1, 1, 1, 1, 0, 0]
    everything = "".join(ended.stdout + ended.stderr for ended in said)
    everything += "".join(log.read_text("utf-8") for log in (broker.data_dir / "logs").iterdir())
    assert "a wrong key" in everything
    for key in keys.values():
        assert key not in everything


@pytest.mark.parametrize("written", ["gemini=SECRET", "SECRET", "gemini=env:", "=env:SECRET", "gemini=SECRET:x"])
def test_a_key_on_the_command_line_is_refused_and_not_repeated(tandem: Inside, written: str) -> None:
    secret = "correct horse battery staple"
    ended = tandem.run("cycle", "init", "--key", written.replace("SECRET", secret))
    assert (ended.status, ended.stdout) == (2, "")
    said = " ".join(ended.stderr.replace("│", " ").split())
    assert ("env:NAME or file:PATH" in said, "Other users" in said) == (True, True)
    assert secret not in said
    rotated = tandem.run("cycle", "rotate", "gemini", "--key", secret)
    assert (rotated.status, secret in rotated.stderr) == (2, False)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--key", "gemini=env:NOWHERE"), "NOWHERE"),
        (("--key", "gemini=file:nowhere.key"), "cannot be read: No such file"),
        (("--key", "gemini=file:empty.key"), "is empty"),
        (("--key", "gemini=file:latin.key"), "not UTF-8"),
        (("--key", "gemini=env:MINE", "--key", "gemini=env:MINE"), "two keys"),
    ],
)
def test_a_source_without_a_key_is_a_usage_error(tandem: Inside, options: tuple[str, ...], said: str) -> None:
    Path("empty.key").write_bytes(b"\nsecond line")
    Path("latin.key").write_bytes(b"\xe9\xe9\xe9 secret")
    ended = tandem.run("cycle", "init", *options, MINE=OWN_KEY)
    assert ended.status == 2
    assert said in " ".join(ended.stderr.replace("│", " ").split())
    assert "secret" not in ended.stderr


def test_keys_are_written_to_files_instead_of_being_shown(tandem: Inside, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "keys"
    init = tandem.run("cycle", "init", "--write-to", str(folder))
    assert init.status == 0
    assert "psk_" not in init.stdout + init.stderr
    files = {file.name: file for file in folder.iterdir()}
    assert files.keys() == {"gemini.psk", "codex.psk"}
    assert all(str(file) in init.stdout for file in files.values())
    if sys.platform != "win32":
        assert {file.stat().st_mode & 0o777 for file in (folder, *files.values())} == {0o700, 0o600}
    before = files["gemini.psk"].read_text("utf-8")
    assert tandem.run("session", "open", "gemini", "--psk-file", str(files["gemini.psk"])).status == 0
    rotated = tandem.run("cycle", "rotate", "gemini", "--write-to", str(folder), "--json")
    assert rotated.data["files"] == {"gemini": str(files["gemini.psk"])}
    assert ("keys" in rotated.data, "psk_" in rotated.stderr) == (False, False)
    assert files["gemini.psk"].read_text("utf-8") != before
    assert tandem.run("session", "open", "gemini", "--psk-file", str(files["gemini.psk"])).status == 0


def test_keys_of_another_project_are_never_overwritten(tandem: Inside, tmp_path: Path) -> None:
    other = ("--project", f"{tandem.project}-other", "--new")
    tandem.run("cycle", "init", "--write-to", str(tmp_path), *other)
    before = (tmp_path / "gemini.psk").read_bytes()
    refused = tandem.run("cycle", "init", "--write-to", str(tmp_path))
    assert (refused.status, refused.stderr.split(":")[1]) == (1, " CONFIG_INVALID")
    assert (tmp_path / "gemini.psk").read_bytes() == before
    # No key was made that was not shown.
    assert keys_of(tandem).keys() == {"gemini", "codex"}


def test_keys_that_cannot_be_written_are_shown_after_all(tandem: Inside, tmp_path: Path) -> None:
    keys_of(tandem)
    (tmp_path / "gemini.psk").mkdir()
    ended = tandem.run("cycle", "rotate", "gemini", "--write-to", str(tmp_path))
    assert (ended.status, "So they are shown here" in ended.stderr) == (1, True)
    [key] = [line.split()[1] for line in ended.stdout.splitlines() if "psk_" in line]
    assert tandem.run("session", "open", "gemini", TANDEM_PSK=key).status == 0
    assert [file.name for file in tmp_path.glob(".*.new")] == []


def test_a_folder_that_cannot_be_made_is_refused_before_any_key_is_made(tandem: Inside, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ended = tandem.run("cycle", "init", "--write-to", str(tmp_path / "file"))
    assert (ended.status, ended.stderr.split(":")[1]) == (1, " UNAVAILABLE")
    assert keys_of(tandem).keys() == {"gemini", "codex"}


def test_keys_whose_answer_was_lost_are_not_taken_for_new_ones(tandem: Inside, tmp_path: Path) -> None:
    with losing(tandem.url, 1, "cycle_init") as between:
        ended = tandem.run("cycle", "init", "--write-to", str(tmp_path / "keys"), "--broker", between.url)
    assert "not to be seen again: gemini, codex" in ended.stderr
    assert list((tmp_path / "keys").iterdir()) == []


def test_a_rotated_or_revoked_key_opens_nothing(tandem: Inside) -> None:
    keys = keys_of(tandem)
    session = tandem.run("session", "open", "gemini", "--json", TANDEM_PSK=keys["gemini"]).data["session_token"]
    rotated = tandem.run("cycle", "rotate", "gemini", "--key", "env:MINE", MINE=OWN_KEY)
    assert ("Sessions that ended: 1." in rotated.stdout, OWN_KEY in rotated.stdout) == (True, False)
    ended = tandem.run("lock", "acquire", TANDEM_SESSION_TOKEN=session)
    assert ended.stderr.startswith("refused: INVALID_SESSION: ")
    assert tandem.run("session", "open", "gemini", TANDEM_PSK=keys["gemini"]).stderr.startswith("refused: AUTH_FAILED")
    assert tandem.run("session", "open", "gemini", TANDEM_PSK=OWN_KEY).status == 0
    revoked = tandem.run("cycle", "revoke", "gemini")
    assert (revoked.status, "tandem cycle rotate gemini" in revoked.stdout) == (0, True)
    refused = tandem.run("cycle", "start", "Login page")
    assert refused.stderr.startswith("refused: CONFIG_INVALID: ")


def test_a_session_takes_its_key_from_the_file_then_the_variable_then_the_variables_file(
    tandem: Inside, tmp_path: Path
) -> None:
    keys = keys_of(tandem)
    right, wrong = tmp_path / "right", tmp_path / "wrong"
    right.write_text(f"\ufeff{keys['gemini']} \r\nanother line", "utf-8")
    wrong.write_text("no key of anybody", "utf-8")

    def status(*options: str, stdin: bytes = b"", **environment: str) -> int:
        return tandem.run("session", "open", "gemini", *options, stdin=stdin, **environment).status

    assert status("--psk-file", str(right), TANDEM_PSK="wrong", TANDEM_PSK_FILE=str(wrong)) == 0
    assert status(TANDEM_PSK=keys["gemini"], TANDEM_PSK_FILE=str(wrong)) == 0
    assert status(TANDEM_PSK_FILE=str(right)) == 0
    assert status(TANDEM_PSK="", TANDEM_PSK_FILE=str(right)) == 0
    assert status("--psk-file", "-", stdin=keys["gemini"].encode() + b"\n") == 0
    assert status("--psk", keys["gemini"]) == 0
    assert status("--psk", "", TANDEM_PSK=keys["gemini"]) == 0
    assert status("--psk-file", str(wrong), TANDEM_PSK=keys["gemini"]) == 1
    assert status("--psk-file", str(tmp_path / "nowhere"), TANDEM_PSK=keys["gemini"]) == 2
    assert status("--psk-file", "-", TANDEM_PSK=keys["gemini"]) == 2
    assert status("--psk", "x", "--psk-file", str(right)) == 2
    assert status() == 2
    assert "--psk " not in tandem.run("session", "open", "--help").stdout


def test_a_session_takes_its_role_from_the_variable_when_none_is_named(tandem: Inside) -> None:
    key = keys_of(tandem)["codex"]
    opened = tandem.run("session", "open", "--json", TANDEM_ROLE="codex", TANDEM_PSK=key)
    assert opened.data["role"] == "codex"
    named = tandem.run("session", "open", "codex", "--json", TANDEM_ROLE="gemini", TANDEM_PSK=key)
    assert named.data["role"] == "codex"
    assert tandem.run("session", "open", TANDEM_PSK=key).status == 2
    assert tandem.run("session", "open", "codex", "--role", "gemini", TANDEM_PSK=key).status == 2


def test_a_key_file_of_the_environment_that_cannot_be_read_is_a_refusal(tandem: Inside, tmp_path: Path) -> None:
    ended = tandem.run("session", "open", "gemini", "--json", TANDEM_PSK_FILE=str(tmp_path / "nowhere"))
    error = ended.envelope["error"]
    assert (ended.status, error["code"], error["details"]["setting"]) == (1, "CONFIG_INVALID", "TANDEM_PSK_FILE")

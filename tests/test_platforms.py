"""Behaviour that differs between platforms, on the one that the tests run on."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import platformdirs
import pytest

from tandem.core import platforms


def test_folders_are_where_the_platform_keeps_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert platforms.data_dir() == platformdirs.user_state_dir("tandem", appauthor=False)
    assert platforms.config_dir() == platformdirs.user_config_dir("tandem", appauthor=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert platforms.data_dir() == platformdirs.user_state_dir("tandem", appauthor=False)
    assert platforms.config_dir() == platformdirs.user_config_dir("tandem", appauthor=False)


@pytest.mark.skipif(sys.platform in {"win32", "darwin"}, reason="platform: XDG is for the others")
def test_a_relative_xdg_folder_is_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "here")
    assert platforms.data_dir() == os.path.expanduser("~/.local/state/tandem")  # noqa: PTH111 - a text, as the answer

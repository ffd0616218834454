"""Giving a repository out to git elsewhere, read only: what version 2 of git's protocol answers over HTTP."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import zlib
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from tandem.errors import InvalidInput, TooLarge, Unavailable
from tandem.git.runner import clean_environment

VERSION: Final = "version=2"
_CHUNK_BYTES = 256 * 1024
_MOST_WANTED = 32
_WANTED = re.compile(rb"want ([0-9a-f]{64}|[0-9a-f]{40})\b")
# Else git looks for deltas with as many threads as there are processors, each with as much memory as it likes.
_MODEST = ("-c", "pack.threads=1", "-c", "pack.windowMemory=64m", "-c", "core.bigFileThreshold=16m")
_ADVERTISED = b"001e# service=git-upload-pack\n0000"


def inflated(body: bytes, limit_bytes: int) -> bytes:
    """A request that git has compressed, as it is without.

    Raises:
        InvalidInput: It was not compressed so.
        TooLarge: There is more of it.
    """
    unpacker = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        found = unpacker.decompress(body, limit_bytes)
    except zlib.error as error:
        raise InvalidInput(f"The body is not compressed by gzip: {error}.", field="body") from None
    if unpacker.unconsumed_tail:
        raise TooLarge(f"The request has more than {limit_bytes} bytes.", limit_bytes=limit_bytes)
    return found


def wanted(request: bytes) -> tuple[str, ...]:
    """Ids of the objects that a request is about."""
    return tuple(one.decode("ascii") for one in _WANTED.findall(request)[:_MOST_WANTED])


@asynccontextmanager
async def answer(git: str, folder: Path, request: bytes | None) -> AsyncGenerator[AsyncGenerator[bytes]]:
    """What git says to a request, in pieces, for a block; git and all its children have ended after it.

    Args:
        git: The program.
        folder: The repository's git folder.
        request: What the other git asks; null for what can be asked.

    Raises:
        Unavailable: Git cannot be started.
    """
    about = ["--http-backend-info-refs"] if request is None else []
    try:
        process = await asyncio.create_subprocess_exec(
            git,
            *_MODEST,
            *("upload-pack", "--stateless-rpc", "--strict", *about, str(folder)),
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            env=clean_environment(
                {"GIT_PROTOCOL": VERSION, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}, isolated=True
            ),
            cwd=folder,
            start_new_session=True,
        )
    except OSError as error:
        raise Unavailable(f"{git} cannot be started: {error.strerror}.", program=git) from error
    telling = asyncio.create_task(_tell(process, request or b""))
    try:
        yield _said(process, first=_ADVERTISED if request is None else b"")
    finally:
        telling.cancel()
        _end(process)
        await asyncio.gather(telling, process.wait(), return_exceptions=True)


async def _tell(process: asyncio.subprocess.Process, request: bytes) -> None:
    if process.stdin is not None:
        with suppress(ConnectionError):
            process.stdin.write(request)
            await process.stdin.drain()
        process.stdin.close()


async def _said(process: asyncio.subprocess.Process, first: bytes) -> AsyncGenerator[bytes]:
    if first:
        yield first
    while process.stdout is not None and (piece := await process.stdout.read(_CHUNK_BYTES)):
        yield piece


def _end(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()

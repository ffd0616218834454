"""The files of a supervisor and of its reviewers, and their jobs: made before each starts, removed when it has ended.

    <data>/reviewers/supervisor.json        the secret, and the number of the folder that it was made in
    <data>/reviewers/supervisor.lock        empty; locked by the one that runs, also when it is killed
    <logs>/<reviewer id>.log, .log.1 …      its output; those of the newest reviewers are kept
    <scratch>/<reviewer id>/                its own; gone when it has ended

All of this blocks for the disk.

A supervisor's id is made from its secret, which each call shows: no other caller can use it. The copy of a folder has
another number, and is another supervisor. The id lets the broker know whose earlier starts held reviews; the
incarnation tells the starts apart.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, Field

from tandem.bridge.location import is_local
from tandem.core import files, log_files, platforms
from tandem.core.atomic_dirs import turn
from tandem.core.scratch import remove_tree
from tandem.errors import ConfigInvalid, Unavailable
from tandem.pool.contract import Order, ReviewerActivity
from tandem.pool.reviewers import ELSEWHERE, logs, processes, wsl
from tandem.pool.reviewers.job import ACTIVITY, ReviewJob
from tandem.pool.reviewers.outcomes import LAST_LINE_LENGTH, one_line
from tandem.pool.rules import supervisor_id
from tandem.settings import pool as pool_settings
from tandem.settings.pool import PoolSettings

REVIEWER_ID: Final = re.compile(r"[a-z][a-z0-9-]{0,29}-r[0-9]{1,9}-[0-9A-Za-z]{1,20}")
"""What a reviewer's id looks like: fit to be the name of a file on every system."""

KEPT_LOGS: Final = 50
"""Of so many reviewers the logs are kept."""

_AS_SET = tuple(
    one.name for one in fields(ReviewJob) if one.name in {*PoolSettings.model_fields} - {"wsl_distro", "profile"}
)
"""What a job says as the settings have it; in a distribution the programs run on Windows alone."""

_PRIVATE = 0o700
_log = logging.getLogger("tandem.supervisor")


FOLDER: Final = "reviewers"
"""Below the data folder: what belongs to the supervisor."""

_FILE = "supervisor.json"
_LOCK = "supervisor.lock"
_LOCK_SECONDS = 0.5
"""For one that just ends, which takes the file away."""
_SECRET_BYTES = 32


class SupervisorIdentity:
    """The one supervisor of a data folder, between `take` and `release`.

    Attributes:
        folder: The supervisor's own folder, private to the user.
        secret: What shows the broker who calls; empty before `take`.
    """

    def __init__(self, data_dir: Path) -> None:
        self.folder = data_dir / FOLDER
        self.secret = ""
        self._held = ExitStack()

    @property
    def supervisor_id(self) -> str:
        """Its id; empty before `take`."""
        return supervisor_id(self.secret) if self.secret else ""

    def take(self) -> None:
        """Takes the right to be the supervisor; makes the secret if there is none yet. Blocks for the disk.

        Raises:
            Unavailable: Another supervisor runs on the folder.
            ConfigInvalid: The folder cannot be used.
        """
        try:
            platforms.make_private(str(self.folder))
            self._held.enter_context(turn(self.folder / _LOCK, _LOCK_SECONDS))
            self.secret = _load_or_make(self.folder / _FILE)
        except TimeoutError as error:
            raise Unavailable(
                f"Another supervisor of reviewers runs on {self.folder}. Stop it first, or give this one another data"
                " folder with --data-dir.",
                folder=str(self.folder),
            ) from error
        except OSError as error:
            self.release()
            raise ConfigInvalid(
                f"The supervisor's folder {self.folder} cannot be used: {error.strerror or error}. Give the user access"
                " to it, or choose another data folder with --data-dir.",
                setting="data_dir",
            ) from error

    def release(self) -> None:
        """Gives the right up; twice is safe."""
        self._held.close()


class _Kept(BaseModel):
    """What its file holds: the secret, and the number of the folder, which its copy has not."""

    secret: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    folder: int


def _load_or_make(file: Path) -> str:
    number = file.parent.stat().st_ino
    if file.exists():
        with suppress(ValueError):
            kept = _Kept.model_validate_json(file.read_bytes())
            if kept.folder == number:
                return kept.secret
        # What its reviewers hold comes back when their leases end, which is no reason to stay down.
        _log.warning("%s does not hold the secret of a supervisor of this folder; a new one is made", file)
    made = secrets.token_hex(_SECRET_BYTES)
    files.write_atomically(file, json.dumps({"secret": made, "folder": number}).encode() + b"\n")
    return made


@dataclass(frozen=True, slots=True)
class SupervisorContext:
    """What all reviewers of a supervisor share, and the files of each.

    Attributes:
        identity: Whose reviewers they are, once it is taken; all their processes say so, and start in its folder.
        settings: The pool's settings.
        broker_url: Where the reviewers find the broker.
        log_dir: Where their logs are.
        projects: Whose reviewers may be started; None for all.
        argv: How a worker is started.
        environment: What each of them inherits.
        on_news: Is called when there is something to report.
    """

    identity: SupervisorIdentity
    settings: PoolSettings
    broker_url: str
    log_dir: Path
    projects: tuple[str, ...] | None
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    on_news: Callable[[], None]

    @property
    def scratch(self) -> Path:
        """Where its own scratch folders are: in the supervisor's own, or where WSL can reach them."""
        if pool_settings.THROUGH_WSL:
            inside = f"/tmp/tandem-{self.identity.supervisor_id}"  # noqa: S108 - inside WSL
            return Path(wsl.from_windows(inside, self.settings.wsl_distro))
        return self.identity.folder / "scratch"

    def log_file(self, reviewer_id: str) -> Path:
        """A reviewer's log."""
        return self.log_dir / f"{reviewer_id}.log"

    def prepare(self, order: Order, living: Collection[str]) -> ReviewJob:
        """Makes a reviewer's folders and removes logs that are too old; gives its job.

        Args:
            order: The reviewer.
            living: The ids of reviewers whose logs stay in any case.

        Raises:
            ConfigInvalid: It cannot work on this host; the message says why.
            OSError: The disk does not take it.
        """
        if not REVIEWER_ID.fullmatch(order.reviewer_id):
            raise ConfigInvalid(
                f"{order.reviewer_id[:60]!r} is no id of a reviewer, such as 'codex-r1-k3f9q2'; this supervisor"
                " and its broker need the same version."
            )
        workspace = self._workspace(order)
        platforms.make_private(str(self.log_dir))
        self._remove_old_logs({order.reviewer_id, *living})
        scratch = self.scratch / order.reviewer_id
        _remove(scratch)
        platforms.make_private(str(self.scratch))
        scratch.mkdir(_PRIVATE)
        return self._job(order, workspace, scratch)

    def marks(self, reviewer_id: str) -> dict[str, str]:
        """What the environment of a reviewer's processes has, and no other."""
        return processes.marks_of(reviewer_id, self.identity.supervisor_id)

    def clear(self, reviewer_id: str) -> None:
        """Removes an ended reviewer's scratch folder, which may have a login in it."""
        if REVIEWER_ID.fullmatch(reviewer_id):
            _remove(self.scratch / reviewer_id)

    def leftovers(self) -> list[str]:
        """Reviewers whose scratch folders are there."""
        try:
            return [entry.name for entry in self.scratch.iterdir() if REVIEWER_ID.fullmatch(entry.name)]
        except OSError:
            return []

    def activity(self, reviewer_id: str) -> ReviewerActivity | None:
        """What a reviewer last said that it does; its program, too, may write there."""
        # ValueError: half of it, or none of ours.
        with suppress(OSError, ValueError):
            return ReviewerActivity.model_validate_json((self.scratch / reviewer_id / ACTIVITY).read_bytes())
        return None

    def last_words(self, reviewer_id: str) -> str | None:
        """The last line of a reviewer's log, printable and not too long; None if there is none."""
        log = logs.newest(self.log_dir, reviewer_id)
        with suppress(OSError):
            if log is not None and (said := log_files.last_part(log.path, 1).lines):
                return one_line(said[-1], LAST_LINE_LENGTH)
        return None

    def _workspace(self, order: Order) -> str:
        if self.projects is not None and order.project not in self.projects:
            raise ConfigInvalid(f"This supervisor does not serve the project {order.project!r}.", setting="projects")
        if pool_settings.THROUGH_WSL:
            if self.settings.workspace_wsl_path is None:
                raise ConfigInvalid(
                    "On Windows reviewers run in WSL: set workspace_wsl_path to the repository's folder in there.",
                    setting="workspace_wsl_path",
                )
            return self.settings.workspace_wsl_path
        if self.settings.workspace_path != pool_settings.AUTO:
            found = _folder(self.settings.workspace_path, "The folder of workspace_path")
            if order.root and Path(order.root).is_dir() and not Path(order.root).samefile(found):
                # On another host the project's folder has another name; here it is simply another project's.
                raise ConfigInvalid(
                    f"workspace_path is {found!r}, and the project {order.project!r} is in {order.root!r}: its reviewer"
                    f" would read something else. Set workspace_path to '{pool_settings.AUTO}'.",
                    setting="workspace_path",
                )
            return found
        if order.root is None:
            raise ConfigInvalid(
                f"The project {order.project!r} has no folder that a reviewer could read; set workspace_path.",
                setting="workspace_path",
            )
        if not order.root or not (is_local(self.broker_url) or Path(order.root).is_dir()):
            # It is on another machine, or the broker's: the reviewer asks for the touched files.
            return ELSEWHERE
        return _folder(order.root, f"The folder of the project {order.project!r}")

    def _job(self, order: Order, workspace: str, scratch: Path) -> ReviewJob:
        settings = self.settings.of(order.profile)
        kind = next((one for one in settings.profile if one.name == order.profile), None)
        rubric = () if kind is None else kind.rubric
        template = settings.prompt_template_path
        return ReviewJob(
            broker=self.broker_url,
            access=order.access,
            reviewer_id=order.reviewer_id,
            project=order.project,
            workspace=workspace,
            wsl_distro=settings.wsl_distro if pool_settings.THROUGH_WSL else None,
            effort=settings.reasoning_effort,
            prompt_template=None if template is None else str(template),
            profile=order.profile,
            sections=() if isinstance(rubric, str) else rubric,
            rubric=rubric if isinstance(rubric, str) else None,
            votes=kind is None or kind.voting,
            idle_seconds=round(settings.idle_timeout_seconds),
            checks_seconds=settings.checks_wait_seconds,
            # It may finish the review that it holds when its time is up.
            total_seconds=settings.max_ttl_seconds + settings.attempt_seconds,
            log_file=str(self.log_file(order.reviewer_id)),
            scratch=str(scratch),
            **{name: getattr(settings, name) for name in _AS_SET},
        )

    def _remove_old_logs(self, living: Collection[str]) -> None:
        old = [log for log in logs.logs_in(self.log_dir) if log.reviewer_id not in living]
        old.sort(key=logs.Log.written_at, reverse=True)
        for log in old[max(0, KEPT_LOGS - len(living)) :]:
            for path in log_files.rotated(log.path):
                # FileNotFoundError: it was rotated away just now.
                with suppress(OSError):
                    path.unlink()


def _folder(path: str, what: str) -> str:
    if not Path(path).is_dir():
        raise ConfigInvalid(
            f"{what}, {path!r}, is not there on this host. Restore it, run the reviewers on the host that has it, or"
            " set workspace_path to a copy.",
            setting="workspace_path",
            path=path,
        )
    return path


def _remove(folder: Path) -> None:
    """Removes a folder whose programs are gone."""
    if not remove_tree(str(folder)):
        _log.warning("the scratch folder %s could not be removed", folder)

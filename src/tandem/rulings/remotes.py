"""What a remote has, asked of it: what stands under `refs/remotes/` here, everybody can write.

Which remote that is, and how it is reached, git's configuration says; variables such as `GIT_SSH_COMMAND` have no say.
"""

from __future__ import annotations

from tandem.errors import Unavailable
from tandem.rulings import git

TYPE_CHECKING = False  # as in `git`
if TYPE_CHECKING:
    from tandem.rulings.state import HookRepository

TRACKING = "refs/remotes/"
_FETCHED = r"^remote\..*\.fetch$"


def tips(place: HookRepository, where: str, *refs: str) -> dict[str, str]:
    """What a remote has, by the full names of its refs: the id of each. Nobody is asked for a password.

    Args:
        place: The repository here.
        where: The remote's name, or its URL.
        refs: The full names of those that matter; by default all branches and tags.

    Raises:
        TandemError: It does not answer, or lets nobody in without asking.
    """
    ssh = git.run(place, ["config", "--get", "core.sshCommand"], accept=(0, 1)).text or "ssh"
    silent = "-batch" if "plink" in ssh.lower() else "-o BatchMode=yes"
    wanted = ["--", where, *refs] if refs else ["--heads", "--tags", "--", where]
    command = ["-c", "credential.interactive=false", "ls-remote", *wanted]
    listed = git.run(place, command, extra={"GIT_ASKPASS": "", "GIT_SSH_COMMAND": f"{ssh} {silent}"})
    # A name also finds those that end with it.
    found = {ref: oid for oid, _, ref in (line.partition("\t") for line in listed.text.splitlines())}
    return {ref: oid for ref, oid in found.items() if not refs or ref in refs}


def followed(place: HookRepository, name: str) -> tuple[str, str] | None:
    """What a remote-tracking branch follows: a remote's name, and the ref's full name there.

    Args:
        place: The repository here.
        name: As a person writes it: `origin/main`, `origin`, `main@{upstream}`.

    Returns:
        None for every other name.

    Raises:
        Unavailable: It is below `refs/remotes/`, and no remote is known for it.
        TandemError: Git does not answer.
    """
    asked = ["rev-parse", "--quiet", "--verify", "--symbolic-full-name", "--end-of-options", name]
    full = git.run(place, asked, accept=(0, 1, 128)).text
    listed = git.run(place, ["config", "-z", "--get-regexp", _FETCHED], accept=(0, 1)).text
    # A branch of ours may have the same name as one that is followed, which need not be here; that one is meant.
    for ref in (TRACKING + name.removeprefix("remotes/"), full, name):
        for key, _, refspec in (entry.partition("\n") for entry in listed.split("\0")):
            theirs, _, ours = refspec.removeprefix("+").partition(":")
            before, star, after = ours.partition("*")
            middle = ref.removeprefix(before).removesuffix(after)
            if before.startswith(TRACKING) and ref == before + star.replace("*", middle) + after:
                return key.removeprefix("remote.").removesuffix(".fetch"), theirs.replace("*", middle)
    if full.startswith(TRACKING):
        raise Unavailable(f"No remote is configured that {full} follows, so none can be asked. Add it: git remote add")
    return None

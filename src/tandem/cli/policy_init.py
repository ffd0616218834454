"""`tandem policy init`: a first policy for this repository."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tandem.cli.connection_options import need_worktree
from tandem.cli.declared import Option
from tandem.cli.terminal import EnvelopeOption, Exit, say, tell
from tandem.errors import InvalidInput
from tandem.rulings import git, owners, policy_draft, policy_file
from tandem.rulings.policy import FILE
from tandem.settings import checks

if TYPE_CHECKING:
    from tandem.git.place import HookRepository

_NEXT = "Read it, try it on past commits (tandem policy check -n 200), then commit it."


def init(
    *,
    print_only: Annotated[bool, Option("--print", help="Print it; write nothing.")] = False,
    as_json: EnvelopeOption = False,
) -> Exit:
    """Write a first .tandem/policy.toml, with comments, from this repository's folders, CODEOWNERS and checks.

    A policy that is there already stays as it is.
    """
    place = need_worktree()
    top = Path(place.top or ".")
    text = _draft(place, top)
    rules = len(policy_file.parse(text.encode()).rules)
    facts = {"file": FILE, "text": text, "rules": rules, "written": not print_only}
    if print_only and not as_json:
        # As it is: a terminal's width breaks no line of it.
        sys.stdout.write(text)
        return Exit.DONE
    if not print_only:
        _write(top / FILE, text)
    tell(facts, f"wrote {FILE}: {rules} rule{'' if rules == 1 else 's'}", as_json=as_json)
    if not print_only:
        say(_NEXT)
    return Exit.DONE


def _write(path: Path, text: str) -> None:
    try:
        with suppress(FileExistsError):
            path.parent.mkdir()
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except FileExistsError:
        raise InvalidInput(
            f"{FILE} is there already and stays as it is. See what would be written: tandem policy init --print",
            field="path",
        ) from None
    except OSError as error:
        raise InvalidInput(f"{FILE} cannot be written: {error.strerror}.", field="path") from error


def _draft(place: HookRepository, top: Path) -> str:
    listed = git.run(place, ["ls-files", "-z"]).stdout.decode("utf-8", "replace").split("\0")[:-1]
    names: list[str] = []
    if (file := top / checks.FILE).is_file():
        try:
            names = [one.name for one in checks.parsed(file.read_bytes())]
        except (OSError, ValueError) as error:
            raise InvalidInput(f"{checks.FILE} cannot be read: {error}", field="path") from error
    has_owners = not set(owners.PLACES).isdisjoint(listed)
    return policy_draft.init_text(listed, has_codeowners=has_owners, checks=names)

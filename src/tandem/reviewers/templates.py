"""Prompt templates: the text around the data, with `{{name}}` where something is put in.

Read when a reviewer starts, and checked then: a variable that nobody fills, or one that is missing, is a mistake of
the configuration and not a strange prompt.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tandem.errors import ConfigInvalid

TEMPLATE_LIMIT_BYTES: Final = 64_000
SETTING: Final = "prompt_template_path"

_VARIABLE = re.compile(r"\{\{(?P<name>[^{}]*)\}\}")
_SHOWN_LENGTH = 60


@dataclass(frozen=True, slots=True)
class Form:
    """What a kind of template is made of.

    Attributes:
        default: The file beside this module that is used when a project has none of its own.
        required: Variables that stand in it.
        optional: Variables that may stand in it.
        once: Whether those that stand in it do so only once: what they bring is long.
    """

    default: str
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    once: bool = False

    @property
    def allowed(self) -> tuple[str, ...]:
        """Every variable of the form."""
        return self.required + self.optional


REVIEW: Final = Form("default_prompt.md", required=("proposal", "answer"), optional=("guidance",), once=True)
AGENT: Final = Form("agent_prompt.md", required=("reviewer_id", "project", "idle_seconds"))


@dataclass(frozen=True, slots=True)
class Template:
    """A template that was checked.

    Attributes:
        text: The text with its variables.
        origin: The file that it came from.
        form: What it is made of.
    """

    text: str
    origin: str
    form: Form

    def filled(self, values: Mapping[str, str]) -> str:
        """The text with all values put in, each as it is: what looks like a variable in a value is none."""
        return _VARIABLE.sub(lambda found: values[found["name"]], self.text)


def load_template(path: Path | None, form: Form = REVIEW) -> Template:
    """A project's own template, or the one that comes with Tandem. Blocks for the disk.

    Args:
        path: A UTF-8 file; null for Tandem's own.
        form: For one review by a worker (`REVIEW`) or for an agent that runs the loop itself (`AGENT`).

    Raises:
        ConfigInvalid: The file cannot be read or is over the limit, or a variable is unknown, missing or
            there more than once; the message names it.
    """
    # Not by importlib.resources: a worker starts for the sake of one program, and its imports count.
    file = Path(__file__).with_name(form.default) if path is None else path
    template = Template(_read(file), str(file), form)
    _check(template)
    return template


def _read(file: Path) -> str:
    try:
        if not file.is_file():
            raise _refused(file, "there is no such file; give the path of a text file, or leave the setting out")
        with file.open("rb") as opened:
            content = opened.read(TEMPLATE_LIMIT_BYTES + 1)
    except OSError as error:
        raise _refused(file, f"it cannot be read ({error.strerror or error})") from error
    if len(content) > TEMPLATE_LIMIT_BYTES:
        raise _refused(file, f"it is over the limit of {TEMPLATE_LIMIT_BYTES} bytes", limit=TEMPLATE_LIMIT_BYTES)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _refused(file, f"it is not UTF-8 (byte {error.start}); save it as UTF-8") from None
    if "\0" in text:
        raise _refused(file, "it has NUL characters; give a text file")
    return text


def _check(template: Template) -> None:
    file, form = Path(template.origin), template.form
    names = [found["name"] for found in _VARIABLE.finditer(template.text)]
    allowed = {"allowed": list(form.allowed)}
    choice = f"It may have {_listed(form.allowed)}, and must have {_listed(form.required)}"
    for name in names:
        if name not in form.allowed:
            shown = name[:_SHOWN_LENGTH]
            raise _refused(file, f"it has the unknown variable {{{{{shown}}}}}. {choice}", variable=shown, **allowed)
        if form.once and names.count(name) > 1:
            raise _refused(file, f"the variable {{{{{name}}}}} is there more than once", variable=name, **allowed)
    for name in form.required:
        if name not in names:
            raise _refused(file, f"the variable {{{{{name}}}}} is missing. {choice}", variable=name, **allowed)
    rest = _VARIABLE.sub(" ", template.text)
    if "{{" in rest or "}}" in rest:
        raise _refused(file, f"double braces stand only around the name of a variable. {choice}", **allowed)


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"{{{{{name}}}}}" for name in names)


def _refused(file: Path, problem: str, **facts: object) -> ConfigInvalid:
    return ConfigInvalid(f"The prompt template {file}: {problem}.", setting=SETTING, origin=str(file), **facts)

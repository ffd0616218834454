"""The part of the reference that is about the programs that review: what they are told, and what they answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tandem.operations import reference_words_pool as words
from tandem.operations.reference_markdown import code, spaced, table
from tandem.operations.reference_members import member_docs
from tandem.reviewers import answer_schema, providers, templates
from tandem.reviewers.job import Exit


def sections() -> Iterator[str]:
    """The sections of the page, in their order."""
    yield from _programs()
    yield from _answer()
    yield from _template()
    yield from _exit_statuses()


def without_words() -> list[str]:
    """What has no words and needs some."""
    variables = {*templates.REVIEW.allowed, *templates.AGENT.allowed}
    missing = [f"program {one}" for one in providers.NAMES if one not in words.PROGRAMS]
    missing += [f"answer {one}" for one in answer_schema.FIELDS if not _about(one)]
    missing += [f"variable {one}" for one in sorted(variables) if one not in words.TEMPLATE]
    return missing + [f"exit status {int(one)}" for one in Exit if one not in member_docs(Exit)]


def _programs() -> Iterator[str]:
    rows = ((f"`{name}`", *words.PROGRAMS[name]) for name in providers.NAMES)
    yield "## Programs"
    yield table(("provider", "model", "effort", "form of the answer", "reports", "writes while it works"), rows)


def _answer() -> Iterator[str]:
    fields: dict[str, dict[str, Any]] = answer_schema.SCHEMA["properties"]
    inner: dict[str, dict[str, Any]] = fields["comments"]["items"]["properties"]
    yield "## The answer of a program"
    yield (
        "In the mode `worker` a program answers with one JSON object and nothing else. White space around it, and one "
        "Markdown fence around all of it, do no harm; with words beside it, or a second object, the run is "
        "`unreadable`. It has these fields and no others. `nonce`, `verdict` and `reason` have to be there; those that "
        "are null or empty may be left out. The nonce is drawn for each run and stands in its prompt, outside of the "
        "frames; it is not written to the log."
    )
    yield table(("field", "form", "meaning"), ((f"`{name}`", _form(one), _about(name)) for name, one in fields.items()))
    yield "Each comment:"
    yield table(
        ("field", "form", "meaning"), ((f"`{name}`", _form(one), one["description"]) for name, one in inner.items())
    )
    yield (
        f"The whole answer and the counter-patch have at most {spaced(answer_schema.ANSWER_LIMIT_BYTES)} bytes, the "
        f"reason and each comment {spaced(answer_schema.TEXT_LIMIT_BYTES)}. A comment on a file that the change does "
        "not touch is added to the reason, and so is the summary. A counter-patch that the broker refuses is left "
        "out, and the reason says so. For example:"
    )
    yield f"```json\n{json.dumps(answer_schema.EXAMPLE, indent=2, ensure_ascii=False)}\n```"


def _form(schema: dict[str, Any]) -> str:
    kinds: str | list[str] = schema["type"]
    return code(schema["enum"]) if "enum" in schema else kinds if isinstance(kinds, str) else " or ".join(kinds)


def _about(field: str) -> str:
    return words.ANSWER.get(field) or str(answer_schema.SCHEMA["properties"][field].get("description", ""))


def _template() -> Iterator[str]:
    rows: list[tuple[str, ...]] = []
    for mode, form in (("worker", templates.REVIEW), ("agent", templates.AGENT)):
        for name in form.allowed:
            needed = "has to be there" if name in form.required else "may be there"
            once = ", once" if form.once else ""
            rows.append((f"`{mode}`", f"`{{{{{name}}}}}`", needed + once, words.TEMPLATE[name]))
    yield "## The prompt template"
    yield (
        f"A text file in UTF-8 of at most {spaced(templates.TEMPLATE_LIMIT_BYTES)} bytes (`prompt_template_path`). "
        "Double braces stand around the name of a variable and nowhere else. It is checked when the supervisor "
        "starts, and again by each reviewer."
    )
    yield table(("mode", "variable", "in the template", "what it becomes"), rows)


def _exit_statuses() -> Iterator[str]:
    yield "## Exit statuses"
    yield "How a reviewer's own process ends (not the program that it runs):"
    meanings = member_docs(Exit)
    yield table(("status", "meaning"), ((str(int(one)), meanings[one]) for one in Exit))

"""For programs that must not start in the repository: where it is, said in front of the prompt."""

from __future__ import annotations

import json


def told(workspace: str, prompt: str) -> str:
    """The prompt of a program that starts in another folder than the repository."""
    return (
        f"The repository is in the folder {json.dumps(workspace, ensure_ascii=False)}. Wherever the following text"
        " says your working folder, it means this one, and you start outside it: name files in it by their full"
        f" path.\n\n{prompt}"
    )

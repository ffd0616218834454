"""A reviewer program that keeps its input: `reviewer.py FOLDER ANSWER …`; it prints one answer a run.

In the answer it replaces THE-NONCE with the nonce of its prompt, and THE-FILES with the files of its diff.

Below FOLDER it writes `prompt-N.txt`, `environment-N.json` and `given-N/` for its run number N, from 1.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path


def main() -> None:
    """One review."""
    folder, *answers = sys.argv[1:]
    kept = Path(folder)
    number = len(list(kept.glob("prompt-*.txt"))) + 1
    (kept / f"environment-{number}.json").write_text(json.dumps(dict(os.environ)))
    scratch = Path(os.environ["TANDEM_REVIEW_SCHEMA"]).parent
    shutil.copytree(scratch / "given", kept / f"given-{number}")
    prompt = sys.stdin.buffer.read()
    (kept / f"prompt-{number}.txt").write_bytes(prompt)
    named = re.findall(rb'^For `nonce` write "([0-9a-f]{32})":', prompt, re.MULTILINE)
    said = answers[min(number, len(answers)) - 1].replace("THE-NONCE", named[-1].decode() if named else "")
    given = b"".join(file.read_bytes() for file in (scratch / "given").iterdir())
    found = re.findall(rb'^The nonce of file ([0-9]+) is "([0-9a-f]+)"\.$', prompt + given, re.MULTILINE)
    read = [{"file": int(file), "nonce": nonce.decode(), "looked_at": "all of it"} for file, nonce in found]
    sys.stdout.write(said.replace('"THE-FILES"', json.dumps(read)))


if __name__ == "__main__":
    main()

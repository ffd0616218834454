"""The one-time numbers by which a run proves itself stay with the run: nothing that is kept, or shown, has them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx

from tests.acceptance.staffed import StaffedBroker, counter, only_posix

pytestmark = only_posix
DEEDS = ("spill", "in-turn spill-and-fail spill-badly megabytes", "in-turn read-nothing approve")


def pieces(broker: StaffedBroker, reviews: list[str]) -> Iterator[bytes]:
    """Of each number of each run of the reviews, every twelve digits in a row: digests do not hold one by chance."""
    for run in (run for review in reviews for run in broker.runs(review)):
        marks = re.findall(r"(?m)^=== BEGIN DATA (\w+): ", run["prompt"])
        for number in {run["nonce"], *(one["nonce"] for one in run["files"]), *marks}:
            yield from (number[at : at + 12].encode() for at in range(len(number) - 11))


def test_no_number_of_a_run_reaches_a_log_a_table_a_page_or_an_export(tmp_path: Path) -> None:
    with StaffedBroker(tmp_path, {"output_bytes": 100_000}) as broker, counter(broker, tmp_path / "shop") as project:
        reviews = [project.ask(deed) for deed in DEEDS]
        for review in reviews:
            project.decided(review)
        rejected = project.do("get_proposal", review_id=reviews[0])
        said = httpx.get(f"{broker.url}/reviews/{reviews[0]}", timeout=60).text + str(rejected)
        said += str(project.do("get_discussion", review_id=reviews[0]))
        logs = [project.do("get_reviewer_log", reviewer_id=one["reviewer_id"], lines=5000) for one in project.team()]
        # The same words without the numbers are there.
        assert "My nonces: *" in said
        assert "I was told *" in str(logs)
        exported = broker.run("data", "export", str(tmp_path / "export.jsonl"))
        assert exported.returncode == 0, exported.stderr
        audit = broker.run("audit", "log", "--json", "--limit", "200").stdout
    kept = [said.encode(), str(logs).encode(), audit.encode(), exported.stdout.encode()]
    files = [one for one in (*broker.data_dir.rglob("*"), tmp_path / "export.jsonl") if one.is_file()]
    assert any(one.name.endswith(".log") for one in files)
    kept += [one.read_bytes() for one in files]
    everything = b"\n".join(kept).lower()
    found = {piece for piece in pieces(broker, reviews) if piece in everything}
    assert found == set()

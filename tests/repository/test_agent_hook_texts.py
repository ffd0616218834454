"""Agents' hooks: a context, a verification and, for the strict, a plan are written when exactly they are approved."""

from __future__ import annotations

from tests.commandline import finish
from tests.modes import VARIATION
from tests.repository.agents import CLIENTS, Agent, Client, approve_text
from tests.repository.gating import Gated

FOLDER = ".planning/phases/03-search"
CONTEXT = f"{FOLDER}/03-CONTEXT.md"
TEXT = "# Context\n\nWe use one index.\n"


def context_of(client: Client) -> str:
    """A path that no other client's part of a test has to do with."""
    return f"{FOLDER}/{client}-CONTEXT.md"


def test_a_context_is_written_when_exactly_it_is_approved(gated: Gated) -> None:
    for client in CLIENTS:
        agent, path = Agent(client, gated.root), context_of(client)
        words = agent.writes(path, TEXT).words
        assert f"{path} may be written when exactly this content is approved" in words
        assert f"tandem gate context {path} --content" in words
        review = gated.call("create_review", intent="i", agent_type="tests", path=path, description=TEXT)["review_id"]
        waiting = gated.wait_as_told(agent.writes(path, TEXT).words)
        gated.decide(review)
        ended = finish(waiting)
        assert (ended.status, review in ended.stdout, "approved" in ended.stdout) == (0, True, True)
        assert agent.writes(path, TEXT).passes
        assert not agent.writes(path, f"{TEXT}And a second.\n").passes, "one line more"
        assert not agent.writes(f"{FOLDER}/04-CONTEXT.md", TEXT).passes, "another path"


def test_p2_a_text_is_asked_for_by_every_path_that_leads_to_it(gated: Gated) -> None:
    (gated.root / FOLDER).mkdir(parents=True)
    (gated.root / "link").symlink_to(FOLDER)
    for client in CLIENTS:
        agent, path = Agent(client, gated.root), context_of(client)
        name = path.rpartition("/")[2]
        (gated.root / f"{client}.md").symlink_to(path)
        led = (f"link/{name}", f"{client}.md", f"link/../03-search/{name}", f"docs/../{path}")
        # The first of these is another file where links are followed before `..`.
        for one in (f"link/../{path}", path.upper(), *led):
            assert not agent.writes(one, TEXT).passes, one
        assert agent.edits(f"link/{name}", "# Context", "# The context").status == 2
        approve_text(gated, path, TEXT)
        assert [one for one in led if not agent.writes(one, TEXT).passes] == []
        assert agent.writes("link/03-SUMMARY.md", TEXT).passes


def test_an_edit_is_judged_by_what_it_makes_of_the_file(gated: Gated) -> None:
    for client in CLIENTS:
        agent, path = Agent(client, gated.root), context_of(client)
        gated.write({path: TEXT})
        assert not agent.edits(path, "We use one index.", "We use two.").passes
        approve_text(gated, path, "# Context\n\nWe use two.\n")
        assert agent.edits(path, "We use one index.", "We use two.").passes
        assert not agent.edits(path, "# Context", "# The context").passes
        words = agent.edits(path, "something like it", "anything").words
        assert "cannot be told" in words
        assert "Write the whole file" in words


def test_which_texts_are_asked_for(gated: Gated) -> None:
    agent = Agent("claude", gated.root)
    asked = (
        CONTEXT,
        f"{FOLDER}/CONTEXT.md",
        f"{FOLDER}/03-VERIFICATION.md",
        f"{FOLDER}/03-UAT.md",
        f"{FOLDER}/x-context.md",
    )
    free = (
        f"{FOLDER}/03-02-SUMMARY.md",
        f"{FOLDER}/03-DISCUSSION-LOG.md",
        ".planning/STATE.md",
        "docs/CONTEXT.md",
        "a.txt",
    )
    plan = f"{FOLDER}/03-02-PLAN.md"
    assert [path for path in asked if agent.writes(path, TEXT).passes] == []
    assert [path for path in (*free, plan) if not agent.writes(path, TEXT).passes] == []
    assert "tandem gate verification" in agent.writes(f"{FOLDER}/03-UAT.md", TEXT).words
    assert agent.asks("read", path=str(gated.root / CONTEXT)).passes


@VARIATION
def test_a_strict_gate_asks_for_plans_until_a_person_loosens_it(gated: Gated) -> None:
    agent, plan = Agent("claude", gated.root), f"{FOLDER}/03-02-PLAN.md"
    for again in (("--strict",), ()):
        assert gated.tandem("gate", "on", *again).status == 0
        assert "tandem gate plan" in agent.writes(plan, TEXT).words
    assert gated.tandem("gate", "on", "--no-strict", CLAUDECODE="1").status != 0
    assert not agent.writes(plan, TEXT).passes
    assert gated.person("gate", "on", "--no-strict").ok
    assert agent.writes(plan, TEXT).passes


def test_a_test_that_is_still_going_on_is_no_report_yet(gated: Gated) -> None:
    agent = Agent("claude", gated.root)
    path, text = f"{FOLDER}/03-UAT.md", "---\nphase: 03\nstatus: {}\n---\n\n## Tests\n"
    assert agent.writes(path, text.format("testing")).passes
    assert not agent.writes(path, text.format("complete")).passes
    assert not agent.writes(path, text.format("complete") + "status: testing\n").passes
    assert not agent.writes(f"{FOLDER}/03-VERIFICATION.md", text.format("testing")).passes


def test_what_is_there_already_may_be_written_again(gated: Gated) -> None:
    agent = Agent("gemini", gated.root)
    gated.write({CONTEXT: TEXT})
    assert agent.writes(CONTEXT, TEXT).passes
    assert not agent.writes(CONTEXT, f"{TEXT}More.\n").passes


def test_in_optimistic_mode_the_commit_puts_it_up(gated: Gated) -> None:
    agent = Agent("claude", gated.root)
    gated.settings(tandem_enabled=True, execution_mode="optimistic")
    assert not agent.writes(CONTEXT, TEXT).passes, "the base branch stays strict"
    gated.git("switch", "--quiet", "-c", "feature")
    assert agent.writes(CONTEXT, TEXT).passes
    gated.settings(tandem_enabled=True, review_granularity="per_plan")
    assert not agent.writes(CONTEXT, TEXT).passes, "a context is no task"


def patch_of(*lines: str) -> str:
    return "".join(f"{line}\n" for line in ("*** Begin Patch", *lines, "*** End Patch"))


def test_codex_patches_are_judged_by_what_they_make_of_the_file(gated: Gated) -> None:
    agent = Agent("codex", gated.root)
    gated.write({CONTEXT: "# Context\n\n## One\nfirst\nlast\n\n## Two\nfirst\nlast\n"})
    update = f"*** Update File: {CONTEXT}"
    patch = patch_of(update, "@@ ## Two", "-first", "+second", " last", "+more", "*** End of File")
    assert not agent.asks("patch", content=patch).passes
    approve_text(gated, CONTEXT, "# Context\n\n## One\nfirst\nlast\n\n## Two\nsecond\nlast\nmore\n")
    for text, passes in ((patch, True), (patch.replace("+more", "+others"), False)):
        inside = text.replace(".planning/", "")
        assert agent.asks("patch", content=text).passes is passes
        assert agent.runs(f"apply_patch <<'P'\n{text}P\n").passes is passes
        assert agent.runs(f"cd .planning && apply_patch <<'P'\n{inside}P\n").passes is passes
    moved = patch_of(update, f"*** Move to: {FOLDER}/04-CONTEXT.md", "@@", "-first", "+second")
    assert "04-CONTEXT.md may be written when" in agent.asks("patch", content=moved).words
    assert agent.asks("patch", content=patch_of(f"*** Delete File: {CONTEXT}")).passes
    assert agent.asks("patch", content=patch_of("*** Update File: a.txt", "@@", "-nowhere", "+two")).passes
    two = patch_of("*** Add File: notes.md", "+a note") + "apply_patch <<'Q'\n" + moved
    assert "04-CONTEXT.md" in agent.asks("patch", content=two).words, "of several patches each counts"
    for broken in ("*** Begin Patch\n", patch_of("nonsense"), patch_of(f"*** Add File: {CONTEXT}", "no plus")):
        assert not agent.asks("patch", content=broken).passes
    for change in ("@@|nonsense", "-nowhere|+x", "@@|-fir|+x", "+x", "@@ ## Three|-first|+x", "-first|*** End of File"):
        words = agent.asks("patch", content=patch_of(update, *change.split("|"))).words
        assert "Write the whole file" in words, change


def test_p2_a_codex_patch_that_names_a_file_twice_is_refused(gated: Gated) -> None:
    """Each section is applied to the result of the one before it, which is not the file that is judged."""
    agent = Agent("codex", gated.root)
    lower = CONTEXT.lower()
    gated.write({lower: "one\none\n", CONTEXT: "one\none\n", "other.md": "one\none\n"})
    approve_text(gated, CONTEXT, "two\none\n")
    approve_text(gated, lower, "two\none\n")
    once = ("@@", "-one", "+two")
    update, other = f"*** Update File: {CONTEXT}", "*** Update File: other.md"
    assert agent.asks("patch", content=patch_of(update, *once)).passes
    for patches in (
        patch_of(update, *once, update, *once),
        patch_of(update, *once, f"*** Update File: ./{CONTEXT}", *once),
        # Where case does not tell files apart, that is one file, too.
        patch_of(f"*** Update File: {lower}", *once, update, *once),
        patch_of(other, *once, other, f"*** Move to: {CONTEXT}", *once),
        patch_of(update, *once) + "apply_patch <<'Q'\n" + patch_of(update, *once),
    ):
        assert "Write the whole file" in agent.asks("patch", content=patches).words, patches


def test_edits_keep_the_files_line_ends(gated: Gated) -> None:
    agent = Agent("claude", gated.root)
    gated.write({CONTEXT: b"# Context\r\none\r\n"})
    approve_text(gated, CONTEXT, "# Context\r\ntwo\r\n")
    assert agent.edits(CONTEXT, "# Context\none", "# Context\ntwo").passes

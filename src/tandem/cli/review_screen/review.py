"""One review: its change, its texts, its discussion, and everything that a person may do to it."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import textwrap
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, ClassVar

from textual import on
from textual.actions import SkipAction
from textual.app import ComposeResult, SuspendNotSupported
from textual.binding import BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widgets import Checkbox, Footer, OptionList, Static, Tab, TabbedContent, TabPane
from textual.widgets.option_list import Option

from tandem.cli.open import edited, open_in_window, proving_path
from tandem.cli.render import finding_place
from tandem.cli.review_screen import diff_view, texts
from tandem.cli.review_screen.desk import LineRef, LoadedReview, ScreenClient, ScreenDraft, read
from tandem.cli.review_screen.diff_view import DiffView, Row
from tandem.cli.review_screen.screens import Composer, LiveScreen, Question, details, host
from tandem.cli.review_screen.texts import DiscussionView, MarkdownView, bindings
from tandem.client import Unreachable
from tandem.core.texts import is_too_much_markdown
from tandem.core.visible import is_blank, visible, visible_line
from tandem.errors import InvalidInput, TandemError
from tandem.present.keys import key_of
from tandem.reviews.edits import Editable, is_applicable
from tandem.reviews.finding_contract import FindingView
from tandem.reviews.finding_rules import ANSWERS, OPEN, SAID_BY_FINDINGS, changes
from tandem.reviews.page_contract import as_finding

_FIRST_FOCUS = {"change": "#diff", "texts": "#document", "discussion": "#talk", "counter": "#counter-diff"}
_LARGEST_DOCUMENT = 100_000
"""Characters of a text that is shown as it was written."""
_NEED_REASON = frozenset({"refuted", "deferred", "reopened"})
_DETAILS = {"category", "failure", "suggestion", "pre_existing"}
_ALL_VERIFIED = "all_verified"
_VERDICT_KEY = key_of("review", "verdict('')")


class ReviewScreen(LiveScreen):
    """A review that was opened from the list."""

    PARTS = ("review", "diff", "talk")
    BINDINGS: ClassVar[list[BindingType]] = bindings("review")

    def __init__(self, desk: ScreenClient, review_id: str) -> None:
        super().__init__(desk)
        self.review_id = review_id
        self.reading: LoadedReview | None = None
        self.unusual: tuple[str, ...] = ()
        self._shown: int | None = None
        self._since: int | None = None
        self._rows: list[Row] = []
        self._source: object = None
        self._texts: str | None = None
        self._drawn: object = None
        self._edited: dict[str, Editable] = {}

    def compose(self) -> ComposeResult:
        """The facts above, the rest in tabs."""
        yield Static("", id="trouble", markup=False)
        yield Static("", id="headline", markup=False)
        yield Static("", id="facts", markup=False)
        with TabbedContent(id="tabs"):
            with TabPane("Change", id="change"), Horizontal():
                yield OptionList(id="files", markup=False)
                yield DiffView(id="diff")
            with TabPane("Texts", id="texts"), VerticalScroll(id="document"):
                yield MarkdownView(id="markdown")
            with TabPane("Discussion", id="discussion"):
                yield DiscussionView(id="talk")
            with TabPane("Counter-patch", id="counter"):
                yield DiffView(id="counter-diff")
        yield Static("", id="second", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        """Begin with the change."""
        self.show_trouble("")
        self.query_one("#second").display = False
        self._counter_tab.display = False
        self.query_one("#diff").focus()

    @property
    def _loaded(self) -> LoadedReview:
        """The review; an action that needs it does nothing before it is read."""
        if self.reading is None:
            raise SkipAction
        return self.reading

    @property
    def spot(self) -> LineRef | None:
        """The chosen lines, or the one under the cursor, while the change is looked at."""
        return self._diff.spot if self._tab == "change" else None

    @property
    def _diff(self) -> DiffView:
        return self.query_one("#diff", DiffView)

    @property
    def _tab(self) -> str:
        return self.query_one("#tabs", TabbedContent).active

    @property
    def _counter_tab(self) -> Tab:
        # Not `hide_tab`, which comes back to its tabs after the next refresh and fails if the screen was left by then.
        return self.query_one("#tabs", TabbedContent).get_tab("counter")

    @property
    def _heads(self) -> dict[str, str]:
        """The heading of each file of the change, by its path."""
        return {row.path: row.text for row in self._rows if row.kind == "file"}

    def is_about_this(self, subjects: frozenset[str]) -> bool:
        """Whether this review is among them."""
        return self.review_id in subjects

    async def read_again(self) -> None:
        """Ask the broker for the review, in the round that is looked at."""
        wanted = (self._shown, self._since)
        found = await read(self.desk.client, self.review_id, self.desk.person, *wanted)
        source = (found.proposal.round, self._since)
        content = self._rows
        if source != self._source:
            content = await asyncio.to_thread(diff_view.of_round, found.proposal, self._since)
            self.unusual = await asyncio.to_thread(texts.unusual, found.proposal)
        if (self._shown, self._since) != wanted:
            # Another round was asked for meanwhile, and is read next.
            return
        is_first, self.reading = self.reading is None, found
        self._shown, self._rows = found.proposal.round, content
        if source != self._source:
            self._show_files(found)
        self._show_rows(keep_place=source == self._source)
        self._source = source
        self.show_again()
        await self.query_one("#talk", DiscussionView).show_entries(found.entries, is_whole=found.is_whole)
        await self._show_texts(found)
        self._show_counter_patch(found)
        if is_first and found.proposal.path is not None:
            self.action_tab("texts")

    def show_again(self) -> None:
        """Redraw the state."""
        if self.reading is not None:
            self.query_one("#headline", Static).update(texts.headline(self.reading))
            self.query_one("#facts", Static).update(texts.lines(self.reading, self.desk.person, self._since))

    def refresh_soon(self) -> None:
        """Have it read again; one's own drafts are shown at once."""
        if self.reading is not None and self.is_mounted:
            self._show_rows(keep_place=True)
        super().refresh_soon()

    def _show_rows(self, *, keep_place: bool) -> None:
        found = self.reading
        if found is not None:
            number = found.proposal.round
            known = [one for one in found.findings if one.round <= number]
            unsent = found.unsent, dict(self.desk.drafts.answers(self.review_id))
            if (self._rows, known, unsent) != self._drawn:
                self._drawn = (self._rows, known, unsent)
                self._diff.show_rows(diff_view.with_findings(self._rows, known, *unsent), keep_place=keep_place)

    def _show_files(self, found: LoadedReview) -> None:
        heads = self._heads
        files = self.query_one("#files", OptionList)
        files.set_options([Option(text, id=f"f{at}") for at, text in enumerate(heads.values())])
        files.set_class(len(heads) < 2 or found.proposal.path is not None, "-needless")  # noqa: PLR2004 - a list has two

    async def _show_texts(self, found: LoadedReview) -> None:
        text = texts.markdown(found)
        if text == self._texts:
            return
        self._texts = text
        if is_too_much_markdown(text):
            cut = len(text) - _LARGEST_DOCUMENT
            more = f"\n\n*… {cut:,} more characters: tandem review proposal {self.review_id} has them.*"
            rest = more if cut > 0 else ""
            as_written = textwrap.indent(text[:_LARGEST_DOCUMENT], "    ", lambda _: True)
            text = f"*The text is shown as it was written.*\n\n{as_written}{rest}"
        await self.query_one(MarkdownView).update(text)

    def _show_counter_patch(self, found: LoadedReview) -> None:
        patch = found.proposal.counter_patch
        self._counter_tab.display = patch is not None
        if patch is None:
            if self._tab == "counter":
                self.action_tab("change")
            return
        shown = diff_view.of_round(texts.offered(found.proposal, patch), None)
        self.query_one("#counter-diff", DiffView).show_rows(shown, keep_place=True)

    @on(OptionList.OptionHighlighted, "#files")
    def go_to_file(self, event: OptionList.OptionHighlighted) -> None:
        """Show the file that is chosen."""
        if event.option_list.has_focus:
            self._diff.jump_to_file(list(self._heads)[event.option_index])

    @on(DiffView.Moved)
    def choose_file(self, event: DiffView.Moved) -> None:
        """Mark the file that the cursor is in."""
        paths = list(self._heads)
        files = self.query_one("#files", OptionList)
        if event.path in paths and not files.has_focus and files.option_count == len(paths):
            files.highlighted = paths.index(event.path)

    def action_tab(self, name: str) -> None:
        """Show one of the tabs."""
        tabs = self.query_one("#tabs", TabbedContent)
        if name == "counter" and (self.reading is None or self.reading.proposal.counter_patch is None):
            self.notify("There is no counter-patch to decide.", markup=False)
            return
        tabs.active = name
        self.query_one(_FIRST_FOCUS[name]).focus()

    def action_seek_finding(self, by: int) -> None:
        """Go to the next, or previous, finding."""
        self.action_tab("change")
        if not self._diff.seek_finding(by):
            self.notify("There is no further finding.", markup=False)

    def action_files(self) -> None:
        """Go to the list of files."""
        self.query_one("#files").focus()

    def action_show_round(self, by: int) -> None:
        """Show an earlier, or a later, round."""
        found = self._loaded
        wanted = found.proposal.round + by
        if not 1 <= wanted <= found.status.round:
            self.notify("There is no such round.", markup=False)
            return
        self._shown, self._since = wanted, None
        self.refresh_soon()

    def action_interdiff(self) -> None:
        """Compare with the round before, then with the ones before that, then with none."""
        found = self._loaded
        if found.proposal.round == 1:
            self.notify("This is the first round: there is nothing to compare it with.", markup=False)
            return
        since = found.proposal.round if self._since is None else self._since
        self._since = since - 1 if since > 1 else None
        self.refresh_soon()

    def action_comment(self) -> None:
        """Write on the line under the cursor; where there is none, claim."""
        if self.spot is not None and self.spot.line is not None:
            self.action_find()
        else:
            self.action_claim()

    def action_claim(self) -> None:
        """Claim it."""
        if self._may_decide(self._loaded):
            claim = self.desk.client.claim_review(reviewer_id=self.desk.person, review_id=self.review_id)
            self.run_worker(self.attempt(claim, "Claimed: it is yours to decide."))

    def action_release(self) -> None:
        """Give the claim back."""
        self.run_worker(self.attempt(self.desk.release(self._loaded), "Released: others can claim it."))

    def action_retry(self) -> None:
        """Have it go on that waits for a person, or for a later try."""
        if self.reading:
            self.run_worker(self.attempt(self.desk.client.retry_review(self.review_id), "It goes on."))

    def action_browse(self) -> None:
        """Open its page."""
        path = proving_path(self.desk.client.location, f"/reviews/{self.review_id}")
        self.run_worker(self._browse(f"{self.desk.client.address}{path}"))

    async def _browse(self, url: str) -> None:
        opened = await asyncio.to_thread(open_in_window, url)
        self.notify(url, title="In the browser" if opened else "Its page", markup=False)

    async def renew(self) -> None:
        """Extend the person's claim, if they have one; that it could not be is seen when it is read again."""
        reading = self.reading
        if reading is not None and reading.is_held_by(self.desk.person):
            with contextlib.suppress(TandemError):
                generation = reading.status.claim_generation
                await self.desk.client.renew_claim(self.review_id, claim_generation=generation)
            self.refresh_soon()

    def action_approve(self) -> None:
        """Approve at once, unless there is something to look at, or to send with it."""
        found = self._judged("A verdict is for the current round.")
        if found is None:
            return
        if self.unusual or found.drafts or self.review_id in self.desk.drafts.unsent() or texts.gate(found):
            self.action_verdict("approved")
        else:
            key, shown = secrets.token_hex(16), found.versions
            given = self.desk.decide(found, found.proposal.round, "approved", "", key, shown=shown)
            self.run_worker(self.attempt(given, "Your verdict is given."))

    def action_verdict(self, chosen: str) -> None:
        """Ask for the verdict on the round that is shown."""
        first = self._judged("A verdict is for the current round.")
        if first is None:
            return
        number, shown = first.proposal.round, first.versions
        drafts = self.desk.drafts
        draft = drafts.text(self.review_id, "verdict")
        draft.choice = chosen or draft.choice
        still = [one.finding_id for one in first.findings if one.state in OPEN]
        choices = {**texts.VERDICTS, _ALL_VERIFIED: f"Approve, with all {len(still)} open findings verified"}
        if not still:
            del choices[_ALL_VERIFIED]

        async def send(verdict: str, reason: str, key: str) -> None:
            given, verified = ("approved", still) if verdict == _ALL_VERIFIED else (verdict, [])
            await self.desk.decide(self._loaded, number, given, reason, key, shown=shown, verified=verified)

        self._ask(
            Question(
                f"Your verdict on round {number}",
                draft,
                send,
                about=texts.about_verdict(first, self.desk, self.unusual),
                choices=choices,
                needs_text=frozenset(texts.VERDICTS) - {"approved", *(SAID_BY_FINDINGS if first.drafts else ())},
                is_text_first=bool(chosen),
            ),
            "Your verdict is given.",
        )

    def _may_decide(self, reading: LoadedReview) -> bool:
        """Whether a verdict can be the person's; says why not."""
        if not reading.is_own(self.desk.person):
            return True
        release = "\nX releases your claim." if reading.is_held_by(self.desk.person) else ""
        self.notify(texts.OWN + release, severity="warning", markup=False)
        return False

    def _judged(self, why: str) -> LoadedReview | None:
        """The review, if the person may judge the round that is shown; says why not."""
        found = self._loaded
        if found.is_current:
            return found if self._may_decide(found) else None
        message = f"{why} Round {found.proposal.round} is shown; ]] goes on to round {found.status.round}."
        self.notify(message, severity="warning", markup=False)
        return None

    def action_find(self) -> None:
        """Ask for a finding on the line under the cursor, or for the draft that is there; a verdict sends it."""
        reading, spot = self._judged("Findings are on the current round."), self.spot
        if reading is None:
            return
        if spot is None:
            self.notify("Findings go on lines: go to one in the change first (1).", severity="warning", markup=False)
            return
        number, place = reading.proposal.round, spot.place
        here = self._diff.row.finding if self._diff.row else ""
        known = next((one for one in reading.drafts if one.draft_id == here), None)
        before = as_finding(known) if known else None
        if before is not None and spot.first is None and before.end_line is not None:
            spot = replace(spot, first=before.line)
            place = spot.place
        draft = self.desk.drafts.text(
            self.review_id, f"finding {here} {number} {self._since} {spot.side} {spot.first} {spot.line} {spot.path}"
        )
        lines = self._diff.lines_of(spot)
        given = before.model_dump(include=_DETAILS, exclude_defaults=True) if before else {}
        draft.begin(known, {"suggestion": lines, **given})
        round_of = number
        if self._since is not None and spot.side == "old":
            # A line that is gone since a round is one of that round, as it was.
            round_of, spot = self._since, replace(spot, side="new")

        async def keep(severity: str, claim: str, _key: str) -> None:
            said = {k: v for k, v in draft.more.items() if (v != lines if k == "suggestion" else v and str(v).strip())}
            if said and known is None and is_blank(claim):
                raise InvalidInput("Say the fault first: the other fields go with it.", field="claim")
            drafts = await self.desk.keep(
                self.review_id, round_of, spot, draft.known, severity=severity, body=claim, **said
            )
            self.reading = replace(self._loaded, drafts=drafts)

        about = texts.about_finding(reading, is_on_file=not spot.line)
        fields = details(draft.more, has_suggestion=spot.side == "new" and spot.line is not None)
        more, hint = "More: category, how it fails, a suggestion", "The fault; empty for none"
        question = Question(f"Finding on {visible(place)}", draft, keep, about, texts.SEVERITIES, hint=hint)
        question = replace(question, is_text_first=True, fields=fields, more=more, go_on=self._go_on)
        self._ask(question, f"Kept: it goes with your next verdict ({_VERDICT_KEY}).")

    def _go_on(self, then: str) -> None:
        """From a finding to one on the next line, or to the verdict."""
        if then == "line":
            self._diff.next_line()
            self.action_find()
        elif then == "verdict":
            self.action_verdict("changes_requested")

    def action_suggestions(self) -> None:
        """Ask which suggestions become a counter-patch: that of the finding under the cursor, or all."""
        first = self._judged("A counter-patch is for the current round.")
        if first is None:
            return
        found = {one.finding_id: one for one in first.findings if is_applicable(one)}
        if not found:
            self.notify("No open finding has a suggestion for lines as they are here.", markup=False)
            return
        here = self._diff.row.finding if self._diff.row is not None and self._tab == "change" else ""
        draft = self.desk.drafts.text(self.review_id, "suggestions")
        draft.more = dict.fromkeys([here] if here in found else found, True)

        async def files() -> list[Editable]:
            return await self.desk.opened(first, [one for name, one in found.items() if draft.more.get(name)])

        said = {name: visible_line(f"{finding_place(one)}: {one.claim}") for name, one in found.items()}
        fields = [Checkbox(Content(text), name in draft.more, id=name, compact=True) for name, text in said.items()]
        self._offer(first, "A counter-patch of suggestions", draft, files, fields=fields, more="Suggestions")

    async def action_edit(self) -> None:
        """Have the file under the cursor edited, and ask for the words that go with the counter-patch."""
        first = self._judged("A counter-patch is for the current round.")
        path = (self._diff.row.path if self._diff.row is not None else "") or next(iter(self._heads), "")
        if first is None:
            return
        try:
            file = self._edited.get(path) or (await self.desk.opened(first, (), [path]))[0]
            with host(self).suspend():
                # Not in a thread: nothing may be drawn over the editor.
                text = edited(file.content, path)
        except (TandemError, OSError, SuspendNotSupported) as error:
            self.notify(visible(str(error)), severity="error", markup=False)
            return
        file = self._edited[path] = replace(file, content=text)
        if not file.changed:
            self.notify("Nothing was changed.", markup=False)
            return

        async def files() -> list[Editable]:
            return [file]

        draft = self.desk.drafts.text(self.review_id, f"edit {path}")
        self._offer(first, f"A counter-patch: {visible_line(path)}", draft, files)

    def _offer(
        self,
        first: LoadedReview,
        title: str,
        draft: ScreenDraft,
        files: Callable[[], Awaitable[list[Editable]]],
        **more: Any,
    ) -> None:
        shown = first.versions

        async def send(verdict: str, reason: str, key: str) -> None:
            await self.desk.offer(self._loaded, await files(), verdict, reason, key, shown)

        choices = {"changes_requested": "Request changes with it", "comment": "Offer it as a comment"}
        about = texts.about_verdict(first, self.desk, self.unusual)
        question = Question(title, draft, send, about, choices, frozenset(choices), is_text_first=True, **more)
        self._ask(question, "Your counter-patch is offered.")

    def action_message(self) -> None:
        """Ask for a message."""
        self._ask_message("message", None, "")

    def action_settle(self) -> None:
        """Ask what became of the finding that is chosen, or for an answer that settles the chosen message."""
        entry, row = self.query_one("#talk", DiscussionView).chosen, self._diff.row
        chosen = entry.id if entry is not None else row.finding if row is not None and self._tab == "change" else ""
        finding = next((one for one in self._loaded.findings if one.finding_id == chosen), None)
        if finding is not None:
            self._ask_finding(finding)
            return
        if entry is None or entry.kind != "message":
            where = "Go to a finding first (]c), or choose a message in the discussion (d, then j and k)."
            self.notify(where, markup=False)
            return
        body = " ".join((entry.body or "").split())
        self._ask_message(f"settle {entry.id}", entry.id, f"It settles: {visible(body)}")

    def _ask_finding(self, one: FindingView) -> None:
        first, drafts = self._loaded, self.desk.drafts
        is_own = first.is_own(self.desk.person)
        said = [word for word in texts.SAID if changes(word, one.state) and not (is_own and word not in ANSWERS)]
        if first.side_of(self.desk.person) == "proposer":
            said.sort(key=lambda word: word not in ANSWERS)
        if not said:
            self.notify(f"It is {one.state}: it takes no more answers.", markup=False)
            return
        with_verdict = first.status.status in texts.UNDECIDED

        async def send(word: str, reason: str, key: str) -> None:
            if word not in ANSWERS and with_verdict:
                drafts.settle(self.review_id, one.finding_id, word, reason)
            else:
                await self.desk.answer(one, word, reason, key)

        about = f"{one.severity}, {one.state}: {visible(one.claim)}"
        about += f"\n{visible(one.answered_by or '')}: {visible(one.answer)}" if one.answer else ""
        about += "\nWhat its reviewer says goes with the next verdict." if with_verdict else ""
        draft, choices = drafts.text(self.review_id, one.finding_id), {word: texts.SAID[word] for word in said}
        self._ask(Question("What became of it?", draft, send, about, choices, _NEED_REASON), "Kept, or sent.")

    def _ask_message(self, purpose: str, resolves: str | None, about: str) -> None:
        first = self._loaded
        sides = {"reviewer": f"As its reviewer, {visible(self.desk.person)}", "proposer": "For its proposer"}
        if first.is_own(self.desk.person) and not first.is_held_by(self.desk.person):
            sides.pop("reviewer")
        elif first.status.status == "pending":
            sides["reviewer"] += " (claims it first)"
        side = first.side_of(self.desk.person)
        choices = {side: sides[side], **sides}

        async def send(chosen: str, body: str, key: str) -> None:
            await self.desk.say(self._loaded, chosen, body, resolves, key)

        draft = self.desk.drafts.text(self.review_id, purpose)
        question = Question("A message", draft, send, about, choices, frozenset(choices), "Message")
        self._ask(question, "Your message is sent.")

    async def action_counter_patch(self, answer: str) -> None:
        """Ask whether to accept the counter-patch, or decline it."""
        first = self._loaded
        patch = first.proposal.counter_patch
        if patch is None:
            self.notify("There is no counter-patch to decide.", severity="warning", markup=False)
            return

        async def send(_choice: str, reason: str, key: str) -> None:
            client = self.desk.client
            method = client.accept_counter_patch if answer == "accept" else client.reject_counter_patch
            await method(self.review_id, counter_patch_id=patch.id, reason=reason or None, idempotency_key=key)

        title = f"{answer.capitalize()} the counter-patch of {visible(patch.author)}?"
        about = "It becomes the next round." if answer == "accept" else "The content stays as it is."
        offered = texts.offered(first.proposal, patch)
        about = "\n".join([about, *texts.look_at(await asyncio.to_thread(texts.unusual, offered))])
        self._ask(Question(title, self.desk.drafts.text(self.review_id, answer), send, about), f"Sent: {answer}.")

    def action_owed(self) -> None:
        """Ask for the review of a waived requirement."""
        if not self._loaded.status.owed:
            self.notify("No review after the fact is owed.", markup=False)
            return
        first = self._judged("The review that is owed is for the current round.")
        if first is None:
            return

        async def send(choice: str, reason: str, key: str) -> None:
            await self.desk.settle(first, choice, reason, key)

        about, choices = texts.owed(first, self.unusual)
        objections = frozenset(one for one in choices if one.startswith("objects"))
        draft = self.desk.drafts.text(self.review_id, "owed")
        self._ask(Question("The review that is owed", draft, send, about, choices, objections), "Sent.")

    def action_close_review(self) -> None:
        """Ask whether to end it."""
        first = self._loaded

        async def send(_choice: str, reason: str, key: str) -> None:
            await self.desk.client.close_review(self.review_id, reason=reason or None, idempotency_key=key)

        is_decided = first.status.status in {"approved", "rejected"}
        about = f"It is {first.status.status}." if is_decided else "It is undecided: it is withdrawn."
        self._ask(Question("Close the review?", self.desk.drafts.text(self.review_id, "close"), send, about), "Closed.")

    def _ask(self, question: Question, done: str) -> None:
        async def send(choice: str, text: str, key: str) -> None:
            try:
                await question.send(choice, text, key)
            except Unreachable:
                self.refresh_soon()
                raise
            except TandemError:
                # Before the refusal is shown: who then does as it says does so with the review as it is.
                await self.refreshed()
                raise

        def ended(sent: str | None) -> None:
            if sent == "sent":
                self.notify(done, markup=False)
            self.refresh_soon()
            if sent and question.go_on is not None:
                question.go_on(sent)

        host(self).push_screen(Composer(replace(question, send=send)), ended)

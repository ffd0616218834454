"""Every key of the pages and of the terminal's screens: its place, its effect, and its heading in the help.

Pages and screens take their keys and their `?` help from here, so that the same key does the same on both.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

TYPE_CHECKING = False  # as in `text`
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final


@dataclass(frozen=True, slots=True)
class Key:
    """A key, or a pair of keys of which the second does the opposite.

    Attributes:
        group: Its heading in the help.
        keys: `a`, or `] c` for one after the other; of a pair both, with a comma between.
        does: Its effect, in a few words.
        page: The CSS selector of the element that it presses on a page, or that it needs there; `=` for the one with
            its `data-key`; empty if pages have no such key.
        screens: The names of the terminal's screens that have it.
        act: Its action there; a pair's goes on with `1)` and `-1)`.
        also: Other keys of the terminal for the same, of a pair for both.
        in_footer: Its name at the foot of a screen; empty if it is not there.
    """

    group: str
    keys: str
    does: str
    page: str = ""
    screens: str = ""
    act: str = ""
    also: str = ""
    in_footer: str = ""

    @property
    def parts(self) -> list[str]:
        """Each key alone."""
        return self.keys.split(", ")

    def bound(self) -> Iterator[tuple[str, str]]:
        """The keys of the terminal with what each does."""
        pair = len(self.parts) > 1
        for keys in (self.parts, self.also.split(", ") if self.also else ()):
            for at, key in enumerate(keys):
                yield key, f"{self.act}{(1, -1)[at]})" if pair else self.act


_MOVE, _GO, _READ, _DECIDE, _WRITE, _ELSE = "Move", "Go to", "Read a review", "Decide", "Write", "Lists and reviewers"

KEYS: Final = (
    Key(_MOVE, "j, k", "Next, previous", "[data-item], tr.line", "list reviewers diff talk", "step(", "down, up"),
    Key(_MOVE, "Enter", "Open the chosen row", "[data-item]", "list reviewers diff", "open", "", "Open"),
    Key(_MOVE, "G, g", "To the end, to the top", ":root", "list reviewers diff", "jump(", "end, home"),
    Key(_MOVE, "pagedown, pageup", "A page down, up", "", "diff", "page(", "space"),
    Key(_MOVE, "right, left", "To the right, to the left", "", "diff", "aside("),
    Key(_MOVE, "/", "Search, or filter", "#files-filter, [data-key='/']", "list diff", "search", "", "Search"),
    Key(_MOVE, "n, p", "Next, previous file; after a search, its hits", "=", "diff", "seek_file(", "f, F"),
    Key(_MOVE, "N, P", "Next, previous change", "=", "diff", "seek_change(", "h, H"),
    Key(_MOVE, "] c, [ c", "Next, previous finding", "=", "review", "seek_finding("),
    Key(_MOVE, "J, K", "Choose lines downwards, upwards", "", "diff", "extend(", "shift+down, shift+up"),
    Key(_MOVE, "t", "The files, or the table of contents", "=", "review", "files"),
    Key(_MOVE, "d", "The discussion", "=", "review", "tab('discussion')", "3"),
    Key(_MOVE, "1", "The change", "", "review", "tab('change')"),
    Key(_MOVE, "2", "The texts", "", "review", "tab('texts')"),
    Key(_MOVE, "4", "The counter-patch", "", "review", "tab('counter')"),
    Key(_MOVE, "]", "Next review, or next page", "#next-review, [data-key=']']"),
    Key(_MOVE, "u", "Back", "=", "review reviewers", "back", "escape, q", "Back"),
    Key(_READ, "] ], [ [", "Later, earlier round", "=", "review", "show_round("),
    Key(_READ, "i", "Only what changed since an earlier round, or all", "", "review", "interdiff"),
    Key(_READ, "w", "Leave out changes of blanks, or show them", "#whitespace"),
    Key(_READ, "v", "Mark the file as viewed, or not", "="),
    Key(_READ, "s", "Side by side or unified", "="),
    Key(_READ, "o", "Fold or open the file", "="),
    Key(_READ, "b", "Open in the browser", "", "review", "browse"),
    Key(_DECIDE, "a", "Approve: with a reason if you like", "=", "review", "verdict('approved')", "", "Approve"),
    Key(_DECIDE, "A", "Approve at once", "=", "review", "approve"),
    Key(_DECIDE, "V", "Approve: all open findings are verified", "=", "review", "verdict('all_verified')"),
    Key(_DECIDE, "r", "Request changes: say why", "=", "review", "verdict('changes_requested')", "", "Changes"),
    Key(_DECIDE, "x", "Reject: say why", "=", "review", "verdict('rejected')"),
    Key(_DECIDE, "y", "Choose the verdict", "", "review", "verdict('')"),
    Key(_DECIDE, "X", "Release your claim", "", "review", "release"),
    Key(_DECIDE, "+", "Accept the counter-patch", "", "review", "counter_patch('accept')"),
    Key(_DECIDE, "-", "Decline the counter-patch", "", "review", "counter_patch('decline')"),
    Key(_DECIDE, "O", "Give the review that is owed", "", "review", "owed"),
    Key(_DECIDE, "C", "Close the review", "=", "review", "close_review"),
    Key(_DECIDE, "T", "Let it go on that waits for a person", "", "review", "retry"),
    Key(_WRITE, "c", "Comment on the line; elsewhere, claim", "=", "review", "comment", "", "Comment"),
    Key(_WRITE, "l", "Comment on the line or the file", "", "review", "find"),
    Key(_WRITE, "e", "Offer a counter-patch: edit the file", "=", "review", "edit"),
    Key(_WRITE, "E", "Make a counter-patch of suggestions", "", "review", "suggestions"),
    Key(_WRITE, "m", "Write a message", "=", "review", "message", "", "Message"),
    Key(_WRITE, "S", "Answer the chosen finding or message", "", "review", "settle"),
    Key(_WRITE, "Ctrl Enter", "Send the form that is typed in", "form textarea"),
    Key(_WRITE, "Escape", "Leave a field, close the dialog", "body"),
    Key(_ELSE, "p", "This project, or all", "", "list", "projects", "", "Projects"),
    Key(_ELSE, "x", "Choose the row", "#chosen"),
    Key(_ELSE, "x", "End the reviewer and take over its review", "", "reviewers", "end", "", "End it and take over"),
    Key(_ELSE, "r", "Resume the paused pool", "", "reviewers", "resume", "", "Resume"),
    Key(_ELSE, "R", "The reviewers", "nav a[href='/reviewers']", "list review", "app.reviewers", "", "Reviewers"),
    *(
        Key(_GO, f"g {page[0]}", f"The {page}", "=")
        for page in ("inbox", "queue", "reviewers", "cycles", "activity", "statistics", "projects")
    ),
    Key(_GO, "g n", "Desktop notifications on or off", "="),
    Key(_GO, "g t", "Light, dark or the system's colours", "="),
    Key(_GO, "?", "The keys", "=", "list review reviewers", "keys", "", "Keys"),
    Key(_GO, "q", "Quit", "", "list", "app.quit", "", "Quit"),
)


def of_screens(*names: str) -> list[Key]:
    """The keys of screens of the terminal."""
    return [one for one in KEYS if not set(names).isdisjoint(one.screens.split())]


def key_of(screen: str, act: str) -> str:
    """The key of a screen of the terminal that does this."""
    return next(key for one in of_screens(screen) for key, does in one.bound() if does == act)


def grouped(*screens: str) -> list[tuple[str, list[Key]]]:
    """The keys by their headings: of screens of the terminal, or of the pages."""
    shown = of_screens(*screens) if screens else [one for one in KEYS if one.page]
    return [(group, list(keys)) for group, keys in groupby(shown, lambda one: one.group)]

"""Which commands there are, in the order of the help, and the function of each that is not its operation alone.

`tools/commands_table.py` writes `table.py` from it, with what each command takes.
"""

from __future__ import annotations

REVIEWING = "Reviewing"
HANDING_OVER = "Handing over"
SETTING_UP = "Projects and the broker"

OPERATION = ""
"""In place of a function: the command is its operation's."""
OPERATIONS = "*"
"""In place of a verb: those of all other operations of the noun."""


class Noun:
    """A command of the first level, or a group of commands.

    Attributes:
        about: Its line in the help.
        panel: The heading it stands under.
        commands: The function of each verb, as `module:function` in this package; one without a verb is no group.
        help: What a group says of itself in its own help; default: its line.
        hidden: Whether it is for programs, and not listed.
        default: The verb of a group that is meant where none is named.
    """

    def __init__(
        self,
        about: str,
        panel: str,
        commands: dict[str, str] | str,
        *,
        help: str | None = None,  # noqa: A002 as Typer has it
        hidden: bool = False,
        default: str | None = None,
    ) -> None:
        self.about, self.panel, self.help, self.hidden, self.default = about, panel, help or about, hidden, default
        self.commands = {"": commands} if isinstance(commands, str) else commands

    @property
    def is_group(self) -> bool:
        """Whether it has commands of its own."""
        return "" not in self.commands


TREE: dict[str, Noun] = {
    "commit": Noun("Commit your change, once it is approved.", REVIEWING, "commit:commit"),
    "submit": Noun("Submit your change for review.", REVIEWING, "submit:submit"),
    "apply": Noun("Bring the working tree to the approved content.", REVIEWING, "apply:apply"),
    "land": Noun("Bring a branch to its base branch, approved and checked.", REVIEWING, "land:land"),
    "landing": Noun("The line of branches that land.", REVIEWING, {OPERATIONS: OPERATION}),
    "inbox": Noun("What waits for you, what waits for others, and problems.", REVIEWING, {OPERATIONS: OPERATION}),
    "review": Noun(
        "Reviews: propose, claim, discuss, decide, close.",
        REVIEWING,
        {
            "list": "review:listed",
            "screen": "review:screen",
            "approve": "review:approve",
            "reject": "review:reject",
            "settle": "waivers:settle",
            OPERATIONS: OPERATION,
            "checkout": "apply:checkout",
            "patch": OPERATION,
            "draft": OPERATION,
        },
        help="Reviews: propose, claim, discuss, decide, close.\n\n"
        "At a terminal, [bold]tandem review[/bold] is short for [bold]tandem review screen[/bold].",
        default="screen",
    ),
    "checks": Noun("Checks that run on a change: results, logs, again.", REVIEWING, {OPERATIONS: OPERATION}),
    "findings": Noun(
        "What reviewers found, and what became of it.",
        REVIEWING,
        {"list": "findings:listed", OPERATIONS: OPERATION},
        help="What reviewers found, and what became of it.\n\n"
        "[bold]tandem findings REVIEW[/bold] is short for [bold]tandem findings list REVIEW[/bold].",
        default="list",
    ),
    "policy": Noun(
        "What a change needs before it lands: write a policy, try it.",
        REVIEWING,
        {"init": "policy:init", "check": "policy:check"},
    ),
    "lessons": Noun("False alarms that reviewers are told of.", REVIEWING, {OPERATIONS: OPERATION}),
    "waive": Noun("Let a change go without a requirement.", REVIEWING, "waivers:waive"),
    "open": Noun("Open the broker's pages in your browser.", REVIEWING, "open:open_pages"),
    "gate": Noun(
        "Check whether content is approved; switch the gate on or off.",
        REVIEWING,
        {
            "check": "sources:check",
            "on": "gate_switch:on",
            "off": "gate_switch:off",
            "status": "gate_switch:status",
            "override": "gate_switch:override_gate",
            "server-hook": "gate_switch:server_hook",
            "plan": "gate_steps:plan",
            "context": "gate_steps:context",
            "task": "gate_steps:task",
            "wave": "gate_steps:wave",
            "verification": "gate_steps:verification",
            "set": OPERATION,
            "show": OPERATION,
            "record-override": OPERATION,
            "seen": OPERATION,
        },
    ),
    "commits": Noun("Records of commits and rollbacks.", REVIEWING, {OPERATIONS: OPERATION}, hidden=True),
    "rollback": Noun("Revert a commit that was not approved.", REVIEWING, "rollback:rollback"),
    "audit": Noun(
        "Check commits; show and verify the log.",
        REVIEWING,
        {OPERATIONS: OPERATION, "commits": "audit:commits", "verify": "data:verify"},
        help="Check whether the commits of a range are approved; show and verify the event log.\n\n"
        "[bold]tandem audit RANGE[/bold] is short for [bold]tandem audit commits RANGE[/bold].",
        default="commits",
    ),
    "reviewers": Noun(
        "Reviewers that are started when proposals wait.",
        REVIEWING,
        {
            "run": "reviewers_run:supervise",
            "setup": "reviewers_setup:setup",
            "list": OPERATION,
            "spawn": OPERATION,
            "kill": "reviewers:kill",
            "pause": OPERATION,
            "resume": OPERATION,
            "logs": "reviewers:show_logs",
            "output": OPERATION,
        },
        help="The reviewer pool: reviewers that are started when proposals wait.\n\n"
        "With --broker and no command, or with run: run such a pool here, for that broker, until Ctrl-C. The program, "
        "its model and all limits are those of the table reviewer_pool in your own configuration; 'enabled' need not "
        "be set.",
        default="run",
    ),
    "cycle": Noun(
        "Hand-off cycles: one feature, one active role at a time.",
        HANDING_OVER,
        {
            "example": "cycle:example",
            "init": "cycle:make_keys",
            "start": OPERATION,
            "status": OPERATION,
            "complete": OPERATION,
            "archive": OPERATION,
            "list": OPERATION,
            "show": "cycle:show_cycle",
            "export": "cycle:export",
            "rotate": "cycle:rotate_key",
            "revoke": OPERATION,
        },
    ),
    "session": Noun(
        "Sessions of roles, opened with their keys.", HANDING_OVER, {"open": "cycle:open_session", "close": OPERATION}
    ),
    "lock": Noun("The lock of the role whose turn it is.", HANDING_OVER, {OPERATIONS: OPERATION}),
    "handoff": Noun("What one role hands over to the next.", HANDING_OVER, {OPERATIONS: OPERATION}),
    "me": Noun("Say once who you are; show it.", SETTING_UP, "persons:me"),
    "init": Noun("Set a repository and its agents up for reviews.", SETTING_UP, "init:init"),
    "uninit": Noun("Undo exactly what 'tandem init' did.", SETTING_UP, "init:uninit"),
    "doctor": Noun("Find problems and their remedies.", SETTING_UP, "doctor:doctor"),
    "project": Noun(
        "Registered projects and their folders.",
        SETTING_UP,
        {"add": "project:add_project", "move": "project:move", OPERATIONS: OPERATION},
    ),
    "up": Noun("Start the broker.", SETTING_UP, "broker:up"),
    "status": Noun("Say whether the broker runs, and where.", SETTING_UP, "broker:status"),
    "down": Noun("Stop the broker.", SETTING_UP, "broker:down"),
    "logs": Noun("Show the broker's log.", SETTING_UP, "broker:show_logs"),
    "service": Noun(
        "Start the broker at login, by systemd or launchd.",
        SETTING_UP,
        {"install": "broker:install_service", "status": "broker:show_service", "remove": "broker:remove_service"},
    ),
    "config": Noun("Show settings and where each comes from.", SETTING_UP, {"show": "settings:show_settings"}),
    "data": Noun(
        "The database: back it up, restore it, move it.",
        SETTING_UP,
        {
            "backup": "data:backup",
            "restore": "data:restore",
            "export": "data:export",
            "import": "data:import_",
            "copy": "data:copy",
        },
    ),
    "gsd": Noun(
        "Reviews of GSD's steps: on, off, and where they stand.",
        SETTING_UP,
        {"on": "gsd:on", "off": "gsd:off", "status": "gsd:status", "overlay": "gsd:overlay"},
    ),
    "trust": Noun("Allow a project's settings to loosen, by their hash.", SETTING_UP, "settings:trust_files"),
    "token": Noun(
        "Access tokens: who may call the broker, and for what.",
        SETTING_UP,
        {OPERATIONS: OPERATION, "create": "credentials:create_token"},
    ),
    "webhook": Noun(
        "Post events to other programs, signed; see what arrived.",
        SETTING_UP,
        {OPERATIONS: OPERATION, "add": "credentials:add_webhook", "test": "credentials:try_webhook"},
    ),
    "supervisor": Noun(
        "Operations for programs that run a reviewer pool.", SETTING_UP, {OPERATIONS: OPERATION}, hidden=True
    ),
    "mcp": Noun("Speak MCP over stdio for an agent.", SETTING_UP, "broker:forward", hidden=True),
    "demo": Noun("Watch agents play a review, hand-off cycles and a pool.", SETTING_UP, "demo:demo"),
    "help": Noun("Show the help of a command: tandem help review list.", SETTING_UP, "main:help_of"),
    "version": Noun("Show the version.", SETTING_UP, "main:show_version"),
}
SUBGROUPS = {
    "patch": Noun("Counter-patches: take a reviewer's, or decline it.", REVIEWING, {OPERATIONS: OPERATION}),
    "draft": Noun("What you have written on the page and not sent.", REVIEWING, {OPERATIONS: OPERATION}, hidden=True),
}
"""Groups within a group: operations of the nouns `review patch` and `review draft`."""

"""Mistakes that people make at the command line: the commands, and the folders."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake.

    Attributes:
        about: The mistake, as a heading.
        typed: The words behind `tandem`, with the names of existing things in braces.
        environment: Variables of the shell.
        folder: Where it was typed: one of the folders that are there.
    """

    about: str
    typed: str
    environment: dict[str, str] = field(default_factory=dict[str, str])
    folder: str = "shop"


AGENT = {"CLAUDECODE": "1"}
STRANGER = {"TANDEM_CONFIG_DIR": "{stranger}"}

MISTAKES: dict[str, tuple[Mistake, ...]] = {
    "Commands": (
        Mistake("A group is misspelt", "reveiw list"),
        Mistake("A command is misspelt", "review lsit"),
        Mistake("The group is left out", "approve {review}"),
        Mistake("An operation's name in place of a command", "claim_review {review}"),
        Mistake("No such command, and nothing near", "frobnicate"),
        Mistake("A command of Git", "push"),
        Mistake("Help of a command that is not there", "help review lsit"),
        Mistake("Help below a command", "help submit now"),
        Mistake("The counter-patch is taken as before", "review accept {review} {patch}"),
    ),
    "Options": (
        Mistake("An option is misspelt", "review list --statsu open"),
        Mistake("A command has no such option", "submit --colour blue -m 'Retry uploads'"),
        Mistake("A value is left out", "submit -m"),
        Mistake("A required argument is left out", "review approve"),
        Mistake("A required option is left out", "review verdict {review}"),
        Mistake("A rejection without its reason", "review reject {review}"),
        Mistake("One argument too many", "review approve {review} {review}"),
        Mistake("A choice that there is not", "review list --status done"),
        Mistake("A number is no number", "review show {review} --round two"),
        Mistake("A number that is too small", "review list --limit 0"),
        Mistake("A number that is too large", "review search --text uploads --limit 100000"),
        Mistake("A time limit below nothing", "review status {review} --wait --timeout=-1"),
        Mistake("Options that exclude each other", "review list --all --closed"),
        Mistake("The same thing given twice", "review show {review} --review-id {other}"),
        Mistake("A usage error, for a program", "review list --statsu open --json"),
        Mistake("A refusal, for a program", "review show rv_none --json"),
        Mistake("JSON that is none", "review verdict {review} --verdict comment --reason why --comments [file:1]"),
        Mistake("A file that is not there", "review verdict {review} --verdict comment --reason @why.md"),
    ),
    "Submitting": (
        Mistake("No words on what the change is for", "submit"),
        Mistake("Empty words on what the change is for", "submit -m ''"),
        Mistake("Nothing has changed", "submit -m 'Retry uploads'", folder="clean"),
        Mistake("Nothing is staged", "submit -m 'Retry uploads' --staged"),
        Mistake("A commit that is not there", "submit -m 'Retry uploads' --commit nothing"),
        Mistake("A range that is none", "submit -m 'Retry uploads' --range main"),
        Mistake("A text that is not there", "submit -m 'Plan of phase 3' --text PLAN.md"),
        Mistake("A text and its description", "submit -m 'Plan' --text a.txt --description more"),
        Mistake("A new round of a review that is not there", "submit -m 'Retry uploads' --revise rv_none"),
        Mistake("A new round of a closed review", "submit -m 'Retry uploads' --revise {closed}"),
        Mistake("A revision that follows another", "submit --revise {review} --parent {closed}"),
        Mistake("Outside of a repository", "submit -m 'Retry uploads'", folder="elsewhere"),
        Mistake("In a repository that is not registered", "submit -m 'Retry uploads'", folder="unregistered"),
        Mistake("A diff that is none", "review create --intent 'Retry uploads' --diff 'a line'"),
        Mistake("A diff that does not apply", "review create --intent 'Retry uploads' --diff @other.diff"),
        Mistake("A long name", "submit -m 'Retry uploads' --phase " + "x" * 201),
    ),
    "Reviewing": (
        Mistake("A review that is not there", "review show rv_none"),
        Mistake("An id of something else", "review show {patch}"),
        Mistake("Approving without a name", "review approve {other}", environment=STRANGER),
        Mistake("Approving one's own change", "review approve {review}"),
        Mistake("An agent approves the change of its own session", "review approve {agents}", environment=AGENT),
        Mistake("Approving what somebody else reviews", "review approve {claimed}"),
        Mistake("Approving a closed review", "review approve {closed}"),
        Mistake("Approving an older round", "review approve {other} --round 7"),
        Mistake("A verdict without a claim", "review verdict {other} --verdict approved"),
        Mistake("A verdict that there is not", "review verdict {other} --verdict lgtm"),
        Mistake(
            "Changes requested without a reason",
            "review verdict {claimed} --verdict changes_requested --reviewer-id rita",
        ),
        Mistake("A reason of nothing", "review reject {other} -m ''"),
        Mistake("Giving back what one does not hold", "review release {claimed} --claim-generation 9"),
        Mistake("A second message in a row", "review message {spoken} --sender-role proposer --body 'And this'"),
        Mistake("A message of no words", "review message {other} --sender-role proposer --body ''"),
        Mistake("A side that there is not", "review message {other} --sender-role author --body 'Why?'"),
        Mistake("A counter-patch that is not there", "review patch accept {review} cp_none"),
        Mistake("A page that is made up", "review list --page 7"),
        Mistake("Applying a review that is not approved", "apply {review}"),
        Mistake("Applying a review that is not there", "apply rv_none"),
        Mistake("A folder that is in use", "review checkout {review} ."),
        Mistake("A check that there is not", "checks log {review} tests"),
        Mistake("Withdrawing an approval that was not given", "review withdraw {review} --reason 'Too early'"),
        Mistake("The screen without a terminal", "review screen"),
    ),
    "Who and where": (
        Mistake("Asking for one's own name without one", "me", environment=STRANGER),
        Mistake("An empty name", "me ' '"),
        Mistake("A name with a line break", "me 'al\nice'"),
        Mistake("An agent takes a person's name", "me mallory", environment=AGENT),
        Mistake("A project is misspelt", "review list --project shpo"),
        Mistake("A project is misspelt, and waited for", "review list --project shpo --wait --timeout 0"),
        Mistake("A project is misspelt, for a cycle", "cycle start 'login page' --project shpo"),
        Mistake("A project is misspelt, for the gate", "gate on --project shpo"),
        Mistake("A project is misspelt, for a change", "submit -m 'Retry uploads' --project shpo"),
        Mistake("A project that is unknown", "inbox show --project warehouse"),
        Mistake("A folder that is not there", "project add nowhere"),
        Mistake("A folder that is no repository", "project add .", folder="elsewhere"),
        Mistake("A name that another folder has", "project add . --name shop", folder="unregistered"),
        Mistake("Forgetting a project that is misspelt", "project remove shpo"),
        Mistake(
            "An idempotency key used again", "review create --intent other --diff @change.diff --idempotency-key once"
        ),
    ),
    "The broker": (
        Mistake("Nothing listens there", "review list", environment={"TANDEM_BROKER": "http://127.0.0.1:9"}),
        Mistake(
            "Nothing listens there, for a program",
            "review list --json",
            environment={"TANDEM_BROKER": "http://127.0.0.1:9"},
        ),
        Mistake("An address that is none", "review list --broker shop"),
        Mistake("A scheme that is not HTTP", "review list --broker ftp://127.0.0.1:9"),
        Mistake("A port that is none", "up --port 99999"),
        Mistake("Asking for a broker that does not run", "status", environment={"TANDEM_BROKER": "http://127.0.0.1:9"}),
        Mistake("A log level that there is not", "up --port 0", environment={"TANDEM_LOG_LEVEL": "loud"}),
        Mistake("A token for no role", "token create ada --role author"),
        Mistake("A token for a project that is misspelt", "token create ada --role reviewer --project shpo"),
        Mistake("A token for a name with a space", "token create 'ada b' --role reviewer"),
        Mistake("Revoking a token that is not there", "token revoke tok_none"),
        Mistake("A time that is none", "token create ada --role reviewer --days soon"),
    ),
    "The gate": (
        Mistake("A commit without an approval", "gate check --commit HEAD"),
        Mistake("Two contents at once", "gate check --staged --commit HEAD"),
        Mistake("An agent overrides", "gate override -m 'In a hurry'", environment=AGENT),
        Mistake("An override without a terminal", "gate override -m 'In a hurry'"),
        Mistake("A branch that git does not take", "gate on --branch 'a b'"),
        Mistake("A range that is none for an audit", "audit nothing..HEAD"),
        Mistake("Rolling back a review that was not committed", "rollback {review}"),
        Mistake("Trusting where there is nothing", "trust"),
        Mistake("An agent trusts", "trust", environment=AGENT, folder="loose"),
    ),
    "Hand-off cycles": (
        Mistake("A workflow that there is not", "cycle start 'login page' --workflow front"),
        Mistake("Starting without keys", "cycle start 'login page'"),
        Mistake("A role that there is not", "session open designer --psk-file {keys}/gemini.psk", folder="clean"),
        Mistake("A key that is not the role's", "session open gemini --psk-file {keys}/codex.psk", folder="clean"),
        Mistake("A role without a key", "session open gemini"),
        Mistake("A key file that is not there", "session open gemini --psk-file nowhere.psk"),
        Mistake("A key on the command line", "cycle init --key gemini=secret"),
        Mistake("No session", "lock acquire"),
        Mistake("A session that is made up", "lock acquire --session-token none"),
        Mistake("A payload that is no JSON", "handoff write codex --payload done --session-token s --lock-token l"),
        Mistake("A cycle that is not there", "cycle show cy_none"),
        Mistake("An example that is misspelt", "cycle example frontend"),
    ),
    "Reviewers and settings": (
        Mistake("A reviewer that is not there", "reviewers kill codex-r1"),
        Mistake("A pool that is off", "reviewers spawn"),
        Mistake("A setting is misspelt", "config show", environment={"TANDEM_CONFIG_DIR": "{misspelt}"}),
        Mistake("A setting has the wrong type", "config show", environment={"TANDEM_CONFIG_DIR": "{wrong}"}),
        Mistake("A setting of the pool is misspelt", "config show", environment={"TANDEM_CONFIG_DIR": "{pool}"}),
        Mistake("A configuration that is no TOML", "config show", environment={"TANDEM_CONFIG_DIR": "{broken}"}),
        Mistake("A variable has the wrong type", "config show", environment={"TANDEM_PORT": "high"}),
        Mistake("A variable is out of its limits", "config show", environment={"TANDEM_CHECKS_AT_ONCE": "100"}),
        Mistake(
            "A price that is none", "config show", environment={"TANDEM_REVIEWER_POOL": '{{"budget_per_day": "ten"}}'}
        ),
        Mistake("A provider that there is not", "config show", environment={"TANDEM_CONFIG_DIR": "{provider}"}),
        Mistake("A workflow without roles", "config show", environment={"TANDEM_CONFIG_DIR": "{workflow}"}),
    ),
}

"""Each mistake in a policy is an error with its line, and says what to do."""

from __future__ import annotations

import pytest

from tandem.rulings.policy_file import LARGEST_BYTES, MOST_RULES, PolicyError, parse

RULE = '[[rule]]\nneeds = ["checks"]\n'


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("", 1, "there is no rule: add a [[rule]] table"),
        ("# nothing\n\nmatch = 'all'\n", 3, "there is no rule"),
        ("rule = []", 1, "there is no rule"),
        ("match = 'some'\n" + RULE, 1, "match is one of all, first, in quotes"),
        ("\nmatch = 3\n" + RULE, 2, "match is one of all, first"),
        ("carry = 'always'\n" + RULE, 1, "carry is one of same, rebase, in quotes"),
        ("rules = 3\n" + RULE, 1, "there is no key 'rules'; did you mean 'rule'?"),
        (RULE + "[owners]\na = 1\n", 3, "there is no key 'owners'"),
        (RULE + "[[rule]]\n\npath = ['a']\nneeds = ['agent']", 5, "there is no key 'path'; did you mean 'paths'?"),
        (RULE + "[[rule]]\nname = 'b'\n", 3, "the rule has no needs"),
        ("[[rule]]\nneeds = []\n", 2, "needs is empty: name something, or remove the key"),
        ("[[rule]]\nneeds = 'checks'\n", 2, "needs is a list of texts"),
        ("[[rule]]\nneeds = [['checks']]\n", 2, "needs is a text"),
        ("[[rule]]\nneeds = ['check']\n", 2, "there is no word 'check'; did you mean 'checks'?"),
        ("[[rule]]\nneeds = ['agent:']\n", 2, "there is no word 'agent:'"),
        ("[[rule]]\nneeds = ['agent:a b']\n", 2, "there is no word 'agent:a b'"),
        ("[[rule]]\nneeds = ['agent', 'agent']\n", 2, "needs has a word twice"),
        ("[[rule]]\nneeds = ['Person']\n", 2, "did you mean 'person'?"),
        (RULE + "paths = []", 3, "paths is empty"),
        (RULE + "paths = ['']", 3, "paths is a text"),
        (RULE + "paths = [3]", 3, "paths is a text"),
        (RULE + "paths = ['docs/']", 3, "write docs/** for all in a folder"),
        (RULE + "paths = ['/docs/**']", 3, "from the top of the repository"),
        (RULE + "paths = ['./docs/**']", 3, "from the top of the repository"),
        (RULE + "not_paths = ['docs/../src/**']", 3, "not_paths has 'docs/../src/**'"),
        (RULE + "paths = ['!docs/**']", 3, "leave paths out with not_paths"),
        (RULE + "paths = ['*.{md,txt}']", 3, "patterns have *, ? and **"),
        (RULE + "paths = ['src/**.py']", 3, "** stands alone between slashes"),
        (RULE + f"paths = ['{'a' * 501}']", 3, "shorten it"),
        (RULE + 'paths = ["a\\u202eb"]', 3, "that cannot be seen"),
        (RULE + "risk = ['auth']", 3, "there is no word of [risk] 'auth'; known are none"),
        ("[risk]\nauth = ['a']\n" + RULE + "risk = ['auht']", 5, "did you mean 'auth'?"),
        ("[risk]\n\nauth = 'src/**'\n" + RULE, 3, "auth is a list of texts"),
        ("[risk]\nauth = ['src/']\n" + RULE, 2, "auth has 'src/'"),
        ("risk = 3\n" + RULE, 1, "risk is a table"),
        (RULE + "branches = ['/x']", 3, "branches has '/x'"),
        (RULE + "categories = ['code']", 3, "there is no category 'code'"),
        (RULE + "lines = 20", 3, "lines is a size in quotes"),
        (RULE + "lines = '20'", 3, "lines is a size in quotes"),
        (RULE + "files = '=> 3'", 3, "files is a size in quotes"),
        (RULE + "files = '9-3'", 3, "files holds of no size"),
        (RULE + "lines = '<0'", 3, "lines holds of no size"),
        (RULE + "generated = 'yes'", 3, "generated is true or false"),
        (RULE + "threshold = 'high'", 3, "threshold is one of blocker, major, minor, nit"),
        (RULE + "rounds = 0", 3, "rounds is a number from 1 to 100"),
        (RULE + "rounds = true", 3, "rounds is a number"),
        (RULE + "by = 'agent'", 3, "by is a list of texts"),
        (RULE + 'name = "a\'b"', 3, "name is letters"),
        (RULE + "name = 'no rule fits'", 3, "name is letters"),
        (RULE + "name = 'rule 2'\n" + RULE, 4, "another rule has the name 'rule 2': choose one"),
        (RULE + "when.paths = ['a']", 3, "there is no key 'when'"),
        (RULE + "[rule.when]\npaths = ['a']", 1, "there is no key 'when'"),
        ("rule = [{needs = ['checks']}]", 1, "below a line [[rule]]"),
        ("[rule]\nneeds = ['checks']", 1, "below a line [[rule]]"),
        ('[[rule]]\nneeds = ["""\n[[rule]]\n"""]', 2, "not in three of them"),
        ("[[rule]]\nneeds = [\n", 2, "this is no TOML"),
        ("[[rule]]\nneeds = ['checks']\nneeds = ['agent']\n", 3, "this is no TOML: Cannot overwrite a value"),
        ("[[rule]]\n= 3\n" + RULE, 2, "this is no TOML"),
        ("x = " + "[" * 50_000, 1, "nested too deeply"),
        ("#" * (LARGEST_BYTES + 1), 1, f"more than {LARGEST_BYTES} bytes"),
        (RULE * (MOST_RULES + 1), 2 * MOST_RULES + 1, f"more than {MOST_RULES} rules"),
    ],
)
def test_a_mistake_is_told_with_its_line(text: str, line: int, says: str) -> None:
    with pytest.raises(PolicyError) as raised:
        parse(text.encode())
    assert (raised.value.line, says in raised.value.message) == (line, True), raised.value
    assert str(raised.value).startswith(f".tandem/policy.toml, line {line}: ")


def test_other_encodings_are_refused() -> None:
    with pytest.raises(PolicyError, match="line 3: this is no UTF-8"):
        parse(b"# a\n# b\n# \xe9\n" + RULE.encode())


def test_as_many_rules_as_may_be_are_read() -> None:
    assert len(parse((RULE * MOST_RULES).encode()).rules) == MOST_RULES


def test_lines_within_lists_are_no_keys_of_a_rule() -> None:
    text = "[[rule]]\nneeds = [\n  'checks', # needs\n]\npaths = [\n  '[[rule]]',\n]\n"
    with pytest.raises(PolicyError, match="line 5: paths has"):
        parse(text.encode())

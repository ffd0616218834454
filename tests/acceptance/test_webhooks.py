"""Events posted to other programs: signed, at least once, in order for each review, and nowhere that is not allowed."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from tandem.webhooks import posting
from tests.acceptance.receiving import Posted, Receiver, added, proved, standing
from tests.acceptance.reviewing import REVIEWER, Desk
from tests.acceptance.tables import table
from tests.broker import BrokerProcess, StartBroker, fresh_project
from tests.certifying import Authority
from tests.commandline import Inside

HASTY = {"webhook_retry_seconds": 0.01, "sweep_interval_seconds": 0.1}
WHOLE = ["review_created", "review_claimed", "verdict_submitted", "review_closed"]


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for all tests that only need a project of their own; what fails is tried again soon."""
    with BrokerProcess(tmp_path_factory.mktemp("broker"), **HASTY) as broker:
        yield broker
        broker.assert_intact()


@pytest.fixture
def office(hasty: BrokerProcess) -> Iterator[Desk]:
    with Desk(hasty.url, fresh_project()) as opened:
        yield opened


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as opened:
        yield opened


def finish(desk: Desk, review: str) -> None:
    """Take a review to its end."""
    desk.approve(review)
    desk.do("close_review", review_id=review)


def test_events_arrive_signed_and_in_order_for_each_review_whatever_fails_and_is_killed(
    start_broker: StartBroker, database_settings: dict[str, object], receiver: Receiver
):
    broker = start_broker(**HASTY, **database_settings)
    with Desk(broker.url, fresh_project()) as desk, Desk(broker.url, fresh_project()) as other:
        made = added(desk, receiver.url)
        receiver.answer = lambda _posted: 500
        stuck, well = desk.put_up(), desk.put_up()
        receiver.answer = lambda posted: 500 if posted.event.get("subject") == stuck else 200
        other.put_up()
        finish(desk, stuck)
        finish(desk, well)
        receiver.until(lambda: receiver.of(well) == WHOLE)
        receiver.until(lambda: len(receiver.kinds_tried(stuck)) > 1)
        broker.kill()
        tried = len(receiver.kinds_tried(stuck))
        broker.start()
        # What failed need not wait for its next try once the receiver has taken something.
        assert desk.do("test_webhook", webhook_id=made["webhook_id"])["delivered"]
        receiver.until(lambda: len(receiver.kinds_tried(stuck)) > tried)
        # Not one of the others before the first was taken.
        assert set(receiver.kinds_tried(stuck)) == {"review_created"}
        receiver.answer = lambda _posted: 200
        desk.do("test_webhook", webhook_id=made["webhook_id"])
        receiver.until(lambda: receiver.of(stuck) == WHOLE)
        assert all(one.is_signed_with(made["secret"]) for one in receiver.tried)
        assert {one.event["project"] for one in receiver.tried if "project" in one.event} == {desk.project}
        shown = {event["seq"]: event for event in desk.do("get_audit_log", limit=200)["events"]}
        assert all(one.event == shown[one.event["seq"]] for one in receiver.taken if "seq" in one.event)
    broker.assert_intact()


def test_two_brokers_send_each_event_once_and_one_goes_on_where_the_other_died(
    start_broker: StartBroker, postgres_url: str, receiver: Receiver
):
    one, two = (start_broker(database_url=postgres_url, **HASTY) for _ in range(2))
    project = fresh_project()
    with Desk(one.url, project) as here, Desk(two.url, project) as there:
        added(here, receiver.url)
        reviews = [desk.put_up() for desk in (here, there) * 2]
        for review, desk in zip(reviews, (there, here) * 2, strict=True):
            finish(desk, review)
        receiver.until(lambda: all(receiver.of(review) == WHOLE for review in reviews))
        sent = len(receiver.tried)
        assert sent == len(reviews) * len(WHOLE)
        one.kill()
        for dead, alive, desk in ((one, two, there), (two, one, here)):
            if alive is one:
                one.start()
                dead.kill()
            later = desk.put_up()
            finish(desk, later)
            receiver.until(lambda later=later: receiver.of(later) == WHOLE)


def test_a_receiver_that_hangs_holds_up_neither_the_broker_nor_others(office: Desk, receiver: Receiver):
    released = threading.Event()

    def hang(_posted: Posted) -> int:
        released.wait()
        return 200

    with Receiver(hang) as slow:
        added(office, slow.url)
        added(office, receiver.url)
        review = office.put_up()
        finish(office, review)
        receiver.until(lambda: receiver.of(review) == WHOLE)
        assert slow.taken == []
        released.set()
        slow.until(lambda: slow.of(review) == WHOLE)


def test_what_is_never_taken_is_given_up_and_shown_and_what_comes_after_it_goes_on(
    start_broker: StartBroker, receiver: Receiver
):
    broker = start_broker(**HASTY, webhook_give_up_seconds=0.2)
    receiver.answer = lambda posted: 302 if posted.event["kind"] == "review_created" else 200
    with Desk(broker.url, fresh_project()) as desk:
        webhook = added(desk, receiver.url)["webhook_id"]
        review = desk.put_up_claimed()
        receiver.until(lambda: receiver.of(review) == ["review_claimed"])
        failed, *_ = desk.do_unscoped("list_deliveries", webhook_id=webhook)["deliveries"]
        shown = standing(desk, webhook)
    # A redirect is followed nowhere.
    assert {one.path for one in receiver.tried} == {"/hooks/s3cret"}
    created = next(one for one in receiver.tried if one.event["kind"] == "review_created")
    assert (failed["state"], failed["kind"], failed["status"]) == ("failed", "review_created", 302)
    assert failed["attempts"] == sum(one.id == created.id for one in receiver.tried)
    assert failed["answer"].startswith("not <now>\\u0000!!!")
    assert len(failed["answer"]) == 500
    assert (shown["failed"], shown["problem"]) == (1, failed["answer"])


def test_a_receiver_that_is_gone_gets_nothing_more_until_it_takes_a_test(office: Desk, receiver: Receiver):
    webhook = added(office, receiver.url)["webhook_id"]
    receiver.answer = lambda _posted: 410
    review = office.put_up()
    finish(office, review)
    other = office.put_up()
    while not (shown := standing(office, webhook))["stopped"]:
        pass
    assert "410 Gone" in shown["stopped"]
    assert office.do("test_webhook", webhook_id=webhook)["status"] == 410
    assert standing(office, webhook)["stopped"]
    # Each review's first event may have been on its way, and none twice.
    tried = receiver.kinds_tried(review) + receiver.kinds_tried(other)
    assert set(tried) == {"review_created"}
    receiver.answer = lambda _posted: 200
    assert office.do("test_webhook", webhook_id=webhook)["delivered"]
    receiver.until(lambda: receiver.of(review) == WHOLE and receiver.of(other) == ["review_created"])
    assert standing(office, webhook)["stopped"] is None


@pytest.mark.parametrize(("said", "seconds"), [("120", 120), ("a date", 120), ("soon", 0), ("9" * 40, 21_600)])
def test_a_receiver_says_when_it_is_tried_again(office: Desk, receiver: Receiver, said: str, seconds: int):
    asked = format_datetime(datetime.now(UTC) + timedelta(seconds=120), usegmt=True) if said == "a date" else said
    receiver.headers = {"retry-after": asked}
    receiver.answer = lambda _posted: 503
    webhook = added(office, receiver.url)["webhook_id"]
    office.put_up()
    while not (found := office.do_unscoped("list_deliveries", webhook_id=webhook)["deliveries"]) or (
        found[0]["attempts"] == 0
    ):
        pass
    tried_again = datetime.fromisoformat(found[0]["next_try_at"]) - datetime.fromisoformat(found[0]["queued_at"])
    assert seconds / 2 <= tried_again.total_seconds() < seconds * 1.2 + 60


def test_p6_a_delivery_is_taken_by_its_status_though_the_answer_breaks_off(office: Desk, receiver: Receiver):
    receiver.headers = {"content-length": "1000"}
    webhook = added(office, receiver.url)["webhook_id"]
    tried = office.do("test_webhook", webhook_id=webhook)
    assert (tried["delivered"], tried["status"]) == (True, 200)


def test_only_the_kinds_that_were_asked_for_are_posted_and_slack_gets_a_line(office: Desk, receiver: Receiver):
    added(office, receiver.url, events=["review_cr", "verdict_"], format="slack")
    hostile = office.put_up(intent="<!channel> & co\nsecond line")
    finish(office, hostile)
    receiver.until(lambda: len(receiver.taken) == 2)
    texts = [json.loads(one.body) for one in receiver.taken]
    created = f"review created {hostile} in {office.project} by prop-1: &lt;!channel&gt; &amp; co\\nsecond line"
    decided = f"verdict submitted {hostile} in {office.project} by {REVIEWER}: claimed → approved"
    assert texts == [{"text": created}, {"text": decided}]


def test_a_removed_webhook_gets_nothing_and_leaves_no_secret(office: Desk, receiver: Receiver, hasty: BrokerProcess):
    made = added(office, receiver.url)
    webhook = made["webhook_id"]
    assert made["url"] == standing(office, webhook)["url"] == receiver.url.removesuffix("hooks/s3cret") + "…"
    removed = office.do("remove_webhook", webhook_id=webhook)
    assert removed["webhook_id"] == webhook
    office.refused("NOT_FOUND", "remove_webhook", webhook_id=webhook)
    office.refused("NOT_FOUND", "test_webhook", webhook_id=webhook)
    office.put_up()
    with Receiver() as after:
        added(office, after.url)
        office.put_up()
        after.until(lambda: len(after.taken) == 1)
    assert receiver.tried == []
    told = office.do("get_audit_log", review_id=f"webhook:{webhook}", limit=50)["events"]
    assert [event["kind"] for event in told] == ["webhook_added", "webhook_removed"]
    secrets = made["secret"].encode(), made["secret"].removeprefix("whsec_").encode(), b"s3cret"
    logs = [path.read_bytes() for path in (hasty.data_dir / "logs").iterdir()]
    assert not any(secret in text for secret in secrets for text in [json.dumps(told).encode(), *logs])


URLS: dict[str, dict[str, str]] = table("webhook_urls")


@pytest.mark.parametrize(("url", "why"), URLS["refused"].items())
def test_a_url_that_leads_elsewhere_is_refused(office: Desk, url: str, why: str):
    envelope = office.envelope_unscoped("add_webhook", **proved(office, url))
    assert envelope["error"]["code"] == "INVALID_INPUT"
    assert envelope["error"]["details"]["field"] == "url"
    assert why in envelope["error"]["message"]


def test_only_a_person_adds_one_and_exactly_what_they_saw(office: Desk):
    wanted = proved(office, "http://127.0.0.1/x")
    for change in ({"proof": None}, {"allow_private": True}, {"url": "http://127.0.0.1/y"}, {"project": "other"}):
        refused = office.envelope_unscoped("add_webhook", **{**wanted, **change})["error"]
        assert (refused["code"], refused["details"]["needed"]) == ("FORBIDDEN", "person")
    unknown = office.envelope_unscoped("add_webhook", **proved(office, "http://127.0.0.1/x", events=["nothing_"]))
    assert unknown["error"]["details"]["field"] == "events"


@pytest.mark.parametrize(("kind", "addresses"), URLS["addresses"].items())
def test_an_address_is_of_the_same_kind_on_every_python_and_in_every_form(kind: str, addresses: str):
    """As IANA registers them: Python 3.11 takes 192.0.0.8 for public, 3.12 does not."""

    async def posts_to(address: str, *, allow_private: bool, scheme: str = "https") -> bool:
        target = posting.read_url(f"{scheme}://{f'[{address}]' if ':' in address else address}/x")
        try:
            return await posting.list_addresses(target, allow_private=allow_private) == [address]
        except posting.NotAllowed:
            return False

    expected = {"public": (True, True), "private": (False, True), "unusable": (False, False)}[kind]
    for address in addresses.split():
        found = tuple(asyncio.run(posts_to(address, allow_private=allowed)) for allowed in (False, True))
        assert found == expected, address
        # Where private networks are allowed, they need no TLS.
        assert asyncio.run(posts_to(address, allow_private=True, scheme="http")) == (kind == "private"), address


def test_the_commands_add_try_show_and_remove(
    office: Desk, receiver: Receiver, hasty: BrokerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TANDEM_DATA_DIR", str(hasty.data_dir))
    shell = Inside(hasty.url, tmp_path)
    made = shell.run("webhook", "add", receiver.url, "--project", office.project, "--new", "--events", "review_")
    assert made.status == 0, made.stderr
    assert made.stdout.startswith("whsec_")
    webhook = next(word for word in made.stderr.split() if word.startswith("whk_"))
    tried = shell.run("webhook", "test", webhook)
    assert (tried.status, "as you like" in tried.stdout) == (0, True)
    (ping,) = receiver.tried
    assert ping.is_signed_with(made.stdout.strip())
    assert json.loads(ping.body)["type"] == "ping"
    receiver.answer = lambda _posted: 503
    assert shell.run("webhook", "test", webhook).status == 1
    receiver.answer = lambda _posted: 200
    review = office.put_up()
    receiver.until(lambda: receiver.of(review) == ["review_created"])
    assert webhook in shell.run("webhook", "list").stdout
    assert review in shell.run("webhook", "deliveries", webhook).stdout
    assert shell.run("webhook", "remove", webhook).status == 0
    assert webhook not in shell.run("webhook", "list").stdout
    agents = shell.run("webhook", "add", receiver.url, CLAUDECODE="1")
    assert (agents.status, "person's to decide" in agents.stderr) == (1, True)


def test_over_tls_the_certificate_is_checked_for_the_name_of_the_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    authority = Authority(tmp_path)
    authority.issue(tmp_path / "certificate.pem", tmp_path / "key.pem", "localhost")
    monkeypatch.setattr(posting, "_tls", lambda: authority.trusting)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "certificate.pem", tmp_path / "key.pem")
    with Receiver(tls=context) as receiver:

        def post(host: str) -> posting.Reply:
            url = f"https://{host}:{receiver.port}/x"
            return asyncio.run(posting.post(url, {}, b"{}", allow_private=False))

        assert post("localhost") == (200, "as you like", 0)
        assert post("127.0.0.1").answer.startswith("The connection failed: [SSL: CERTIFICATE_VERIFY_FAILED]")
        monkeypatch.undo()
        assert "certificate" in post("localhost").answer

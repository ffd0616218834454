"""Only a proxy that the settings name is believed about its clients."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.acceptance.accessing import Bearer
from tests.broker import CALL_SECONDS, BrokerProcess

NAME = "tandem.example"
BURST = 3


@contextmanager
def behind(folder: Path, **settings: object) -> Generator[BrokerProcess]:
    """A broker that soon has enough of an address without a token."""
    limits = {"rate_limit_per_minute": 1, "rate_limit_burst": BURST}
    with BrokerProcess(folder, auth="token", allowed_hosts=NAME, **limits, **settings) as broker:
        yield broker


@pytest.fixture(scope="module")
def trusting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with behind(tmp_path_factory.mktemp("trusting"), trusted_proxies="127.0.0.1, 10.7.0.0/16") as broker:
        yield broker


@pytest.fixture
def distrusting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with behind(tmp_path_factory.mktemp("distrusting"), trusted_proxies="10.7.0.0/16") as broker:
        yield broker


def statuses(broker: BrokerProcess, *forwarded: str) -> list[int]:
    """What requests without a token are answered, each with its `X-Forwarded-For`."""
    with httpx.Client(base_url=broker.url, timeout=CALL_SECONDS, trust_env=False) as client:
        return [
            client.post("/api/v1/list_projects", json={}, headers={"x-forwarded-for": one}).status_code
            for one in forwarded
        ]


def test_the_client_is_the_right_most_address_that_is_no_trusted_proxys(trusting: BrokerProcess):
    one = ["1.1.1.1, 203.0.113.5", "2.2.2.2, 203.0.113.5, 10.7.1.1", "203.0.113.5"]
    assert statuses(trusting, *one, "3.3.3.3, 203.0.113.5") == [401] * BURST + [429]
    assert statuses(trusting, "203.0.113.5, 203.0.113.6") == [401]


def test_addresses_of_one_network_of_ipv6_are_one_client(trusting: BrokerProcess):
    assert statuses(trusting, *(f"2001:db8::{last}" for last in range(BURST + 1))) == [401] * BURST + [429]
    assert statuses(trusting, "2001:db8:0:1::1") == [401]


def test_nobody_else_names_another_client(distrusting: BrokerProcess):
    assert statuses(distrusting, "1.1.1.1", "1.1.1.2", "1.1.1.3", "1.1.1.4") == [401] * BURST + [429]


def login(broker: BrokerProcess, **headers: str) -> httpx.Response:
    """The answer to a login's link."""
    with Bearer.owner(broker) as owner:
        path = owner.plain("create_login")["data"]["path"]
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.get(f"{broker.url}{path}", headers=sent, timeout=CALL_SECONDS, trust_env=False)


def test_cookies_are_for_tls_only_where_a_trusted_proxy_says_so(trusting: BrokerProcess, distrusting: BrokerProcess):
    def is_secure(broker: BrokerProcess, scheme: str) -> bool:
        said = login(broker, host=NAME, x_forwarded_proto=scheme, x_forwarded_for="203.0.113.77")
        return "secure" in said.headers["set-cookie"].lower()

    assert [is_secure(trusting, "https"), is_secure(trusting, "http")] == [True, False]
    assert not is_secure(distrusting, "https")


def test_the_host_that_a_trusted_proxy_names_is_checked_and_used(trusting: BrokerProcess, distrusting: BrokerProcess):
    def health(broker: BrokerProcess, **headers: str) -> int:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return httpx.get(f"{broker.url}/healthz", headers=sent, timeout=CALL_SECONDS, trust_env=False).status_code

    page = {"origin": f"https://{NAME}", "sec_fetch_site": "same-origin"}
    assert health(trusting, x_forwarded_host=NAME, **page) == 200
    assert health(trusting, x_forwarded_host=f"evil.example, {NAME}", **page) == 200
    assert health(trusting, x_forwarded_host="evil.example") == 403
    # A proxy that passes a client's own word on has told by Host how it was called.
    assert health(trusting, host="evil.example", x_forwarded_host=NAME) == 403
    assert health(distrusting, x_forwarded_host=NAME, **page) == 403
    assert health(distrusting, x_forwarded_host="evil.example") == 200
    # A login under a name of the network stays there; under the loopback it is sent on to a name of its own.
    assert "localhost" not in login(trusting, x_forwarded_host=NAME).headers["location"]
    assert "localhost" in login(distrusting, x_forwarded_host=NAME).headers["location"]


@pytest.mark.parametrize("wrong", ["proxy.example", "10.0.0.1/8"])
def test_what_is_no_address_is_refused_at_the_start(tmp_path: Path, wrong: str):
    ended = BrokerProcess(tmp_path, trusted_proxies=wrong).run("up", "--port", "0")
    assert ended.returncode == 1
    assert "CONFIG_INVALID" in ended.stderr
    assert "TANDEM_TRUSTED_PROXIES" in ended.stderr

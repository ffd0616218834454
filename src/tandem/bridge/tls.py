"""TLS to a broker on another machine: which certificates are trusted.

TANDEM_CA_FILE   certificates (PEM) of a CA of one's own, trusted beside those of the system; the setting `ca_file`
SSL_CERT_FILE    OpenSSL's own variable: certificates to trust in the place of the system's
"""

from __future__ import annotations

import os
import socket
import ssl
from datetime import UTC, datetime

from tandem.bridge.location import CONNECT_SECONDS, Untrusted, configured

TYPE_CHECKING = False  # as in `credentials`
if TYPE_CHECKING:
    from tandem.bridge.location import Target

VARIABLE = "TANDEM_CA_FILE"
SETTING = "ca_file"

_contexts: dict[str | None, ssl.SSLContext] = {}


def ca_file() -> str | None:
    """The file of the CA of one's own; None if none is named."""
    named = os.environ.get(VARIABLE) or configured().get(SETTING)
    return os.path.abspath(os.path.expanduser(named)) if isinstance(named, str) and named else None


def connected(target: Target, seconds: float) -> socket.socket:
    """A connection to a broker elsewhere.

    Raises:
        Untrusted: As for `secured`.
        OSError: Nothing answers there, or not in TLS.
    """
    plain = socket.create_connection((target.host, target.port), seconds)
    return secured(plain, target.host) if target.secure else plain


def secured(connected: socket.socket, host: str) -> ssl.SSLSocket:
    """TLS on a connection.

    Raises:
        Untrusted: The other side has no certificate for this host that is trusted, or the CA's file is of no use.
        OSError: It speaks no TLS, or hangs up.
    """
    try:
        return _context().wrap_socket(connected, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        connected.close()
        raise Untrusted(f"its certificate is not trusted here: {error.verify_message}") from error
    except BaseException:
        connected.close()
        raise


def ends(target: Target) -> datetime:
    """Until when the certificate is valid that a broker shows, which is trusted.

    Raises:
        Untrusted: It is not.
        OSError: No answer.
    """
    plain = socket.create_connection((target.host, target.port), CONNECT_SECONDS)
    with secured(plain, target.host) as connection:
        shown = connection.getpeercert() or {}
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(str(shown["notAfter"])), UTC)


def _context() -> ssl.SSLContext:
    """What this process trusts; reading all of the system's certificates takes longer than a call."""
    file = ca_file()
    known = _contexts.get(file)
    if known is not None:
        return known
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if file is not None:
        try:
            context.load_verify_locations(file)
        except OSError as error:  # those of TLS are, too
            raise Untrusted(
                f"the CA's file {file} cannot be used ({error.strerror or error}); correct {VARIABLE}"
            ) from None
    _contexts[file] = context
    return context

"""A certification authority of a test's own, and certificates of it in files."""

from __future__ import annotations

import ipaddress
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_PEM = serialization.Encoding.PEM
_TOO_SOON = timedelta(hours=1)


class Authority:
    """Makes certificates.

    Attributes:
        file: Its own certificate.
    """

    def __init__(self, folder: Path) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named("Test CA")
        made = (
            _begun(self._name, self._name, self._key, 3650)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.file = folder / "ca.pem"
        self.file.write_bytes(made.public_bytes(_PEM))

    @property
    def trusting(self) -> ssl.SSLContext:
        """A context that trusts only this authority."""
        return ssl.create_default_context(cafile=self.file)

    def issue(self, certificate: Path, key: Path, *names: str, days: float = 365) -> int:
        """Write a certificate and its key, each in one step; the serial number.

        Args:
            certificate: The file of the certificate.
            key: The file of the key.
            names: The host names and addresses that it certifies.
            days: How long it is still valid; one that has ended has a number below 0.
        """
        private = ec.generate_private_key(ec.SECP256R1())
        made = (
            _begun(_named(names[0]), self._name, private, days)
            .add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        text = private.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        for file, content in ((key, text), (certificate, made.public_bytes(_PEM))):
            fresh = file.with_suffix(".new")
            fresh.touch(0o600)
            fresh.write_bytes(content)
            fresh.replace(file)
        return made.serial_number


def serial_shown(port: int, trusting: ssl.SSLContext) -> int:
    """The serial number of the certificate that is shown at a port."""
    import socket

    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        trusting.wrap_socket(plain, server_hostname="localhost") as secured,
    ):
        shown = secured.getpeercert(binary_form=True)
    assert shown
    return x509.load_der_x509_certificate(shown).serial_number


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _begun(who: x509.Name, by: x509.Name, key: ec.EllipticCurvePrivateKey, days: float) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder(by, who, key.public_key(), x509.random_serial_number())
        .not_valid_before(now + min(timedelta(days=days - 1), -_TOO_SOON))
        .not_valid_after(now + timedelta(days=days))
    )


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)

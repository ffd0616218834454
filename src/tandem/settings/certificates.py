"""TLS by files: the certificate and the key of a broker that other machines reach, and whether they can be used."""

from __future__ import annotations

import ipaddress
import logging
import os
import shlex
import ssl
import stat
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import NoReturn

from tandem.core.files import stamp
from tandem.errors import ConfigInvalid

CERTIFICATE = "tls_certificate_file"
KEY = "tls_key_file"

_MOST_BYTES = 1_000_000
_OTHERS = stat.S_IRWXO | stat.S_IWGRP
"""Not the group: systems let several services read one key by a group that is made for it."""

_HAS_MODES = hasattr(os, "geteuid")
_log = logging.getLogger("tandem.certificates")


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a certificate says of its holder.

    Attributes:
        names: The host names and addresses that it is for, lower case; `*.` in front stands for one label.
        ends: Until when it is valid.
    """

    names: tuple[str, ...]
    ends: datetime

    @property
    def name(self) -> str | None:
        """The first name that clients can use as it stands; None if there is none."""
        return next((name for name in self.names if not name.startswith("*")), None)

    def fits(self, host: str) -> bool:
        """Whether clients that use this name or address accept it."""
        host = host.strip("[]").lower()
        try:
            host = str(ipaddress.ip_address(host))
        except ValueError:
            label, _, rest = host.partition(".")
            return host in self.names or bool(label and rest and f"*.{rest}" in self.names)
        return host in self.names


def read_certificate(content: bytes) -> Certificate:
    """The first certificate of a PEM text.

    Raises:
        ValueError: There is none.
    """
    from cryptography import x509  # takes a tenth of a second, and only brokers with TLS need it

    first = x509.load_pem_x509_certificate(content)
    names: list[str] = []
    try:
        stated = first.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        pass
    else:
        names += [name.lower() for name in stated.get_values_for_type(x509.DNSName)]
        names += [str(address) for address in stated.get_values_for_type(x509.IPAddress)]
    return Certificate(tuple(names), first.not_valid_after_utc)


class CertificateFiles:
    """The files, read again as soon as they change, so that a renewed certificate counts without a restart.

    Attributes:
        certificate: What the broker shows clients, as of the newest files that could be used.
    """

    def __init__(self, certificate_file: Path, key_file: Path | None) -> None:
        """Read them.

        Args:
            certificate_file: The certificate and what leads to its CA, as PEM.
            key_file: Its private key; None if that is in the same file.

        Raises:
            ConfigInvalid: One is missing, cannot be read or used, or the key is open to others; says which.
        """
        self._files = (certificate_file, key_file or certificate_file)
        self._stamps = [stamp(file) for file in self._files]
        self._current, self.certificate = self._load()
        self._current.sni_callback = self._choose
        self.context = self._current

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        """Called with each handshake: a look at two files costs less than it."""
        stamps = [stamp(file) for file in self._files]
        if stamps != self._stamps:
            self._stamps = stamps
            try:
                self._current, self.certificate = self._load()
            except ConfigInvalid as error:
                # The other file may follow; until then, and if it does not, the former pair serves.
                _log.warning("%s The certificate from before is still used.", error.message)
            else:
                _log.info("the certificate was renewed", extra={"ends": self.certificate.ends.isoformat()})
        connection.context = self._current

    def _load(self) -> tuple[ssl.SSLContext, Certificate]:
        public, private = (
            _read(file, setting, is_secret=file == self._files[1])
            for file, setting in zip(self._files, (CERTIFICATE, KEY), strict=True)
        )
        file, key_file = self._files
        try:
            certificate = read_certificate(public)
        except ValueError:
            _refuse(f"The certificate file {file} holds no certificate in PEM form (-----BEGIN CERTIFICATE-----).")
        if b"PRIVATE KEY-----" not in private:
            _refuse(f"The file {key_file} holds no private key in PEM form (-----BEGIN PRIVATE KEY-----).", KEY)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        # Connections are kept, so that resuming one gains little; and a ticket would outlive its certificate.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
        try:
            context.load_cert_chain(file, key_file, password=_no_password)
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                _refuse(
                    f"The key in {key_file} is not that of the certificate in {file}. Name the two that belong.", KEY
                )
            _refuse(
                f"The key in {key_file} cannot be used with the certificate in {file}: {error.reason or error}.", KEY
            )
        return context, certificate


def _no_password() -> NoReturn:
    _refuse(
        "The key has a password, which a start by itself cannot type. Have the broker use one without: openssl pkey"
        " -in KEY -out NEWKEY, then chmod 600 NEWKEY.",
        KEY,
    )


def _read(file: Path, setting: str, *, is_secret: bool) -> bytes:
    try:
        with file.open("rb") as stream:
            mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
            if is_secret and _HAS_MODES and mode & _OTHERS:
                _refuse(
                    f"The key file {file} is open to other users of this machine (mode {mode:04o}). Run: chmod 600"
                    f" {shlex.quote(str(file))}. If somebody may have read it, have a new certificate made.",
                    setting,
                )
            return stream.read(_MOST_BYTES)
    except FileNotFoundError:
        _refuse(f"There is no file {file}. Correct {setting}, or leave both TLS files out.", setting)
    except OSError as error:
        _refuse(
            f"The file {file} cannot be read: {error.strerror or error}. Give the broker's user access to it.", setting
        )


def _refuse(message: str, setting: str = CERTIFICATE) -> NoReturn:
    raise ConfigInvalid(message, setting=setting)

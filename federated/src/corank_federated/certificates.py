"""Certificates of a run: a private authority, one certificate for the coordinator and one per site,
each with an end date.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

COORDINATOR = "coordinator"
SITE_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
EARLIER = timedelta(minutes=5)  # clocks differ


class CertificateError(ValueError):
    """A certificate that cannot be used; says which, why and what to do."""


def check_name(name: str) -> str:
    """The name, if a site may have it."""
    if not SITE_NAME.fullmatch(name) or name == COORDINATOR:
        raise ValueError(
            f"site {name!r} needs a name of small letters, digits and hyphens, at most 63, other"
            f" than {COORDINATOR!r}."
        )
    return name


@dataclass(frozen=True)
class Identity:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def write(self, folder: Path, name: str) -> None:
        """`name.pem`, and `name.key` that only its owner can read; neither may be there already."""
        pem = self.certificate.public_bytes(serialization.Encoding.PEM)
        secret = self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        for path, content, mode in (
            (folder / f"{name}.key", secret, 0o600),
            (folder / f"{name}.pem", pem, 0o644),
        ):
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                file.write(content)

    @classmethod
    def read(cls, certificate: Path, key: Path) -> Identity:
        """From files."""
        try:
            secret = serialization.load_pem_private_key(_content(key), None)
        except (ValueError, TypeError) as error:
            raise CertificateError(f"{key} is not a private key: {error}") from error
        if not isinstance(secret, ec.EllipticCurvePrivateKey):
            raise CertificateError(f"{key} is not a key that corank federated init makes.")
        identity = cls(read_certificate(certificate), secret)
        if identity.certificate.public_key() != secret.public_key():
            raise CertificateError(f"{key} is not the key of {certificate}.")
        return identity


def read_certificate(path: Path) -> x509.Certificate:
    """From a PEM file."""
    try:
        return x509.load_pem_x509_certificate(_content(path))
    except ValueError as error:
        raise CertificateError(f"{path} is not a certificate: {error}") from error


def _content(path: Path) -> bytes:
    if not path.is_file():
        raise CertificateError(f"there is no file {path}; corank federated init makes it.")
    return path.read_bytes()


def new_authority(days: int) -> Identity:
    """A private authority that signs for one run or one group of sites."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(
        [
            x509.NameAttribute(
                NameOID.COMMON_NAME, f"corank authority {x509.random_serial_number():x}"[:40]
            )
        ]
    )
    builder = (
        _builder(name, name, key, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
    )
    return Identity(builder.sign(key, hashes.SHA256()), key)


def issued(authority: Identity, name: str, days: int, now: datetime | None = None) -> Identity:
    """A certificate of that name: for the coordinator to serve, for a site to call."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    role = (
        ExtendedKeyUsageOID.SERVER_AUTH if name == COORDINATOR else ExtendedKeyUsageOID.CLIENT_AUTH
    )
    builder = (
        _builder(subject, authority.certificate.subject, key, days, now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([role]), critical=False)
        .add_extension(_usage(signs=False), critical=True)
    )
    return Identity(builder.sign(authority.key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    days: int,
    now: datetime | None = None,
) -> x509.CertificateBuilder:
    now = now or datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - EARLIER)
        .not_valid_after(now + timedelta(days=days))
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def fingerprint(certificate: x509.Certificate) -> str:
    """SHA-256 of a certificate, in hexadecimal."""
    return certificate.fingerprint(hashes.SHA256()).hex()


def common_name(certificate: x509.Certificate) -> str:
    """Whose certificate it is."""
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if names else ""


def check_identity(identity: Identity, authority: x509.Certificate, name: str, where: Path) -> None:
    """Refuse, before any connection, a certificate that the other side will not take."""
    certificate, now = identity.certificate, datetime.now(UTC)
    if common_name(certificate) != name:
        raise CertificateError(
            f"{where} is the certificate of {common_name(certificate)!r}, not of {name!r}."
        )
    for each, what in ((certificate, str(where)), (authority, "the authority's certificate")):
        if now > each.not_valid_after_utc:
            raise CertificateError(
                f"{what} has expired on {each.not_valid_after_utc:%Y-%m-%d}; make new ones with"
                " corank federated init."
            )
        if now < each.not_valid_before_utc:
            raise CertificateError(
                f"{what} is valid from {each.not_valid_before_utc:%Y-%m-%d} on; is the clock right?"
            )
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature) as error:
        raise CertificateError(
            f"{where} was issued by another authority than this run's."
        ) from error


def pem(certificate: x509.Certificate) -> bytes:
    """As in a file."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def key_pem(identity: Identity) -> bytes:
    """The key, for the library that encrypts."""
    return identity.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )

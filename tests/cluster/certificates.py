"""Certificates as users have them, good and bad, for one run: see `words`."""

import datetime
import ipaddress
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Identity:
    """A certificate and its key as PEM."""

    certificate: str
    key: str


class Certificates:
    """An authority, and what it has signed: `client`, `server` (for NAMES), `expired` since yesterday, `expiring` in a
    week, and `other`, of another authority."""

    def __init__(self, names: list[str]):
        self._authority, self._key, self.authority = _authority("tests")
        self.client = self._issue("client")
        self.server = self._issue("server", names)
        self.expired = self._issue("expired", lasts=(-30, -1))
        self.expiring = self._issue("expiring", lasts=(-1, 7))
        self.other = _authority("others")[2]

    def words(self) -> dict[str, str]:
        """What stands for them in scenarios."""
        named = {name: getattr(self, name) for name in ("authority", "client", "server", "expired", "expiring", "other")}
        certificates = {f"$certificate.{name}": identity.certificate for name, identity in named.items()}
        return certificates | {f"$key.{name}": identity.key for name, identity in named.items()}

    def _issue(self, name: str, names: list[str] | None = None, lasts: tuple[int, int] = (-1, 90)) -> Identity:
        key = ec.generate_private_key(ec.SECP256R1())
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        builder = _builder(name, key, self._authority.subject, lasts)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(usage, critical=False)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName([_general(it) for it in names]), critical=False)
        return _identity(builder.sign(self._key, hashes.SHA256()), key)


def _authority(name: str) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey, Identity]:
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(name, key, _name(name), (-1, 365))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    certificate = builder.sign(key, hashes.SHA256())
    return certificate, key, _identity(certificate, key)


def _builder(
    name: str, key: ec.EllipticCurvePrivateKey, issuer: x509.Name, lasts: tuple[int, int]
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + lasts[0] * _DAY)
        .not_valid_after(now + lasts[1] * _DAY)
    )


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _identity(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Identity:
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Identity(certificate.public_bytes(pem).decode(), private.decode())

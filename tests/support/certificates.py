"""Certificates for tests: an authority, and servers that it vouches for."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """Its certificate is in ``ca.pem`` of the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("an authority of tests")
        builder = _builder(self._name, self._name, self._key)
        basic = x509.BasicConstraints(ca=True, path_length=None)
        usage = x509.KeyUsage(
            *(False, False, False, False, False, True, True, False, False)
        )
        ski = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        builder = builder.add_extension(basic, critical=True)
        builder = builder.add_extension(usage, critical=True)
        builder = builder.add_extension(ski, critical=False)
        self.file = folder / "ca.pem"
        self.file.write_bytes(_pem(builder.sign(self._key, hashes.SHA256())))

    def vouch(
        self, name: str, *addresses: str, passphrase: str | None = None
    ) -> tuple[Path, Path]:
        """Certificate and key of a server of this name, and at these addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        names: list[x509.GeneralName] = [x509.DNSName(name)]
        names += [x509.IPAddress(ip_address(each)) for each in addresses]
        builder = _builder(_name(name), self._name, key)
        builder = builder.add_extension(x509.SubjectAlternativeName(names), False)
        known = x509.AuthorityKeyIdentifier.from_issuer_public_key
        builder = builder.add_extension(known(self._key.public_key()), False)
        cert, secret = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        cert.write_bytes(_pem(builder.sign(self._key, hashes.SHA256())))
        lock: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if passphrase is not None:
            lock = serialization.BestAvailableEncryption(passphrase.encode())
        form = serialization.PrivateFormat.PKCS8
        secret.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, lock))
        return cert, secret


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.fromtimestamp(time.time(), UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)

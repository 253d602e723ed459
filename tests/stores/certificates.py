"""Certificates of an authority that lives as long as a test."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from ds_dagster.local.ports import HOST


@dataclass(frozen=True)
class Authority:
    """A certificate authority with one folder of PEM files."""

    folder: Path
    name: str = "test authority"
    key: rsa.RSAPrivateKey = field(default_factory=lambda: rsa.generate_private_key(65537, 2048), repr=False)

    @property
    def file(self) -> Path:
        path = self.folder / f"{self.name.replace(' ', '-')}.pem"
        if not path.is_file():
            path.write_bytes(_pem(self._signed(self.name, self.key, authority=True)))
        return path

    def issue(self, name: str, password: str = "") -> tuple[Path, Path]:
        """(certificate, key) of a name; good for the address of this machine, not for ``localhost``."""
        key = rsa.generate_private_key(65537, 2048)
        lock: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password:
            lock = serialization.BestAvailableEncryption(password.encode())
        certificate, private = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        certificate.write_bytes(_pem(self._signed(name, key)))
        private.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, lock))
        private.chmod(0o600)
        return certificate, private

    def _signed(self, name: str, key: rsa.RSAPrivateKey, *, authority: bool = False) -> x509.Certificate:
        now = datetime.datetime.now(datetime.timezone.utc)
        names = x509.SubjectAlternativeName([x509.DNSName("broker.test"), x509.IPAddress(ipaddress.ip_address(HOST))])
        builder = (
            x509.CertificateBuilder()
            .subject_name(_named(name))
            .issuer_name(_named(self.name))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=2))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        )
        builder = builder if authority else builder.add_extension(names, critical=False)
        return builder.sign(self.key, hashes.SHA256())


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def mutual_tls(authority: Authority) -> ssl.SSLContext:
    """What a server shows that takes clients of its own authority only."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.file))
    context.load_cert_chain(*authority.issue("server"))
    context.verify_mode = ssl.CERT_REQUIRED
    return context

"""TLS keys, requests and certificates, as NVFlare needs them; writes no files."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID

from hyfdca.crypto.keys.encoding import in_groups
from hyfdca.errors import StudyError, reading

_KEY_BITS = 3072
_FEWEST_BITS, _MOST_BITS = 2048, 8192  # larger keys only cost time, for others


def new_key() -> rsa.RSAPrivateKey:
    """Return a new key; RSA, because NVFlare seals and signs with it."""
    return rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)


def key_pem(key: rsa.RSAPrivateKey) -> bytes:
    """Return a private key in PEM."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def load_key(content: bytes, what: str) -> rsa.RSAPrivateKey:
    """Return the private key of a file.

    Raises
    ------
    StudyError
        If it is not a key that NVFlare accepts.
    """
    garbled = StudyError(f"The file {what} is not an RSA key in PEM; restore it.")
    with reading(garbled):
        key = serialization.load_pem_private_key(content, password=None)
    if not isinstance(key, rsa.RSAPrivateKey):
        raise garbled
    return key


def new_request(key: rsa.RSAPrivateKey, name: str) -> str:
    """Return a certificate request in PEM, signed by the key."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    request = builder.sign(key, hashes.SHA256())
    return request.public_bytes(serialization.Encoding.PEM).decode("ascii")


def requested_key(pem: str, what: str) -> rsa.RSAPublicKey:
    """Return the public key of a certificate request.

    Nothing else in it is used: names in certificates come from the study file.

    Raises
    ------
    StudyError
        If the request is garbled, or its sender may not have the private key.
    """
    try:
        request = x509.load_pem_x509_csr(pem.encode())
        key, is_signed = request.public_key(), request.is_signature_valid
    except (InvalidSignature, TypeError, ValueError):
        key, is_signed = None, False
    if not is_signed or not isinstance(key, rsa.RSAPublicKey):
        raise StudyError(
            f"The certificate request in {what} is garbled; ask for a new one."
        )
    if not _FEWEST_BITS <= key.key_size <= _MOST_BITS:
        raise StudyError(
            f"The key in {what} has {key.key_size} bits; have one of {_KEY_BITS} bits "
            "made with hyfdca enrol."
        )
    return key


def certificate_pem(certificate: x509.Certificate) -> str:
    """Return a certificate in PEM."""
    return certificate.public_bytes(serialization.Encoding.PEM).decode("ascii")


def load_certificate(pem: str, what: str) -> x509.Certificate:
    """Return the certificate of a file.

    Raises
    ------
    StudyError
    """
    garbled = StudyError(f"The certificate in {what} is garbled; ask for a new one.")
    with reading(garbled):
        certificate = x509.load_pem_x509_certificate(pem.encode())
        # Parsed here, where the file is known, even if it is only used later.
        _ = certificate.subject, certificate.public_key(), certificate.extensions
        return certificate


def fingerprint(certificate: x509.Certificate) -> str:
    """Return the full SHA-256 of a certificate, for people to compare."""
    content = certificate.public_bytes(serialization.Encoding.DER)
    return in_groups(hashlib.sha256(content).digest())


def common_name(certificate: x509.Certificate) -> str:
    """Return the owner's name in a certificate."""
    return _subject(certificate, NameOID.COMMON_NAME)


def organisation(certificate: x509.Certificate) -> str:
    """Return the owner's organisation, according to NVFlare."""
    return _subject(certificate, NameOID.ORGANIZATION_NAME)


def role(certificate: x509.Certificate) -> str:
    """Return the owner's role, according to NVFlare."""
    return _subject(certificate, NameOID.UNSTRUCTURED_NAME)


def _subject(certificate: x509.Certificate, part: x509.ObjectIdentifier) -> str:
    values = certificate.subject.get_attributes_for_oid(part)
    return str(values[0].value) if values else ""


def is_issued_by(certificate: x509.Certificate, root: x509.Certificate) -> bool:
    """Return whether the root's key signed a certificate."""
    try:
        certificate.verify_directly_issued_by(root)
    except (InvalidSignature, TypeError, ValueError):
        return False
    return True


def is_of_key(certificate: x509.Certificate, key: rsa.RSAPrivateKey) -> bool:
    """Return whether a certificate is for this key."""
    return certificate.public_key() == key.public_key()


def days_left(certificate: x509.Certificate) -> int:
    """Return how many whole days a certificate remains valid; negative if expired."""
    return (certificate.not_valid_after_utc - datetime.now(UTC)).days


def is_valid_now(certificate: x509.Certificate) -> bool:
    """Return whether a certificate is valid by the clock of this machine."""
    since, until = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return since <= datetime.now(UTC) <= until


def sign(key: rsa.RSAPrivateKey, message: bytes) -> bytes:
    """Return the signature of a message."""
    return key.sign(message, _PADDING, hashes.SHA256())


def has_signed(root: x509.Certificate, signature: bytes, message: bytes) -> bool:
    """Return whether the key of a certificate signed a message."""
    key = root.public_key()
    if not isinstance(key, rsa.RSAPublicKey):
        return False
    try:
        key.verify(signature, message, _PADDING, hashes.SHA256())
    except InvalidSignature:
        return False
    return True


_PADDING = padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.MAX_LENGTH)

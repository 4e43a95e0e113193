"""Verifies webhooks. Needs Python 3.8; for v1a the package `cryptography`."""

import base64
import hashlib
import hmac
import json
import re
import sys

TOLERANCE = 300  # seconds


def verify_organization(secret, headers, body, now):
    """Reports whether X-Webhook-Signature is that of an organization's secret (signing mode org_timestamp)."""
    timestamp = headers.get("x-webhook-timestamp", "")
    expected = hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    return _recent(timestamp, now) and _equal(headers.get("x-webhook-signature", ""), expected)


def verify_endpoint(secret, headers, body):
    """Reports whether X-Webhook-Signature is that of an endpoint's own secret (signing mode endpoint_body)."""
    expected = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return _equal(headers.get("x-webhook-signature", ""), expected)


def verify_standard(key, headers, body, now):
    """Reports whether webhook-signature has a signature of key: a secret (v1), or a public key with whpk_ (v1a)."""
    timestamp = headers.get("webhook-timestamp", "")
    signed = (headers.get("webhook-id", "") + "." + timestamp + ".").encode() + body
    if not _recent(timestamp, now):
        return False
    for part in headers.get("webhook-signature", "").split():
        version, _, encoded = part.partition(",")
        if version == "v1a" and key.startswith("whpk_") and _ed25519(key, encoded, signed):
            return True
        if version == "v1" and not key.startswith("whpk_"):
            raw = base64.b64decode(key[6:]) if key.startswith("whsec_") else key.encode()
            digest = hmac.new(raw, signed, hashlib.sha256).digest()
            if _equal(encoded, base64.b64encode(digest).decode()):
                return True
    return False


def _recent(timestamp, now):
    return re.fullmatch("[0-9]{1,12}", timestamp) is not None and abs(now - int(timestamp)) <= TOLERANCE


def _equal(given, expected):
    return hmac.compare_digest(given.encode(), expected.encode())


def _ed25519(key, encoded, signed):
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        public = Ed25519PublicKey.from_public_bytes(base64.b64decode(key[5:]))
        public.verify(base64.b64decode(encoded, validate=True), signed)
        return True
    except (InvalidSignature, ValueError):
        return False


def main(path):
    """Checks the deliveries of a file of vectors."""
    with open(path, encoding="utf-8") as file:
        vectors = json.load(file)
    for v in vectors:
        headers = {name.lower(): value for name, value in v["headers"].items()}
        body = v["body"].encode()
        if v["check"] == "organization":
            valid = verify_organization(v["key"], headers, body, v["now"])
        elif v["check"] == "endpoint":
            valid = verify_endpoint(v["key"], headers, body)
        else:
            valid = verify_standard(v["key"], headers, body, v["now"])
        if valid != v["valid"]:
            sys.exit(f"{v['name']}: {valid}, want {v['valid']}")
    print(len(vectors), "deliveries checked")


if __name__ == "__main__":
    main(sys.argv[1])

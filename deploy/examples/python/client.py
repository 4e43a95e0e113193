"""A connection to one of Switchyard's services, with what every client has to set."""

import os
import pathlib

import grpc

# Retries what is safe to retry. The examples in other languages use the same file.
SERVICE_CONFIG = pathlib.Path(__file__).parent.parent / "client" / "service-config.json"

# Images and vectors have 48 MiB at most, and a client's default is 4.
MAX_ANSWER = 49 << 20


def connect(address: str) -> grpc.Channel:
    """Returns a channel to the service whose address a variable such as GATEWAY_GRPC holds.

    It uses TLS if GRPC_CA_FILE names the certificates to trust, and shows the certificate of GRPC_CERT_FILE and
    GRPC_KEY_FILE if they are set (mutual TLS).
    """
    options = [
        ("grpc.service_config", SERVICE_CONFIG.read_text()),
        ("grpc.enable_retries", 1),
        ("grpc.max_receive_message_length", MAX_ANSWER),
        # The services close connections whose clients ping more often than every 20 seconds.
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
    ]
    target = os.environ[address]
    if "GRPC_CA_FILE" not in os.environ:
        return grpc.insecure_channel(target, options)  # For loopback only.
    own = [read(os.environ[name]) for name in ("GRPC_KEY_FILE", "GRPC_CERT_FILE") if name in os.environ]
    credentials = grpc.ssl_channel_credentials(read(os.environ["GRPC_CA_FILE"]), *own)
    return grpc.secure_channel(target, credentials, options)


def read(file: str) -> bytes:
    """Returns a file's bytes."""
    return pathlib.Path(file).read_bytes()


def metadata() -> list[tuple[str, str]]:
    """Returns the metadata of every call: the service token and the organization."""
    return [
        ("authorization", "Bearer " + os.environ["SERVICE_TOKEN"]),
        ("x-organization-id", os.environ["ORGANIZATION_ID"]),
    ]

"""Reads the details of a failed call."""

import dataclasses

import grpc
from google.rpc import error_details_pb2, status_pb2


@dataclasses.dataclass
class Failure:
    """Why a call failed."""

    code: grpc.StatusCode
    text: str
    reason: str = ""  # A value of ErrorReason in lower case; empty if no service answered.
    retryable: bool = False
    wait_seconds: float = 0.0  # The least time to wait before another try.


def failure_of(error: grpc.RpcError) -> Failure:
    """Returns the failure of a call's exception."""
    failure = Failure(error.code(), error.details())
    for key, value in error.trailing_metadata() or ():
        if key != "grpc-status-details-bin":
            continue
        for detail in status_pb2.Status.FromString(value).details:
            info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
            if detail.Unpack(info):
                failure.reason = info.reason
                failure.retryable = info.metadata["error_class"] in ("transient", "rate_limit", "server_error")
            elif detail.Unpack(retry):
                failure.wait_seconds = retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9
    return failure

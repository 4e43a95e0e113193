// Reads the details of a failed call.

import { status, type ServiceError } from "@grpc/grpc-js";
import { ErrorInfo, RetryInfo } from "./gen/google/rpc/error_details.js";
import { Status } from "./gen/google/rpc/status.js";

export interface Failure {
  code: string;
  text: string;
  // A value of ErrorReason in lower case; empty if no service answered.
  reason: string;
  retryable: boolean;
  // The least time to wait before another try.
  waitSeconds: number;
}

// failureOf returns the failure of a call's error.
export function failureOf(error: ServiceError): Failure {
  const failure: Failure = { code: status[error.code], text: error.details, reason: "", retryable: false, waitSeconds: 0 };
  const [encoded] = error.metadata.get("grpc-status-details-bin");
  if (!(encoded instanceof Buffer)) return failure;
  for (const detail of Status.decode(encoded).details) {
    if (detail.type_url.endsWith("google.rpc.ErrorInfo")) {
      const info = ErrorInfo.decode(detail.value);
      failure.reason = info.reason;
      failure.retryable = ["transient", "rate_limit", "server_error"].includes(info.metadata["error_class"]);
    } else if (detail.type_url.endsWith("google.rpc.RetryInfo")) {
      const delay = RetryInfo.decode(detail.value).retry_delay;
      failure.waitSeconds = Number(delay?.seconds ?? 0) + (delay?.nanos ?? 0) / 1e9;
    }
  }
  return failure;
}

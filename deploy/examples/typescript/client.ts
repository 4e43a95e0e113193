// A connection to one of Switchyard's services, with what every client has to set.

import { readFileSync } from "node:fs";
import { credentials, Metadata, type CallOptions, type ChannelCredentials, type ChannelOptions } from "@grpc/grpc-js";

// Retries what is safe to retry. The examples in other languages use the same file. The path is that of out/client.js.
const SERVICE_CONFIG = new URL("../../client/service-config.json", import.meta.url);

function required(name: string): string {
  const value = process.env[name];
  if (!value) throw new Error(`${name} must be set, as .local/demo.env has it`);
  return value;
}

// connect returns what a client's constructor takes for the service whose address a variable such as GATEWAY_GRPC
// holds. It uses TLS if GRPC_CA_FILE names the certificates to trust, and shows the certificate of GRPC_CERT_FILE and
// GRPC_KEY_FILE if they are set (mutual TLS).
export function connect(address: string): [string, ChannelCredentials, ChannelOptions] {
  const read = (name: string) => (process.env[name] ? readFileSync(process.env[name]) : null);
  const authorities = read("GRPC_CA_FILE");
  return [
    required(address),
    authorities
      ? credentials.createSsl(authorities, read("GRPC_KEY_FILE"), read("GRPC_CERT_FILE"))
      : credentials.createInsecure(), // For loopback only.
    {
      "grpc.service_config": readFileSync(SERVICE_CONFIG, "utf8"),
      // Images and vectors have 48 MiB at most, and a client's default is 4.
      "grpc.max_receive_message_length": 49 << 20,
      // The services close connections whose clients ping more often than every 20 seconds.
      "grpc.keepalive_time_ms": 30_000,
      "grpc.keepalive_timeout_ms": 10_000,
    },
  ];
}

// identity returns the metadata of every call: the service token and the organization.
export function identity(): Metadata {
  const metadata = new Metadata();
  metadata.set("authorization", `Bearer ${required("SERVICE_TOKEN")}`);
  metadata.set("x-organization-id", required("ORGANIZATION_ID"));
  return metadata;
}

// within returns the option that bounds a call by a number of seconds.
export function within(seconds: number): CallOptions {
  return { deadline: Date.now() + seconds * 1000 };
}

// unary makes a promise of a call with a callback.
export function unary<T>(start: (done: (error: Error | null, answer: T) => void) => void): Promise<T> {
  return new Promise((resolve, reject) => start((error, answer) => (error ? reject(error) : resolve(answer))));
}

// Verifies webhooks. Needs Node 18 and no package. Headers are an object with names in lower case, bodies are Buffers.

import { createHmac, createPublicKey, timingSafeEqual, verify } from "node:crypto";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const tolerance = 300; // seconds

// verifyOrganization reports whether X-Webhook-Signature is that of an organization's secret (signing mode
// org_timestamp).
export function verifyOrganization(secret, headers, body, now) {
  const timestamp = headers["x-webhook-timestamp"] ?? "";
  const expected = createHmac("sha256", secret).update(`${timestamp}.`).update(body).digest("hex");
  return recent(timestamp, now) && equal(headers["x-webhook-signature"] ?? "", expected);
}

// verifyEndpoint reports whether X-Webhook-Signature is that of an endpoint's own secret (signing mode endpoint_body).
export function verifyEndpoint(secret, headers, body) {
  const expected = "sha256=" + createHmac("sha256", secret).update(body).digest("hex");
  return equal(headers["x-webhook-signature"] ?? "", expected);
}

// verifyStandard reports whether webhook-signature has a signature of key: a secret (v1), or a public key with whpk_
// (v1a).
export function verifyStandard(key, headers, body, now) {
  const timestamp = headers["webhook-timestamp"] ?? "";
  if (!recent(timestamp, now)) return false;
  const signed = Buffer.concat([Buffer.from(`${headers["webhook-id"] ?? ""}.${timestamp}.`), body]);
  const asymmetric = key.startsWith("whpk_");
  return (headers["webhook-signature"] ?? "").split(" ").some((part) => {
    const [version, encoded = ""] = part.split(",", 2);
    if (asymmetric) return version === "v1a" && ed25519(key, encoded, signed);
    const raw = key.startsWith("whsec_") ? Buffer.from(key.slice(6), "base64") : key;
    return version === "v1" && equal(encoded, createHmac("sha256", raw).update(signed).digest("base64"));
  });
}

function recent(timestamp, now) {
  return /^[0-9]{1,12}$/.test(timestamp) && Math.abs(now - Number(timestamp)) <= tolerance;
}

function equal(given, expected) {
  const a = Buffer.from(given);
  const b = Buffer.from(expected);
  return a.length === b.length && timingSafeEqual(a, b);
}

function ed25519(key, encoded, signed) {
  const x = Buffer.from(key.slice(5), "base64").toString("base64url");
  const publicKey = createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" });
  return verify(null, signed, publicKey, Buffer.from(encoded, "base64"));
}

// Run with a file of vectors, it checks their deliveries.
if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const vectors = JSON.parse(readFileSync(process.argv[2], "utf8"));
  for (const v of vectors) {
    const headers = Object.fromEntries(Object.entries(v.headers).map(([name, value]) => [name.toLowerCase(), value]));
    const body = Buffer.from(v.body);
    const check = { organization: verifyOrganization, endpoint: verifyEndpoint, v1: verifyStandard, v1a: verifyStandard }[v.check];
    const valid = check(v.key, headers, body, v.now);
    if (valid !== v.valid) {
      console.error(`${v.name}: ${valid}, want ${v.valid}`);
      process.exit(1);
    }
  }
  console.log(vectors.length, "deliveries checked");
}

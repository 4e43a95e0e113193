// Calls of the portal's operations. The cookie of the session goes with them; the header says that a page of this origin
// made them.

export class Failure extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export async function call(method, path, body) {
  const response = await fetch(`/portal/api${path}`, {
    method,
    headers: { "X-Switchyard-Portal": "1", ...(body && { "Content-Type": "application/json" }) },
    body: body && JSON.stringify(body),
  });
  if (response.status === 204) return null;
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Failure(response.status, answer.reason || answer.error || response.statusText);
  return answer;
}

// query returns a path with those parameters that have a value.
export function query(path, parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

export const webhooks = "/product/v1/webhooks";
export const notifications = "/product/v1/notifications";
export const ai = "/product/v1/ai";

// Calls of the portal's operations. The cookie of the session goes with them; the header says that a page of this origin
// made them.

export class Failure extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// Declined is thrown by a call that the person doesn't confirm.
export class Declined extends Error {}

// at is where operations are. In the console, scope names the organization in whose place the customers' operations are
// called, headers and user the owner and the user. Each call waits for before(method, url), which may throw.
export const at = { api: new URL("api", document.baseURI).pathname, scope: "", headers: {}, user: "", before: async () => {} };

// address returns the address of a customers' operation.
export function address(path) {
  return `${at.api}${at.scope}${path}`;
}

// call calls a customers' operation, send any one at its address.
export function call(method, path, body) {
  return send(method, address(path), body, at.headers);
}

export async function send(method, url, body, headers = {}) {
  await at.before(method, url);
  const response = await fetch(url, {
    method,
    headers: { "X-Switchyard-Portal": "1", ...headers, ...(body && { "Content-Type": "application/json" }) },
    body: body && JSON.stringify(body),
  });
  if (response.status === 204) return null;
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Failure(response.status, answer.reason || answer.error || response.statusText);
  return answer;
}

// query returns a path with those parameters that have a value, one or several.
export function query(path, parameters) {
  const given = Object.entries(parameters).flatMap(([name, values]) => [values].flat().map((value) => [name, value]))
    .filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

export const webhooks = "/product/v1/webhooks";
export const notifications = "/product/v1/notifications";
export const ai = "/product/v1/ai";

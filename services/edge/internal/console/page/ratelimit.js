// The fields of a rate limit: of a key, or of an organization.

import { el, field } from "./dom.js";
import { t } from "./text.js";

// rateFields returns the fields of a limit, which is null for none, and a function that reads them. name is the one under
// which errors name the limit.
export function rateFields(limit, name) {
  const number = (id, value) => el("input", { id, type: "number", min: 1, max: 1_000_000_000, step: 1, value });
  const requests = number("rate-requests", limit?.requests);
  const seconds = number("rate-seconds", limit?.window_seconds);
  const burst = number("rate-burst", limit?.burst);
  requests.name = name;
  return {
    fields: [field(t("rate-requests"), requests), field(t("rate-seconds"), seconds), field(t("rate-burst"), burst)],
    read: () => (requests.value || seconds.value || burst.value
      ? { requests: Number(requests.value), window_seconds: Number(seconds.value), burst: Number(burst.value) } : null),
  };
}

export function rateText(limit) {
  return limit ? t("rate-of", { requests: limit.requests, seconds: limit.window_seconds }) : "";
}

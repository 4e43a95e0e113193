// The sends of an organization: what became of one in each channel.

import { call, notifications } from "./api.js";
import { el, field, table } from "./dom.js";
import { act, list, statusText } from "./page.js";
import { t, time } from "./text.js";

export async function sends(content) {
  const id = el("input", { id: "send-id", required: true, maxlength: 64, autocomplete: "off", spellcheck: "false" });
  const place = el("div", { id: "sends" });
  content.append(el("form", { class: "form", "aria-label": t("sends"), onsubmit: act(() => show(place, id.value.trim())) },
    field(t("notification-id"), id), el("button", { class: "main", type: "submit" }, t("show"))), place);
}

async function show(place, id) {
  const at = `${notifications}/sends/${encodeURIComponent(id)}`;
  const attempts = el("div");
  const channels = el("div");
  place.replaceChildren(channels, el("h2", {}, t("attempts")), attempts);
  await list(attempts, at, {}, "attempts", (items) => table(t("attempts"), [
    { label: t("channel"), cell: (a) => a.channel },
    { label: t("number"), cell: (a) => String(a.number), number: true },
    { label: t("time"), cell: (a) => time(a.started_at) },
    { label: t("outcome"), cell: (a) => statusText(a.outcome) },
    { label: t("error"), cell: (a) => [a.error, a.detail].filter(Boolean).join(": ") },
  ], items), async (path) => {
    const send = await call("GET", path);
    channels.replaceChildren(table(t("channels"), [
      { label: t("channel"), cell: (c) => c.channel },
      { label: t("status"), cell: (c) => statusText(c.status) },
      { label: t("last-error"), cell: (c) => c.last_error ?? "" },
    ], send.channels));
    return send;
  });
}

// What webhook-egress and notify have of all organizations: deliveries, dead letters, endpoints, events, push devices.

import { admin } from "./acting.js";
import { query } from "./api.js";
import { el, field, table } from "./dom.js";
import { go } from "./organizations.js";
import { act, button, endpointStatus, list, say, statusText } from "./page.js";
import { t, time } from "./text.js";

const statuses = ["", "queued", "delivering", "retrying", "delivered", "failed", "expired", "cancelled"];
// maxResent bounds how many deliveries one click sends again.
const maxResent = 200;

const get = (path) => admin("GET", path);
const all = { all_organizations: true };

export function allDeliveries(content) {
  const filter = el("select", { id: "status" }, statuses.map((s) => el("option", { value: s }, s || t("all"))));
  return deliveriesOf(content, t("all-deliveries-of-all"), filter, () => ({ status: filter.value }));
}

// deadLetters are the deliveries that failed for good.
export function deadLetters(content) {
  const filter = el("select", { id: "status" }, ["failed", "expired"].map((s) => el("option", { value: s }, s)));
  return deliveriesOf(content, t("dead-letters"), filter, () => ({ status: filter.value }));
}

async function deliveriesOf(content, caption, filter, parameters) {
  const place = el("div", { id: "deliveries" });
  const host = el("input", { id: "host", maxlength: 260, placeholder: "example.com", autocomplete: "off", spellcheck: "false" });
  const chosen = new Map(); // deliveries to send again, by id
  const show = async () => {
    chosen.clear();
    await list(place, "/webhooks/deliveries", { ...all, ...parameters(), host: host.value.trim() }, "deliveries",
      (items) => table(caption, deliveryColumns(chosen), items), get);
  };
  filter.onchange = act(show);
  content.append(el("form", { class: "form", "aria-label": caption, onsubmit: act(show) },
    field(t("status"), filter), field(t("host"), host), el("button", { type: "submit", id: "refresh" }, t("refresh")),
    button(t("resend-chosen"), async () => { await resend([...chosen.values()], show); }, { class: "main", id: "resend" })), place);
  await show();
}

// resend sends deliveries again, one after the other, and says how many.
async function resend(deliveries, show) {
  if (!deliveries.length) throw new Error(t("choose-first"));
  if (deliveries.length > maxResent) throw new Error(t("choose-fewer", { most: maxResent }));
  let sent = 0;
  let refused = "";
  for (const d of deliveries) {
    try {
      await admin("POST", `/organizations/${encodeURIComponent(d.organization_id)}/product/v1/webhooks/deliveries/${encodeURIComponent(d.delivery_id)}/resend`, {});
      sent++;
    } catch (error) {
      if (error.status === 401) throw error;
      refused = error.message;
    }
  }
  await show();
  if (refused) throw new Error(t("resent-some", { sent, of: deliveries.length, reason: refused }));
  say(t("resent-count", { sent }));
}

function deliveryColumns(chosen) {
  return [
    { label: t("organization"), cell: (d) => d.organization_id },
    { label: t("time"), cell: (d) => time(d.created_at) },
    { label: t("event-type"), cell: (d) => d.event_type },
    { label: t("url"), cell: (d) => d.url },
    { label: t("status"), cell: (d) => statusText(d.status) },
    { label: t("attempts"), cell: (d) => String(d.attempts), number: true },
    { label: t("last-error"), cell: (d) => d.last_error ?? "" },
    { label: t("actions"), cell: (d) => el("div", { class: "actions" },
      button(t("open"), () => go({ organization: d.organization_id }, `deliveries/${encodeURIComponent(d.delivery_id)}`), { "aria-label": `${t("open")}: ${d.delivery_id}` }),
      d.finished_at ? choice(d, chosen) : "") },
  ];
}

function choice(delivery, chosen) {
  const box = el("input", {
    type: "checkbox", "aria-label": `${t("choose")}: ${delivery.delivery_id}`, onchange: () => {
      if (box.checked) chosen.set(delivery.delivery_id, delivery);
      else chosen.delete(delivery.delivery_id);
    },
  });
  box.checked = chosen.has(delivery.delivery_id);
  return box;
}

export async function allEndpoints(content) {
  const place = el("div", { id: "endpoints" });
  const filter = el("select", { id: "active" }, [["", t("all")], ["true", t("active")], ["false", t("paused")]].map(([value, label]) => el("option", { value }, label)));
  const show = () => list(place, "/webhooks/endpoints", { ...all, active: filter.value }, "endpoints", (items) => table(t("all-endpoints"), [
    { label: t("organization"), cell: (e) => e.organization_id },
    { label: t("owner"), cell: (e) => e.owner_id ?? "" },
    { label: t("url"), cell: (e) => e.url },
    { label: t("state"), cell: (e) => endpointStatus(e) },
    { label: t("actions"), cell: (e) => button(t("open"), () => go({ organization: e.organization_id, owner: e.owner_id ?? "" }, "endpoints"), { "aria-label": `${t("open")}: ${e.url}` }) },
  ], items), get);
  filter.onchange = act(show);
  content.append(el("div", { class: "form" }, field(t("state"), filter), button(t("refresh"), show)), place);
  await show();
}

// events shows Switchyard's own events in the order in which they were recorded: the list has no other.
export async function events(content) {
  const place = el("div", { id: "events" });
  const items = [];
  let cursor = "";
  const more = button(t("more"), () => next());
  async function next() {
    const page = await get(query("/webhooks/house-events", { limit: 200, cursor }));
    items.push(...page.events);
    cursor = page.events.at(-1)?.cursor ?? cursor;
    place.replaceChildren(items.length ? table(t("events"), eventColumns(), items) : el("p", {}, t("nothing")), ...(page.events.length === 200 ? [more] : []));
  }
  content.append(place);
  await next();
}

function eventColumns() {
  return [
    { label: t("time"), cell: (e) => time(e.recorded_at) },
    { label: t("organization"), cell: (e) => e.organization_id },
    { label: t("event-type"), cell: (e) => e.cloud_event.type },
    { label: t("subject"), cell: (e) => e.cloud_event.subject ?? "" },
    { label: t("details"), cell: (e) => el("pre", {}, JSON.stringify(e.cloud_event.data ?? {})) },
  ];
}

export async function registrations(content) {
  const place = el("div", { id: "registrations" });
  content.append(place);
  await list(place, "/notifications/registrations", all, "registrations", (items) => table(t("registrations"), [
    { label: t("organization"), cell: (r) => r.organization_id },
    { label: t("user"), cell: (r) => r.user_id ?? "" },
    { label: t("push-service"), cell: (r) => r.endpoint_origin },
    { label: t("state"), cell: (r) => r.status },
    { label: t("created-at"), cell: (r) => time(r.created_at) },
    { label: t("last-delivered"), cell: (r) => time(r.last_delivered_at) },
    { label: t("ends-at"), cell: (r) => time(r.expires_at) },
  ], items), get);
}

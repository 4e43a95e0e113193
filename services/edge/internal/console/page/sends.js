// Sends, of all organizations and of the chosen one: what became of each in its channels.

import { acting, admin } from "./acting.js";
import { call, notifications } from "./api.js";
import { el, field, table } from "./dom.js";
import { go } from "./organizations.js";
import { act, button, list, refresher, statusText } from "./page.js";
import { t, time } from "./text.js";

const statuses = ["", "pending", "delivered", "partial", "failed"];
const channelNames = ["", "slack", "email", "webhook", "in_app", "web_push"];

export function allSends(content) {
  const organization = el("input", { id: "send-organization", maxlength: 128, autocomplete: "off", spellcheck: "false" });
  return listing(content, t("all-sends"), () => organization.value.trim(), field(t("organization-optional"), organization));
}

export async function sends(content) {
  const id = el("input", { id: "send-id", required: true, maxlength: 64, autocomplete: "off", spellcheck: "false" });
  content.append(el("form", { class: "form", "aria-label": t("notification-id"), onsubmit: act(() => open(acting.organization, id.value.trim())) },
    field(t("notification-id"), id), el("button", { type: "submit" }, t("show"))));
  await listing(content, t("sends"), () => acting.organization);
}

// listing shows the sends of the organization that of returns, or of all if it returns none, and the fields that narrow them.
async function listing(content, caption, of, ...more) {
  const place = el("div", { id: "sends" });
  const refresh = refresher(show);
  const select = (name, values) => el("select", { id: `send-${name}`, onchange: refresh }, values.map((v) => el("option", { value: v }, v || t("all"))));
  const moment = (name) => el("input", { id: `send-${name}`, type: "datetime-local" });
  const [status, channel, from, until] = [select("status", statuses), select("channel", channelNames), moment("from"), moment("until")];
  async function show() {
    const organization = of();
    await list(place, "/notifications/sends", {
      ...(organization ? { organization_id: organization } : { all_organizations: true }), status: status.value, channel: channel.value,
      created_after: utc(from.value), created_before: utc(until.value),
    }, "sends", (items) => table(caption, columns(), items), (path) => admin("GET", path));
  }
  content.append(el("form", { class: "form", "aria-label": caption, onsubmit: refresh }, more,
    field(t("status"), status), field(t("channel"), channel), field(t("from"), from), field(t("until"), until),
    el("button", { type: "submit", id: "refresh" }, t("refresh"))), place);
  await show();
}

// utc returns the time in a field as RFC 3339.
const utc = (value) => value && new Date(`${value}Z`).toISOString();

const open = (organization, id) => go(organization === acting.organization ? acting : { organization }, `sends/${encodeURIComponent(id)}`);

function columns() {
  return [
    { label: t("organization"), cell: (s) => s.organization_id },
    { label: t("time"), cell: (s) => time(s.created_at) },
    { label: t("status"), cell: (s) => statusText(s.status) },
    { label: t("channels"), cell: (s) => el("div", {}, s.channels.map((c) => el("div", {}, `${c.channel}: `, statusText(c.status)))) },
    { label: t("failed-channels"), cell: (s) => s.channels.map((c) => c.last_error).filter(Boolean).join(", ") },
    { label: t("actions"), cell: (s) => button(t("open"), () => open(s.organization_id, s.notification_id), { "aria-label": `${t("open")}: ${s.notification_id}` }) },
  ];
}

// send shows one send of the chosen organization with its attempts.
export async function send(content, id) {
  const at = `${notifications}/sends/${encodeURIComponent(id)}`;
  const head = el("div", { id: "send" });
  const attempts = el("div", { id: "attempts" });
  const show = () => list(attempts, at, {}, "attempts", (items) => table(t("attempts"), attemptColumns(), items), async (path) => {
    const one = await call("GET", path);
    head.replaceChildren(details(one), table(t("channels"), channelColumns(), one.channels));
    return one;
  });
  content.append(el("p", {}, el("a", { href: "#/sends" }, t("all-sends-of-one"))), el("div", { class: "actions" }, button(t("refresh"), show)), head,
    el("h2", {}, t("attempts")), attempts);
  await show();
}

function details(s) {
  const rows = [[t("notification-id"), s.notification_id], [t("status"), statusText(s.status)], [t("time"), time(s.created_at)], [t("changed-at"), time(s.updated_at)]];
  return el("dl", {}, rows.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

function channelColumns() {
  return [
    { label: t("channel"), cell: (c) => c.channel },
    { label: t("status"), cell: (c) => statusText(c.status) },
    { label: t("attempts"), cell: (c) => String(c.attempts), number: true },
    { label: t("delivered"), cell: (c) => `${c.delivered_count}/${c.targeted_count}`, number: true },
    { label: t("last-error"), cell: (c) => c.last_error ?? "" },
    { label: t("next-attempt"), cell: (c) => time(c.next_attempt_at) },
    { label: t("finished-at"), cell: (c) => time(c.finished_at) },
  ];
}

function attemptColumns() {
  return [
    { label: t("channel"), cell: (a) => a.channel },
    { label: t("number"), cell: (a) => String(a.number), number: true },
    { label: t("time"), cell: (a) => time(a.started_at) },
    { label: t("outcome"), cell: (a) => statusText(a.outcome) },
    { label: t("code"), cell: (a) => String(a.response_code ?? ""), number: true },
    { label: t("error"), cell: (a) => [a.error, a.detail].filter(Boolean).join(": ") },
  ];
}

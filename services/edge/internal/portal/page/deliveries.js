import { call, webhooks } from "./api.js";
import { el, field, table } from "./dom.js";
import { act, button, fail, list, may, replace, say, statusText } from "./page.js";
import { t, time } from "./text.js";

const path = `${webhooks}/deliveries`;
const statuses = ["", "queued", "delivering", "retrying", "delivered", "failed", "expired", "cancelled"];

export async function deliveries(content, parameters) {
  const place = el("div", { id: "deliveries" });
  const filter = el("select", { id: "delivery-status" }, statuses.map((s) => el("option", { value: s }, s || t("all"))));
  const show = () => list(place, path, { endpoint_id: parameters.get("endpoint"), status: filter.value }, "deliveries",
    (items) => table(t("deliveries"), columns(), items));
  filter.onchange = act(show);
  if (parameters.get("endpoint")) {
    content.append(el("p", { id: "of-endpoint" }, `${t("of-endpoint", { id: parameters.get("endpoint") })} `, el("a", { href: "#/deliveries" }, t("all-deliveries"))));
  }
  content.append(el("div", { class: "form" }, field(t("status"), filter), button(t("refresh"), show)), place);
  await show();
}

function columns() {
  return [
    { label: t("time"), cell: (d) => el("a", { href: `#/deliveries/${encodeURIComponent(d.delivery_id)}` }, time(d.created_at)) },
    { label: t("event-type"), cell: (d) => d.event_type },
    { label: t("url"), cell: (d) => d.url },
    { label: t("status"), cell: (d) => statusText(d.status) },
    { label: t("attempts"), cell: (d) => String(d.attempts), number: true },
    { label: t("last-error"), cell: (d) => d.last_error ?? "" },
  ];
}

// A delivery that has not ended is read again every followPause milliseconds, followTimes times at most.
const followPause = 2000;
const followTimes = 150;

// delivery shows one delivery with its attempts, and follows it until it has ended or the returned function is called.
export async function delivery(content, id) {
  const at = `${path}/${encodeURIComponent(id)}`;
  const head = el("div", { id: "delivery" });
  const attempts = el("div", { id: "attempts" });
  let seen = "";
  let left = followTimes;
  let timer = 0;
  let open = true;
  async function show() {
    clearTimeout(timer);
    const d = await call("GET", at);
    if (open && !d.finished_at && left-- > 0) timer = setTimeout(() => show().catch(fail), followPause);
    if (d.updated_at === seen) return;
    seen = d.updated_at;
    replace(head, details(d), actions(at, d, show));
    await list(attempts, `${at}/attempts`, {}, "attempts", (items) => table(t("attempts"), attemptColumns(), items));
  }
  content.append(el("p", {}, el("a", { href: "#/deliveries" }, t("all-deliveries"))), head, el("h2", {}, t("attempts")), attempts);
  await show();
  return () => {
    open = false;
    clearTimeout(timer);
  };
}

function details(d) {
  const rows = [
    [t("status"), statusText(d.status)], [t("event-type"), d.event_type], [t("url"), d.url], [t("time"), time(d.created_at)],
    [t("last-error"), d.last_error ?? ""], [t("next-attempt"), time(d.next_attempt_at)],
  ];
  return el("dl", {}, rows.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

function actions(at, d, show) {
  const all = [button(t("refresh"), show, { id: "refresh" })];
  if (may("webhooks:deliveries:write")) {
    const ended = Boolean(d.finished_at);
    all.push(button(t(ended ? "resend" : "cancel"), async () => {
      await call("POST", `${at}/${ended ? "resend" : "cancel"}`, {});
      await show();
      say(t(ended ? "resent" : "cancelled"));
    }, { class: "main", id: ended ? "resend" : "cancel" }));
  }
  return el("div", { class: "actions" }, all);
}

function attemptColumns() {
  return [
    { label: t("number"), cell: (a) => `${a.generation}.${a.number}` },
    { label: t("time"), cell: (a) => time(a.started_at) },
    { label: t("outcome"), cell: (a) => statusText(a.outcome) },
    { label: t("code"), cell: (a) => a.response_code === null ? "" : String(a.response_code), number: true },
    { label: t("milliseconds"), cell: (a) => String(a.total_ms), number: true },
    { label: t("timing"), cell: (a) => t("phases", { dns: a.dns_ms, connect: a.connect_ms, tls: a.tls_ms, first: a.first_byte_ms }) },
    { label: t("error"), cell: (a) => a.error ?? "" },
    { label: t("response"), cell: (a) => a.response_body ? el("pre", {}, a.response_body) : "" },
  ];
}

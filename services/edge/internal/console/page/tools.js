// The servers of tools: what each says of its tools beside what was approved, the decisions on that, and its calls.

import { acting, admin } from "./acting.js";
import { call, query } from "./api.js";
import { el, field, table } from "./dom.js";
import { act, button, list, refresher, say, statusText } from "./page.js";
import { money, t, time } from "./text.js";

const servers = "/tools/servers";
const states = ["", "pending", "approved", "rejected"];
const hours = [1, 24, 168];

// own is the chosen organization's place, shared that of the servers of all organizations.
const own = { name: "tools", call, scope: {} };
const shared = { name: "shared-tools", call: admin, scope: { all_organizations: true } };

export const tools = (content) => showServers(content, own);
export const sharedTools = (content) => showServers(content, shared);
export const toolServer = (content, id) => showServer(content, own, id);
export const sharedToolServer = (content, id) => showServer(content, shared, id);

async function showServers(content, place) {
  const found = el("div", { id: "tool-servers" });
  const show = () => list(found, servers, place.scope, "servers", (items) => table(t(place.name), serverColumns(place), items), (path) => place.call("GET", path));
  content.append(el("div", { class: "actions" }, button(t("refresh"), show)), found);
  await show();
}

function serverColumns(place) {
  return [
    { label: t("tool-server"), cell: (s) => el("a", { href: `#/${placeOf(place, s)}/${encodeURIComponent(s.server_id)}` }, s.server_id) },
    { label: t("review"), cell: (s) => statusText(s.review_state) },
    { label: t("tools"), cell: (s) => String(s.tools), number: true },
    { label: t("tools-waiting"), cell: (s) => String(s.tools_pending), number: true },
    { label: t("url"), cell: (s) => s.url || s.command },
    { label: t("tool-price"), cell: (s) => money(s.price_per_call_cents), number: true },
    { label: t("listed-at"), cell: (s) => time(s.listed_at) },
    { label: t("last-error"), cell: (s) => [s.last_error_class, s.last_error].filter(Boolean).join(": ") },
  ];
}

// placeOf returns the name of the view of a server: one of all organizations has its own, also in an organization's list.
const placeOf = (place, server) => (server.all_organizations ? shared : place).name;

async function showServer(content, place, id) {
  const at = `${servers}/${encodeURIComponent(id)}`;
  const head = el("div", { id: "tool-server" });
  const found = el("div", { id: "definitions" });
  const made = el("div", { id: "tool-calls" });
  const reason = el("input", { id: "review-reason", maxlength: 1024 });
  const status = el("select", { id: "definition-status" }, states.map((s) => el("option", { value: s }, s || t("all"))));
  const since = el("select", { id: "calls-since" }, hours.map((h) => el("option", { value: h }, t("last-hours", { hours: h }))));

  async function decide(path, named, decision) {
    await place.call("POST", `${at}${path}/review`, { ...place.scope, ...named, decision, ...(reason.value && { reason: reason.value }) });
    reason.value = "";
    await show();
    say(t(`${decision}-done`));
  }
  const showHead = async () => {
    const server = await place.call("GET", query(at, place.scope));
    head.replaceChildren(details(server), el("div", { class: "actions" },
      button(t("list-tools"), async () => {
        await place.call("POST", `${at}/refresh`, place.scope);
        say(t("listing-asked"));
      }),
      server.tools_pending > 0 && ["approve", "reject"].map((decision) =>
        button(t(`${decision}-waiting`), () => decide("", { listing_digest: server.listing_digest }, decision)))));
  };
  const showDefinitions = () => list(found, `${at}/tools`, { ...place.scope, status: status.value }, "tools",
    (items) => el("div", {}, items.map((d) => definition(d, (decision) => decide(`/tools/${encodeURIComponent(d.tool)}`, { digest: d.digest }, decision)))),
    (path) => place.call("GET", path));
  const showCalls = () => list(made, "/tools/calls", {
    provider: `mcp/${id}`, since: new Date(Date.now() - since.value * 3600e3).toISOString(),
  }, "records", (items) => table(t("calls"), callColumns(), items), async (path) => lastPage(await call("GET", path)));
  const show = async () => {
    await Promise.all([showHead(), showDefinitions()]);
  };

  status.onchange = refresher(showDefinitions);
  since.onchange = refresher(showCalls);
  content.append(el("p", {}, el("a", { href: `#/${place.name}` }, t("all-tool-servers"))), head,
    el("h2", {}, t("definitions")),
    el("form", { class: "form", "aria-label": t("definitions"), onsubmit: act(show) },
      field(t("status"), status), field(t("reason-optional"), reason), el("button", { type: "submit" }, t("refresh"))), found);
  await show();
  if (!acting.organization) return; // Calls are an organization's.
  content.append(el("h2", {}, t("calls")),
    el("form", { class: "form", "aria-label": t("calls"), onsubmit: act(showCalls) },
      field(t("period"), since), el("button", { type: "submit" }, t("refresh"))), made);
  await showCalls();
}

// lastPage takes the cursor from a page that isn't full: the feed's cursor waits for rows to come.
const lastPage = (page) => (page.records.length < 50 ? { ...page, next_cursor: "" } : page);

function details(s) {
  const rows = [
    [t("tool-server"), s.server_id], [t("url"), s.url || s.command], [t("prefix"), s.prefix], [t("review"), statusText(s.review_state)],
    [t("protocol-version"), s.protocol_version], [t("credential"), s.credential && [s.credential.custody, s.credential.header].filter(Boolean).join(", ")],
    [t("tool-price"), money(s.price_per_call_cents)], [t("registered-by"), [s.registered_by, s.moved_by].filter(Boolean).join(", ")],
    [t("listed-at"), time(s.listed_at)], [t("last-error"), [s.last_error_class, s.last_error].filter(Boolean).join(": ")],
    [t("unexposed-tools"), s.unexposed_tools.join(", ")],
  ];
  return el("dl", {}, rows.filter(([, value]) => value).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

// definition shows what a server says of one tool. All of it is the server's words.
function definition(d, decide) {
  const state = d.present ? "" : ` · ${t("not-listed")}`;
  return el("section", { "aria-label": `${t("tool")}: ${d.tool}` },
    el("h3", {}, d.tool), el("p", {}, statusText(d.status), state, d.exposed_name && ` · ${d.exposed_name}`),
    el("p", {}, [time(d.seen_at), d.reviewed_by, d.review_reason].filter(Boolean).join(" · ")),
    d.invisible_text_at.length > 0 && el("p", { class: "fault" }, t("invisible-text", { at: d.invisible_text_at.join(", ") })),
    d.differences.length > 0 && table(t("differences"), [
      { label: t("field"), cell: (one) => one.path },
      { label: t("as-approved"), cell: (one) => el("pre", {}, one.approved ?? "") },
      { label: t("as-listed"), cell: (one) => el("pre", {}, one.present ?? "") },
    ], d.differences),
    el("details", {}, el("summary", {}, t("definition")), el("pre", {}, JSON.stringify(d.definition, null, 2)), el("p", {}, `SHA-256 ${d.digest}`)),
    d.status === "pending" && d.present && el("div", { class: "actions" }, ["approve", "reject"].map((decision) =>
      button(t(decision), () => decide(decision), { "aria-label": `${t(decision)}: ${d.tool}` }))));
}

function callColumns() {
  return [
    { label: t("time"), cell: (r) => time(r.started_at) },
    { label: t("tool"), cell: (r) => r.model },
    { label: t("outcome"), cell: (r) => statusText(r.outcome) },
    { label: t("cost"), cell: (r) => money(r.cost_cents), number: true },
    { label: t("run"), cell: (r) => r.run_id ?? "" },
    { label: t("user"), cell: (r) => r.user_id ?? "" },
    { label: t("request"), cell: (r) => r.request_id },
  ];
}

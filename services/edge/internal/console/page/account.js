// What an organization has: its plan, its credits, and what it has used this month.

import { acting, admin } from "./acting.js";
import { query } from "./api.js";
import { el, field, table } from "./dom.js";
import { act, list, say } from "./page.js";
import { money, t, time } from "./text.js";

export async function account(content) {
  const at = `/admin/v1/organizations/${encodeURIComponent(acting.organization)}`;
  const plan = el("div", { id: "plan" });
  const credits = el("div", { id: "credits" });
  const usage = el("div", { id: "usage" });
  content.append(el("h2", {}, t("plan")), plan, el("h2", {}, t("credits")), grantForm(at, () => showCredits(at, credits)), credits,
    el("h2", {}, t("usage")), usage);
  await Promise.all([showPlan(at, plan), showCredits(at, credits), showUsage(usage)]);
}

async function showPlan(at, place) {
  const [own, all] = await Promise.all([
    admin("GET", `${at}/plan`).catch((error) => { if (error.status !== 404) throw error; return { plan: "" }; }),
    admin("GET", "/admin/v1/plans?limit=200"),
  ]);
  const choice = el("select", { id: "plan-choice" }, el("option", { value: "" }, t("default-plan")),
    all.plans.map((p) => el("option", { value: p.plan, selected: p.plan === own.plan }, p.plan)));
  const limits = all.plans.find((p) => p.plan === own.plan)?.limits ?? [];
  place.replaceChildren(el("form", {
    class: "form", "aria-label": t("plan"), onsubmit: act(async () => {
      if (choice.value) await admin("PUT", `${at}/plan`, { plan: choice.value });
      else await admin("DELETE", `${at}/plan`);
      await showPlan(at, place);
      say(t("saved"));
    }),
  }, field(t("plan"), choice), el("button", { class: "main", type: "submit" }, t("save"))),
  limits.length ? table(t("limits"), [
    { label: t("meter"), cell: (l) => l.meter }, { label: t("period"), cell: (l) => l.period },
    { label: t("amount"), cell: (l) => String(l.amount), number: true }, { label: t("kind"), cell: (l) => l.kind },
  ], limits) : "");
}

async function showCredits(at, place) {
  const balance = el("p", { id: "balance" });
  const grants = el("div");
  place.replaceChildren(balance, grants);
  await list(grants, `${at}/credits`, {}, "grants", (items) => table(t("credits"), [
    { label: t("created-at"), cell: (g) => time(g.created_at) },
    { label: t("amount"), cell: (g) => money(g.amount_cents), number: true },
    { label: t("note"), cell: (g) => g.note },
    { label: t("ends-at"), cell: (g) => time(g.expires_at) },
  ], items), async (path) => {
    const answer = await admin("GET", path);
    balance.textContent = t("balance", { amount: money(answer.balance_cents) });
    return answer;
  });
}

function grantForm(at, show) {
  const amount = el("input", { id: "grant-amount", type: "number", min: "0.01", step: "0.01", required: true });
  const ends = el("input", { id: "grant-ends", type: "date", required: true });
  const note = el("input", { id: "grant-note", maxlength: 200 });
  let key = crypto.randomUUID(); // A form that is sent twice grants once.
  return el("form", {
    class: "form", "aria-label": t("grant"), onsubmit: act(async (event) => {
      await admin("POST", `${at}/credits`, {
        amount_cents: Math.round(100 * Number(amount.value)), expires_at: `${ends.value}T00:00:00Z`, note: note.value, idempotency_key: key,
      });
      key = crypto.randomUUID();
      event.target.reset();
      await show();
      say(t("granted"));
    }),
  }, field(t("amount-dollars"), amount), field(t("ends-at"), ends), field(t("note"), note),
  el("button", { class: "main", type: "submit" }, t("grant")));
}

async function showUsage(place) {
  const from = `${new Date().toISOString().slice(0, 8)}01T00:00:00Z`;
  const sums = new Map();
  let cursor = "";
  for (let page = 0; page < maxPages; page++) {
    const answer = await admin("GET", query("/admin/v1/usage", { organization_id: acting.organization, from, limit: 200, cursor }));
    for (const row of answer.usage) sums.set(row.metric, (sums.get(row.metric) ?? 0) + row.count);
    cursor = answer.next_cursor;
    if (!cursor) break;
  }
  const rows = [...sums].sort(([a], [b]) => a.localeCompare(b));
  place.replaceChildren(
    cursor ? el("p", {}, t("usage-cut", { rows: 200 * maxPages })) : "",
    rows.length ? table(t("usage"), [
      { label: t("meter"), cell: ([metric]) => metric }, { label: t("count"), cell: ([, count]) => String(count), number: true },
    ], rows) : el("p", {}, t("nothing")));
}

// maxPages bounds how many pages of usage are added up, 200 rows each.
const maxPages = 25;

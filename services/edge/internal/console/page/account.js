// What an organization has: its plan, its rate limit, its credits, and what it has used this month. What is used of the plan
// is the view of limits.

import { acting, admin } from "./acting.js";
import { query } from "./api.js";
import { el, field, table } from "./dom.js";
import { list, say, submit } from "./page.js";
import { planChoice } from "./plans.js";
import { rateFields } from "./ratelimit.js";
import { money, price, t, time } from "./text.js";

export async function account(content) {
  const at = `/admin/v1/organizations/${encodeURIComponent(acting.organization)}`;
  const plan = el("div", { id: "plan" });
  const rate = el("div", { id: "rate" });
  const credits = el("div", { id: "credits" });
  const usage = el("div", { id: "usage" });
  content.append(el("h2", {}, t("plan")), plan, el("h2", {}, t("rate-limit")), rate, el("h2", {}, t("credits")), grantForm(at, () => showCredits(at, credits)), credits,
    el("h2", {}, t("usage")), usage);
  await Promise.all([showPlan(at, plan), showRate(`${at}/rate-limit`, rate), showCredits(at, credits), showUsage(usage)]);
}

// orNone returns what a path has, null for nothing.
function orNone(path) {
  return admin("GET", path).catch((error) => {
    if (error.status !== 404) throw error;
    return null;
  });
}

async function showPlan(at, place) {
  const own = await orNone(`${at}/plan`);
  const choice = await planChoice("plan-choice", own?.plan, t("default-plan"));
  place.replaceChildren(el("form", {
    class: "form", "aria-label": t("plan"), onsubmit: submit(async () => {
      if (choice.value) await admin("PUT", `${at}/plan`, { plan: choice.value });
      else await admin("DELETE", `${at}/plan`);
      say(t("saved"));
    }),
  }, field(t("plan"), choice), el("button", { class: "main", type: "submit" }, t("save"))));
}

async function showRate(path, place) {
  const own = await orNone(path);
  const rate = rateFields(own?.rate_limit, "rate_limit");
  place.replaceChildren(el("form", {
    class: "form", "aria-label": t("rate-limit"), onsubmit: submit(async () => {
      const limit = rate.read();
      if (limit) await admin("PUT", path, limit);
      else await admin("DELETE", path);
      say(t("saved"));
    }),
  }, rate.fields, el("button", { class: "main", type: "submit" }, t("save"))));
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
    balance.textContent = t("balance", { amount: price(Number(answer.balance_pico_usd)) });
    return answer;
  });
}

function grantForm(at, show) {
  const amount = el("input", { id: "grant-amount", name: "amount_cents", type: "number", min: "0.01", step: "0.01", required: true });
  const ends = el("input", { id: "grant-ends", name: "expires_at", type: "date", required: true });
  const note = el("input", { id: "grant-note", name: "note", maxlength: 200 });
  let key = crypto.randomUUID(); // A form that is sent twice grants once.
  return el("form", {
    class: "form", "aria-label": t("grant"), onsubmit: submit(async (event) => {
      await admin("POST", `${at}/credits`, {
        amount_cents: Math.round(100 * Number(amount.value)), expires_at: `${ends.value}T00:00:00Z`, note: note.value, idempotency_key: key,
      });
      key = crypto.randomUUID();
      event.target.reset();
      await show();
      say(t("granted"));
    }),
  }, field(t("amount-dollars"), amount), field(t("ends-at-day"), ends), field(t("note"), note),
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

// The form that changes a key: its name, its own plan, its limits and its budget.

import { admin } from "./acting.js";
import { el, field } from "./dom.js";
import { planChoice } from "./plans.js";
import { limitTable } from "./limits.js";
import { button, say, submit } from "./page.js";
import { rateFields } from "./ratelimit.js";
import { t } from "./text.js";

// changeKey shows the form of a key in a place, with what is used of the key's own plan. show shows the keys anew.
export async function changeKey(place, key, show) {
  const path = `/admin/v1/keys/${encodeURIComponent(key.id)}`;
  const name = el("input", { id: "change-name", name: "name", maxlength: 200, value: key.name });
  const plan = await planChoice("change-plan", key.plan, t("none"));
  const rate = rateFields(key.rate_limit, "rate_limit");
  const tokens = el("input", { id: "change-tpm", name: "tpm", type: "number", min: 1, step: 1, value: key.tpm });
  const budget = budgetFields(key.budget);
  const close = () => place.replaceChildren();
  const form = el("form", {
    class: "form", "aria-label": t("change-key", { name: key.name || key.id }), onsubmit: submit(async () => {
      await admin("PATCH", path, {
        name: name.value, plan: plan.value || null, rate_limit: rate.read(), tpm: tokens.value ? Number(tokens.value) : null, budget: budget.read(),
      });
      close();
      await show();
      say(t("saved"));
      document.getElementById("view").focus();
    }),
  }, field(t("name"), name), field(t("own-plan"), plan), rate.fields, field(t("tokens-minute"), tokens), budget.fields,
  el("button", { class: "main", type: "submit" }, t("save")), button(t("discard"), async () => {
    close();
    document.getElementById("view").focus();
  }));
  const usage = key.plan ? await admin("GET", `${path}/limits`) : null;
  place.replaceChildren(form, usage?.limits.length ? limitTable(usage.limits) : "");
  name.focus();
}

function budgetFields(budget) {
  const ceiling = el("input", { id: "change-budget", name: "budget", type: "number", min: 0.01, step: 0.01, value: budget ? budget.ceiling_cents / 100 : null });
  const period = el("select", { id: "change-budget-period", name: "budget.period" },
    ["day", "month", "total"].map((p) => el("option", { value: p, selected: p === (budget?.period ?? "month") }, t(`period-${p}`))));
  return {
    fields: [field(t("budget-dollars"), ceiling), field(t("budget-period"), period)],
    read: () => (ceiling.value ? { ceiling_cents: Math.round(100 * Number(ceiling.value)), period: period.value } : null),
  };
}

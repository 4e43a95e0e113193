// The budget of an organization at the gateway: what it has spent against its ceiling, and the ceiling.

import { acting } from "./acting.js";
import { send } from "./api.js";
import { el, field } from "./dom.js";
import { button, replace, say, submit } from "./page.js";
import { money, t, time } from "./text.js";

const periods = ["day", "month", "total"];

export async function budget(content) {
  const at = new URL(`gateway/v1/admin/orgs/${encodeURIComponent(acting.organization)}`, document.baseURI).pathname;
  const place = el("div", { id: "budget" });
  const editor = el("div", { id: "budget-editor" });
  const show = (spend) => {
    replace(place, facts(spend));
    return spend;
  };
  const read = async () => show(await send("GET", `${at}/spend`));
  content.append(place, button(t("refresh"), read), el("h2", {}, t("ceiling")), editor);
  editor.append(form(await read(), async (body) => {
    show(await send("PUT", `${at}/budget`, body));
    say(t("saved"));
  }));
}

function facts(spend) {
  const limited = spend.budget_ceiling_cents > 0;
  const all = [
    [t("spent"), money(spend.spent_cents)], [t("reserved"), money(spend.reserved_cents)],
    [t("ceiling"), limited ? money(spend.budget_ceiling_cents) : t("none")], [t("left"), limited ? money(spend.remaining_cents) : ""],
    [t("period"), t(`period-${spend.period}`)], [t("ends-at"), time(spend.period_end)],
    [t("sessions"), `${spend.active_sessions} (${money(spend.active_sessions_spent_cents)})`],
    [t("thresholds"), spend.thresholds.map((p) => `${p} %`).join(", ")], [t("state"), t(spend.suspended ? "suspended" : "active")],
  ];
  return el("dl", {}, all.filter(([, value]) => value).map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]).flat());
}

// form returns the form of the ceiling. save gets the body of the change.
function form(spend, save) {
  const ceiling = el("input", { id: "budget-ceiling", name: "budget_ceiling_cents", type: "number", required: true, min: 0, step: "any", value: spend.budget_ceiling_cents / 100 });
  const period = el("select", { id: "budget-period", name: "period" }, periods.map((p) => el("option", { value: p, selected: p === spend.period }, t(`period-${p}`))));
  const thresholds = el("input", { id: "budget-thresholds", name: "thresholds", value: spend.thresholds.join(", "), pattern: "[0-9, ]*" });
  const reason = el("input", { id: "budget-reason", name: "reason", maxlength: 1024 });
  return el("form", {
    class: "form", "aria-label": t("ceiling"), onsubmit: submit(async () => {
      const percent = thresholds.value.split(",").map((text) => text.trim()).filter(Boolean).map(Number);
      await save({ budget_ceiling_cents: Math.round(1e6 * Number(ceiling.value)) / 1e4, period: period.value, reason: reason.value, ...(percent.length && { thresholds: percent }) });
    }),
  }, field(t("ceiling-dollars"), ceiling), field(t("period"), period), field(t("thresholds-list"), thresholds), field(t("reason-optional"), reason),
  el("button", { class: "main", type: "submit" }, t("save")));
}

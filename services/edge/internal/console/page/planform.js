// The form of a plan with its limits.

import { el, field } from "./dom.js";
import { button, submit } from "./page.js";
import { t } from "./text.js";

const meters = ["calls", "tokens", "cents", "deliveries", "notifications"];
const periods = ["minute", "day", "month"];
const kinds = ["hard", "soft", "metered"];
const maxLimits = 20;
const picoPerDollar = 1e12;

// planForm returns the form of a plan, or of a new one. save gets name, description, prepaid and limits; cancel may be absent.
export function planForm(plan, save, cancel) {
  const name = el("input", {
    id: "plan-name", name: "plan", required: true, maxlength: 128, pattern: "[!-~]+", value: plan?.plan, readonly: Boolean(plan), autocomplete: "off", spellcheck: "false",
  });
  const description = el("input", { id: "plan-description", name: "description", maxlength: 1000, value: plan?.description });
  const prepaid = el("input", { id: "plan-prepaid", name: "prepaid", type: "checkbox", checked: plan?.prepaid });
  const limits = limitRows(plan?.limits ?? []);
  const title = plan ? t("change-plan", { plan: plan.plan }) : t("new-plan");
  return el("form", {
    class: "form", "aria-label": title, onsubmit: submit(async () => {
      await save({ name: name.value, description: description.value, prepaid: prepaid.checked, limits: limits.read() });
    }),
  }, field(t("plan"), name), field(t("note"), description),
  el("fieldset", {}, el("legend", {}, t("prepaid")), el("label", {}, prepaid, t("prepaid-means"))), limits.place,
  el("button", { class: "main", type: "submit" }, plan ? t("save") : t("new-plan")),
  cancel && button(t("discard"), async () => cancel()));
}

// limitRows returns the fields of limits, and a function that reads them.
function limitRows(limits) {
  const rows = el("div", { class: "rows" });
  const more = button(t("add-limit"), async () => {
    const row = limitRow({ meter: "calls", period: "month", kind: "hard" });
    rows.append(row);
    update();
    row.querySelector("select").focus();
  }, { id: "add-limit" });
  const place = el("fieldset", {}, el("legend", {}, t("limits")), rows, more);

  // update names the fields as errors name them.
  function update() {
    more.disabled = rows.children.length >= maxLimits;
    [...rows.children].forEach((row, i) => {
      row.setAttribute("aria-label", t("limit-number", { number: i + 1 }));
      for (const [name, input] of Object.entries(row.inputs)) input.name = `limits[${i}]${name && `.${name}`}`;
    });
  }

  function limitRow(limit) {
    const choice = (label, values, chosen) => el("select", {}, values.map((v) => el("option", { value: v, selected: v === chosen }, t(`${label}-${v}`))));
    const inputs = {
      "": choice("meter", meters, limit.meter), period: choice("period", periods, limit.period), kind: choice("kind", kinds, limit.kind),
      amount: el("input", { type: "number", required: true, min: 1, step: 1, value: limit.amount }),
      price_pico_usd: el("input", { type: "number", min: 0, max: 1000, step: "any", value: limit.price_pico_usd ? limit.price_pico_usd / picoPerDollar : null }),
    };
    const price = field(t("price-beyond"), inputs.price_pico_usd);
    const fit = () => { price.hidden = inputs.kind.value !== "metered"; };
    inputs.kind.onchange = fit;
    const row = el("div", { class: "row", role: "group" }, field(t("meter"), inputs[""]), field(t("period"), inputs.period), field(t("kind"), inputs.kind),
      field(t("amount-meter"), inputs.amount), price, button(t("remove-target"), async () => {
        row.remove();
        update();
        more.focus();
      }));
    row.inputs = inputs;
    fit();
    return row;
  }

  rows.append(...limits.map(limitRow));
  update();
  return { place, read: () => [...rows.children].map(({ inputs }) => read(inputs)) };
}

function read({ "": meter, period, kind, amount, price_pico_usd: price }) {
  const cost = kind.value === "metered" ? Math.round(picoPerDollar * Number(price.value)) : 0;
  return { meter: meter.value, period: period.value, kind: kind.value, amount: Number(amount.value), ...(cost && { price_pico_usd: cost }) };
}

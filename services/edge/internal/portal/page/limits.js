// What the organization may use by its plan, and what it has used.

import { call } from "./api.js";
import { el, table } from "./dom.js";
import { button, replace } from "./page.js";
import { money, number, price, t, time } from "./text.js";

const path = "/product/v1/_meta/limits";

export async function limits(content) {
  const place = el("div", { id: "limits" });
  const show = async () => replace(place, ...shown(await call("GET", path)));
  content.append(place, button(t("refresh"), show));
  await show();
}

function shown(answer) {
  const { plan, credits } = answer;
  return [
    el("p", {}, plan ? t("on-plan", { plan }) : t("no-plan"), answer.prepaid ? ` ${t("is-prepaid")}` : ""),
    answer.limits.length ? limitTable(answer.limits) : el("p", {}, t("no-limits")),
    ...(credits ? [el("h2", {}, t("credits")), el("p", { id: "credits-left" }, t("balance", { amount: price(Number(credits.balance_pico_usd)) }))] : []),
  ];
}

// limitTable returns the table of limits with what is used of them.
export function limitTable(limits) {
  return table(t("limits"), [
    { label: t("meter"), cell: (l) => t(`meter-${l.meter}`) },
    { label: t("period"), cell: (l) => t(`period-${l.period}`) },
    { label: t("kind"), cell: (l) => t(`kind-${l.kind}`) },
    { label: t("used"), cell: used },
    { label: t("amount"), cell: (l) => amountText(l.meter, l.amount), number: true },
    { label: t("beyond"), cell: beyond },
    { label: t("resets-at"), cell: (l) => time(l.resets_at ?? l.ends_at) },
  ], limits);
}

function used(limit) {
  const text = amountText(limit.meter, limit.used);
  return [text, el("progress", { max: limit.amount, value: Math.min(limit.used, limit.amount), "aria-label": `${t(`meter-${limit.meter}`)}: ${text}` })];
}

function beyond(limit) {
  if (!limit.overage) return "";
  const cost = Number(limit.overage_pico_usd);
  return amountText(limit.meter, limit.overage) + (cost ? ` (${price(cost)})` : "");
}

// amountText returns an amount of what a meter counts.
export function amountText(meter, amount) {
  return meter === "cents" ? money(amount) : number(amount);
}

// limitText returns a limit of a plan in words.
export function limitText(l) {
  const each = l.price_pico_usd ? `, ${t("each-beyond", { amount: price(l.price_pico_usd) })}` : "";
  return `${t(`meter-${l.meter}`)}: ${amountText(l.meter, l.amount)} / ${t(`period-${l.period}`)} (${t(`kind-${l.kind}`)}${each})`;
}

import { ai, call, query } from "./api.js";
import { el, field, table } from "./dom.js";
import { act } from "./page.js";
import { day, money, t } from "./text.js";

const groups = ["model", "provider", "key", "user", "tag"];
// maxPages bounds how many pages of rows are added up, 1,000 rows each.
const maxPages = 10;
const dayLength = 24 * 3600 * 1000;

export async function spend(content) {
  const from = el("input", { type: "date", required: true, id: "spend-from", value: new Date().toISOString().slice(0, 8) + "01" });
  const by = el("select", { id: "spend-by" }, groups.map((g) => el("option", { value: g }, t(`by-${g}`))));
  const tag = el("input", { id: "spend-tag", maxlength: 64 });
  const tagField = field(t("tag"), tag);
  tagField.hidden = true;
  by.onchange = () => { tagField.hidden = !(tag.required = by.value === "tag"); };
  const place = el("div", { id: "spend" });
  const show = async () => {
    const since = `${from.value}T00:00:00Z`;
    const group = by.value === "tag" ? `tag.${tag.value}` : by.value;
    const [days, sums] = await Promise.all([rows(since, ""), rows(since, group)]);
    place.replaceChildren(...days.length === 0 ? [el("p", {}, t("nothing"))] : [
      el("h2", {}, t("by-day")), chart(days, since), byDay(days), el("h2", {}, t(`by-${by.value}`)), byGroup(sums)]);
  };
  content.append(el("form", { class: "form", "aria-label": t("spend"), onsubmit: act(show) },
    field(t("from"), from), field(t("group-by"), by), tagField, el("button", { class: "main", type: "submit" }, t("show"))), place);
  await show();
}

async function rows(from, group) {
  const all = [];
  let cursor = "";
  for (let page = 0; page < maxPages; page++) {
    const answer = await call("GET", query(`${ai}/spend`, { from, interval: "day", group_by: group, cursor }));
    all.push(...answer.rows);
    cursor = answer.next_cursor;
    if (!cursor) return all;
  }
  throw new Error(t("too-much"));
}

function columns(label, cell) {
  return [
    { label, cell },
    { label: t("cost"), cell: (r) => money(r.cost), number: true },
    { label: t("calls"), cell: (r) => String(r.calls), number: true },
    { label: t("input-tokens"), cell: (r) => String(r.input), number: true },
    { label: t("output-tokens"), cell: (r) => String(r.output), number: true },
  ];
}

const sumOf = ({ sums }) => ({
  cost: Number(sums.cost_cents ?? 0), calls: Number(sums.calls ?? 0), input: Number(sums.input_tokens ?? 0), output: Number(sums.output_tokens ?? 0),
});

function byDay(days) {
  return table(t("spend-by-day"), columns(t("day"), (r) => day(r.start)), days.map((r) => ({ start: r.start, ...sumOf(r) })));
}

function byGroup(found) {
  const sums = new Map();
  for (const row of found) {
    const name = Object.values(row.groups).join(", ");
    const sum = sums.get(name) ?? { name, cost: 0, calls: 0, input: 0, output: 0 };
    for (const [key, value] of Object.entries(sumOf(row))) sum[key] += value;
    sums.set(name, sum);
  }
  const sorted = [...sums.values()].sort((a, b) => b.cost - a.cost);
  return table(t("spend-by-group"), columns(t("group"), (r) => r.name || t("none")), sorted);
}

// chart draws the cost of each day. The table below has the same numbers.
function chart(days, from) {
  const costs = new Map(days.map((r) => [r.start.slice(0, 10), sumOf(r).cost]));
  const dates = [];
  for (let at = Date.parse(from); at <= Date.now() && dates.length < 92; at += dayLength) dates.push(new Date(at).toISOString().slice(0, 10));
  const highest = Math.max(...costs.values(), 0);
  if (!highest) return el("p", {}, t("nothing"));
  const width = 10 * dates.length;
  return el("svg", { viewBox: `0 0 ${width} 100`, role: "img", preserveAspectRatio: "none", "aria-label": t("chart", { highest: money(highest) }) },
    dates.map((date, i) => {
      const height = 96 * (costs.get(date) ?? 0) / highest;
      return el("rect", { x: 10 * i + 1, y: 98 - height, width: 8, height }, el("title", {}, `${day(date)}: ${money(costs.get(date) ?? 0)}`));
    }),
    el("line", { x1: 0, x2: width, y1: 98.5, y2: 98.5 }));
}

// The plans and their limits.

import { admin } from "./acting.js";
import { el, table } from "./dom.js";
import { list } from "./page.js";
import { t, time } from "./text.js";

export async function plans(content) {
  const place = el("div", { id: "plans" });
  content.append(place);
  await list(place, "/admin/v1/plans", {}, "plans", (items) => table(t("plans"), columns(), items), (path) => admin("GET", path));
}

function columns() {
  return [
    { label: t("plan"), cell: (p) => p.plan },
    { label: t("note"), cell: (p) => p.description },
    { label: t("prepaid"), cell: (p) => t(p.prepaid ? "yes" : "no") },
    { label: t("limits"), cell: (p) => p.limits.map((l) => `${l.amount} ${l.meter}/${l.period} (${l.kind})`).join(", ") },
    { label: t("changed-at"), cell: (p) => time(p.updated_at) },
  ];
}

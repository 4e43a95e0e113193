// Who has changed what: keys, plans and limits, and all that operators do in an organization's place.

import { acting, admin } from "./acting.js";
import { el, table } from "./dom.js";
import { list } from "./page.js";
import { t, time } from "./text.js";

export async function audit(content) {
  const place = el("div", { id: "audit" });
  content.append(place);
  await list(place, "/admin/v1/audit", { organization_id: acting.organization }, "entries",
    (items) => table(t("audit"), columns(), items), (path) => admin("GET", path));
}

function columns() {
  return [
    { label: t("time"), cell: (e) => time(e.occurred_at) },
    { label: t("actor"), cell: (e) => e.actor },
    { label: t("action"), cell: (e) => e.action },
    { label: t("organization"), cell: (e) => e.organization_id },
    { label: t("key"), cell: (e) => e.key_id },
    { label: t("details"), cell: (e) => Object.entries(e.details).map(([name, value]) => `${name} ${typeof value === "object" ? JSON.stringify(value) : value}`).join(", ") },
  ];
}

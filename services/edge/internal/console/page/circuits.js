// The targets of webhooks, with the states of their circuits.

import { admin } from "./acting.js";
import { el, field, table } from "./dom.js";
import { go } from "./organizations.js";
import { button, list, refresher, statusText } from "./page.js";
import { t, time } from "./text.js";

// broken are the states in which deliveries wait.
const broken = "broken";
const states = { [broken]: ["open", "half_open"], open: "open", half_open: "half_open", closed: "closed", "": "" };

export async function circuits(content) {
  const place = el("div", { id: "circuits" });
  const organization = el("input", { id: "circuit-organization", maxlength: 128, autocomplete: "off", spellcheck: "false" });
  const state = el("select", { id: "circuit-state" }, Object.keys(states).map((s) => el("option", { value: s }, s === broken ? t("circuit-broken") : s || t("all"))));
  const show = () => {
    const one = organization.value.trim();
    return list(place, "/webhooks/circuits", { state: states[state.value], ...(one ? { organization_id: one } : { all_organizations: true }) },
      "circuits", (items) => table(t("circuits"), columns(), items), (path) => admin("GET", path));
  };
  const refresh = refresher(show);
  state.onchange = refresh;
  content.append(el("form", { class: "form", "aria-label": t("circuits"), onsubmit: refresh },
    field(t("organization-optional"), organization), field(t("state"), state), el("button", { type: "submit", id: "refresh" }, t("refresh"))), place);
  await show();
}

function columns() {
  return [
    { label: t("organization"), cell: (c) => c.organization_id },
    { label: t("circuit-target"), cell: (c) => `${c.host}:${c.port}` },
    { label: t("state"), cell: (c) => statusText(c.state) },
    { label: t("circuit-host"), cell: (c) => statusText(c.host_state) },
    { label: t("circuit-flows"), cell: (c) => String(c.waiting_flows), number: true },
    { label: t("opened-at"), cell: (c) => time(c.opened_at) },
    { label: t("next-attempt"), cell: (c) => time(c.next_attempt_at) },
    { label: t("openings"), cell: (c) => String(c.openings), number: true },
    { label: t("failures-in-a-row"), cell: (c) => String(c.consecutive_failures), number: true },
    { label: t("last-failed"), cell: (c) => time(c.last_failed_at) },
    { label: t("last-delivered"), cell: (c) => time(c.last_delivered_at) },
    { label: t("endpoints"), cell: (c) => String(c.endpoints), number: true },
    { label: t("actions"), cell: (c) => button(t("open"), () => go({ organization: c.organization_id }, "endpoints"), { "aria-label": `${t("open")}: ${c.organization_id} ${c.host}:${c.port}` }) },
  ];
}

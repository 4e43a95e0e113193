// The approvals of an organization, and the operator's decisions on them. Control puts the operator's name to a decision.

import { ai, call } from "./api.js";
import { el, field, table } from "./dom.js";
import { act, button, list, say, statusText } from "./page.js";
import { t, time } from "./text.js";

const path = `${ai}/approvals`;
const statuses = ["pending", "approved", "denied", "expired", ""];

export async function approvals(content) {
  const place = el("div", { id: "approvals" });
  const filter = el("select", { id: "approval-status" }, statuses.map((s) => el("option", { value: s }, s || t("all"))));
  const reason = el("input", { id: "approval-reason", maxlength: 1024 });
  const show = () => list(place, path, { status: filter.value }, "approvals", (items) => table(t("approvals"), columns(decide), items));

  // decide approves or denies, for the reason in the form.
  async function decide(approval, decision) {
    await call("POST", `${path}/${encodeURIComponent(approval.ref)}/${decision}`, { reason: reason.value });
    reason.value = "";
    await show();
    say(t(`${decision}-done`));
  }

  filter.onchange = act(show);
  content.append(el("form", { class: "form", "aria-label": t("approvals"), onsubmit: act(show) },
    field(t("status"), filter), field(t("reason-optional"), reason), el("button", { type: "submit" }, t("refresh"))), place);
  await show();
}

function columns(decide) {
  return [
    { label: t("time"), cell: (a) => time(a.created_at) },
    { label: t("tool"), cell: (a) => [a.tool, a.server_id].filter(Boolean).join(" · ") },
    { label: t("arguments"), cell: (a) => (a.arguments === null ? "" : el("pre", {}, JSON.stringify(a.arguments))) },
    { label: t("description"), cell: (a) => a.description },
    { label: t("requested-by"), cell: (a) => [a.requested_by, a.run_id].filter(Boolean).join(" · ") },
    { label: t("status"), cell: (a) => statusText(a.status) },
    { label: t("ends-at"), cell: (a) => time(a.expires_at) },
    { label: t("decided-by"), cell: (a) => [a.decided_by, a.reason].filter(Boolean).join(": ") },
    { label: t("actions"), cell: (a) => (a.status === "pending" ? el("div", { class: "actions" }, ["approve", "deny"].map((decision) =>
      button(t(decision), () => decide(a, decision), { "aria-label": `${t(decision)}: ${a.tool} ${a.ref}` }))) : "") },
  ];
}

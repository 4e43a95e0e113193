// The approvals of an organization: what waits for a decision, what was decided, and what is approved in advance. Control puts
// the name of the session's person to a decision.

import { ai, call } from "./api.js";
import { el, field, table } from "./dom.js";
import { act, button, list, may, refresher, say, state, statusText } from "./page.js";
import { money, t, time, visible } from "./text.js";

const path = `${ai}/approvals`;
const standingPath = `${ai}/standing-approvals`;
const statuses = ["pending", "approved", "denied", "expired", "superseded", ""];

// person returns who decides in this session; empty if it names no one.
const person = () => state.session.operator || state.session.user_id || "";
const mayDecide = () => may("ai:approvals:decide") && person() !== "";

export async function approvals(content) {
  const place = el("div", { id: "approvals" });
  const standing = el("div", { id: "standing-approvals" });
  const filter = el("select", { id: "approval-status" }, statuses.map((s) => el("option", { value: s }, s || t("all"))));
  const reason = el("input", { id: "approval-reason", maxlength: 1024 });
  const show = () => list(place, path, { status: filter.value }, "approvals", (items) => el("div", {}, items.map((a) => approval(a, decide))));
  const showStanding = () => list(standing, standingPath, {}, "standing_approvals", (items) => table(t("standing-approvals"), standingColumns(end), items));

  // decide approves or denies, for the reason in the form.
  async function decide(one, decision) {
    await call("POST", `${path}/${encodeURIComponent(one.ref)}/${decision}`, { reason: reason.value });
    reason.value = "";
    await show();
    say(t(`${decision}-done`));
  }

  async function end(one) {
    if (!confirm(t("end-standing-approval", { name: name(one) }))) return;
    await call("DELETE", `${standingPath}/${encodeURIComponent(one.standing_id)}`);
    await showStanding();
    say(t("standing-approval-ended"));
  }

  filter.onchange = refresher(show);
  content.append(el("p", {}, standingOf()), el("form", { class: "form", "aria-label": t("approvals"), onsubmit: act(show) },
    field(t("status"), filter), mayDecide() && field(t("reason-optional"), reason), el("button", { type: "submit" }, t("refresh"))),
  place, el("h2", {}, t("standing-approvals")), el("p", {}, t("standing-approvals-about")), standing);
  await Promise.all([show(), showStanding()]);
}

// standingOf says what the session may do.
function standingOf() {
  if (mayDecide()) return t("approvals-decide-as", { person: visible(person()) });
  return t(may("ai:approvals:decide") ? "approvals-no-person" : "approvals-read-only");
}

const name = (of) => visible([of.server_id, of.tool].filter(Boolean).join("/"));

// asker returns who asks. The id of a key says something to operators only.
const asker = ({ requested_by: by }) => (by.startsWith("key_") && !state.session.operator ? "" : by);

// approval shows one approval. What callers and servers say is shown so that no character hides.
function approval(a, decide) {
  const title = name(a);
  const call = a.call;
  return el("section", { class: "card", "aria-label": `${title} ${a.ref}` },
    el("h2", {}, title),
    call?.unknown_ref && el("p", { class: "fault" }, t("approval-unknown", { ref: call.unknown_ref })),
    facts([
      [t("status"), statusText(a.status)],
      [t("requested-by"), visible([asker(a), a.run_id].filter(Boolean).join(" · "))],
      [t("arguments"), a.arguments === null ? "" : el("pre", {}, visible(JSON.stringify(a.arguments, null, 1)))],
      [t("redacted"), call?.redacted.join(", ")],
      [t("description"), visible(a.description)],
      [t("tool-price"), call && money(call.price_cents)],
      [t("approval-rule"), call && t("approval-rule-of", { rule: call.rule, group: call.approvers })],
      [t("definition-reviewed-by"), visible(call?.definition_reviewed_by ?? "")],
      [t("created-at"), time(a.created_at)],
      [t("ends-at"), a.decided_at ? "" : time(a.expires_at)],
      [t("decided-by"), a.decided_by && visible([a.decided_by, a.reason].filter(Boolean).join(": "))],
      [t("decided-at"), time(a.decided_at)],
      [t("decided-via"), a.decided_via],
      [t("approval-call"), call && a.status === "approved" && t(`call-${call.state}`)],
    ]),
    a.status === "pending" && mayDecide() && buttons(a, title, decide));
}

// buttons returns those that decide; who asks does not decide, and the gateway knows more of who stands behind a call.
function buttons(a, title, decide) {
  if (a.requested_by.trim().toLowerCase() === person().toLowerCase()) return el("p", {}, t("approval-own"));
  return el("div", { class: "actions" }, ["approve", "deny"].map((decision) =>
    button(t(decision), () => decide(a, decision), { class: decision === "approve" && "main", "aria-label": `${t(decision)}: ${title} ${a.ref}` })));
}

function facts(rows) {
  return el("dl", {}, rows.filter(([, value]) => value).flatMap(([label, value]) => [el("dt", {}, label), el("dd", {}, value)]));
}

function standingColumns(end) {
  return [
    { label: t("tool"), cell: name },
    { label: t("condition"), cell: (s) => el("pre", {}, visible(s.when)) },
    { label: t("used"), cell: (s) => t("used-of", { used: s.used, uses: s.uses }) },
    { label: t("status"), cell: (s) => statusText(s.status) },
    { label: t("approved-by"), cell: (s) => visible([s.created_by, s.reason].filter(Boolean).join(": ")) },
    { label: t("created-at"), cell: (s) => time(s.created_at) },
    { label: t("ends-at"), cell: (s) => (s.revoked_at ? `${time(s.revoked_at)}, ${visible(s.revoked_by)}` : time(s.expires_at)) },
    ...(mayDecide() ? [{ label: t("actions"), cell: (s) => (s.status === "active" ? button(t("end"), () => end(s), { "aria-label": `${t("end")}: ${name(s)} ${s.standing_id}` }) : "") }] : []),
  ];
}

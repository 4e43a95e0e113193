import { call, webhooks } from "./api.js";
import { el, field, table } from "./dom.js";
import { button, endpointStatus, list, may, reveal, say, submit } from "./page.js";
import { t } from "./text.js";

const path = `${webhooks}/endpoints`;

export async function endpoints(content) {
  const place = el("div", { id: "endpoints" });
  const once = el("div", { id: "new-secret", role: "group", "aria-label": t("signing-secret"), hidden: true });
  const revealed = ({ generated_secret: secret }) => secret && reveal(once, "secret-text", t("signing-secret"), t("secret-once"), secret);
  const show = () => list(place, path, {}, "endpoints", (items) => table(t("endpoints"), columns(show, revealed), items));
  if (may("webhooks:endpoints:write")) content.append(form(show, revealed));
  content.append(once, place);
  await show();
}

function columns(show, revealed) {
  return [
    { label: t("url"), cell: (e) => e.url },
    { label: t("event-types"), cell: (e) => e.event_types.join(", ") },
    { label: t("note"), cell: (e) => e.description },
    { label: t("state"), cell: (e) => endpointStatus(e) },
    { label: t("actions"), cell: (e) => actions(e, show, revealed) },
  ];
}

function actions(endpoint, show, revealed) {
  const at = `${path}/${encodeURIComponent(endpoint.endpoint_id)}`;
  const of = (label) => ({ "aria-label": `${label}: ${endpoint.url}` });
  const all = [];
  if (may("webhooks:deliveries:read")) {
    all.push(el("a", { href: `#/deliveries?endpoint=${encodeURIComponent(endpoint.endpoint_id)}`, ...of(t("deliveries")) }, t("deliveries")));
  }
  if (!may("webhooks:endpoints:write")) return el("div", { class: "actions" }, all);
  const next = t(endpoint.active ? "pause" : "resume");
  all.push(button(t("test"), async () => {
    const { delivery, attempt } = await call("POST", `${at}/test`, {});
    say(t("tested", { status: delivery.status, code: attempt.response_code ?? attempt.error ?? "" }));
  }, of(t("test"))));
  all.push(button(next, async () => {
    await call("PATCH", at, { active: !endpoint.active });
    await show();
    say(t("saved"));
  }, { ...of(next), id: `active-${endpoint.endpoint_id}` })); // It keeps the focus when its name changes.
  if (endpoint.signing_mode === "endpoint_body") {
    all.push(button(t("rotate-secret"), async () => {
      if (!confirm(t("rotate-secret-of", { url: endpoint.url }))) return;
      const next = await call("POST", `${at}/rotate-secret`, {});
      await show();
      say(t("secret-rotated"));
      revealed(next);
    }, of(t("rotate-secret"))));
  }
  all.push(button(t("delete"), async () => {
    if (!confirm(t("delete-endpoint", { url: endpoint.url }))) return;
    await call("DELETE", at);
    await show();
    say(t("deleted"));
  }, of(t("delete"))));
  return el("div", { class: "actions" }, all);
}

function form(show, revealed) {
  const url = el("input", { name: "url", type: "url", required: true, maxlength: 2048, placeholder: "https://", id: "endpoint-url" });
  const types = el("input", { name: "event_types", required: true, value: "*", id: "endpoint-types" });
  const note = el("input", { name: "description", maxlength: 512, id: "endpoint-note" });
  const own = el("select", { id: "endpoint-secret" }, ["own", "organization"].map((whose) => el("option", { value: whose }, t(`secret-${whose}`))));
  return el("form", {
    class: "form", "aria-label": t("new-endpoint"), onsubmit: submit(async (event) => {
      const made = await call("POST", path, {
        url: url.value, event_types: types.value.split(",").map((x) => x.trim()).filter(Boolean), description: note.value,
        ...(own.value === "own" && { signing_mode: "endpoint_body", generate_secret: true }),
      });
      event.target.reset();
      await show();
      say(t("created"));
      revealed(made);
    }),
  }, field(t("url"), url), field(t("event-types-list"), types), field(t("note"), note), field(t("signing-secret"), own),
  el("button", { class: "main", type: "submit" }, t("new-endpoint")));
}

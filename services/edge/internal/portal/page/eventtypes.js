import { call, query, webhooks } from "./api.js";
import { el, field, table } from "./dom.js";
import { act, button, list, may, say } from "./page.js";
import { t } from "./text.js";

const path = `${webhooks}/event-types`;

// eventTypes shows the registered types; the name of each leads to its schema and examples.
export async function eventTypes(content) {
  const place = el("div", { id: "event-types" });
  const origin = el("select", { id: "event-type-origin" }, ["", "organization", "switchyard"]
    .map((o) => el("option", { value: o }, t(`origin-${o || "all"}`))));
  const show = () => list(place, path, { origin: origin.value }, "event_types", (items) => table(t("event-types"), columns(), items));
  origin.onchange = act(show);
  content.append(el("div", { class: "form" }, field(t("origin"), origin)), place);
  await show();
}

function columns() {
  return [
    { label: t("event-type"), cell: (e) => el("a", { href: `#/event-types/${encodeURIComponent(e.type)}` }, e.type) },
    { label: t("description"), cell: (e) => e.description },
    { label: t("state"), cell: (e) => e.deprecated ? t("deprecated") : "" },
    { label: t("validation"), cell: (e) => e.has_schema ? t(`validation-${e.validation}`) : "" },
    { label: t("origin"), cell: (e) => t(`origin-${e.origin}`) },
  ];
}

// eventType shows one type: its schema, and its examples, which can be sent to an endpoint as a test.
export async function eventType(content, name) {
  const type = await call("GET", `${path}/${encodeURIComponent(name)}`);
  const rows = [
    [t("event-type"), type.type], [t("description"), type.description], [t("state"), type.deprecated ? t("deprecated") : t("active")],
    [t("validation"), type.schema === null ? "" : t(`validation-${type.validation}`)], [t("origin"), t(`origin-${type.origin}`)],
  ];
  content.append(
    el("p", {}, el("a", { href: "#/event-types" }, t("all-event-types"))),
    el("dl", { id: "event-type" }, rows.flatMap(([term, value]) => [el("dt", {}, term), el("dd", {}, value)])),
    el("h2", {}, t("schema")), type.schema === null ? el("p", {}, t("no-schema")) : json(type.schema, t("schema"), "event-type-schema"),
    el("h2", {}, t("examples")), ...(type.examples.length ? [] : [el("p", {}, t("nothing"))]),
  );
  const receivers = await testable(type);
  for (const [i, example] of type.examples.entries()) {
    const label = t("example", { number: i + 1 });
    content.append(json(example, label, `event-type-example-${i + 1}`));
    if (receivers.length) content.append(sender(type.type, example, receivers, label));
  }
}

// json shows a value; it can be scrolled by keyboard.
function json(value, label, id) {
  return el("pre", { id, tabindex: "0", role: "region", "aria-label": label }, JSON.stringify(value, null, 2));
}

// testable returns endpoints that an example may be sent to. Only Switchyard itself sends events of its own types.
async function testable(type) {
  if (type.origin !== "organization" || !may("webhooks:endpoints:read") || !may("webhooks:endpoints:write")) return [];
  const page = await call("GET", query(`${webhooks}/endpoints`, { event_type: type.type, limit: 200 }));
  return page.endpoints;
}

function sender(type, example, receivers, label) {
  const to = el("select", {}, receivers.map((e) => el("option", { value: e.endpoint_id }, e.url)));
  return el("div", { class: "form" }, field(t("to-endpoint", { example: label }), to), button(t("test"), async () => {
    const { delivery, attempt } = await call("POST", `${webhooks}/endpoints/${encodeURIComponent(to.value)}/test`, { event_type: type, payload: example });
    say(t("tested", { status: delivery.status, code: attempt.response_code ?? attempt.error ?? "" }));
  }, { "aria-label": `${t("test")}: ${label}` }));
}

import { call } from "./api.js";
import { el, field, table } from "./dom.js";
import { button, list, may, reveal, say, state, submit } from "./page.js";
import { t, time } from "./text.js";

// ofSession are the session's keys: how they are called, what they may be created with, and which of them may be replaced.
// more(key, show), which may be absent, returns further actions of a key.
const ofSession = () => ({
  send: call, path: "/keys", writes: may("keys:write"), fields: {}, columns: [],
  products: state.session.products, permissions: state.session.scopes.filter((s) => !s.startsWith("keys:")),
  mayRotate: (key) => key.permissions.every(may),
});

// keys shows keys. from, which the console gives, says which.
export async function keys(content, parameters, from = ofSession()) {
  const place = el("div", { id: "keys" });
  const once = el("div", { id: "new-key", role: "group", "aria-label": t("new-key"), hidden: true });
  const revealed = ({ key }) => reveal(once, "key-text", t("new-key"), t("key-once"), key);
  const show = () => list(place, from.path, from.parameters?.() ?? {}, "keys",
    (items) => table(t("keys"), columns(from, show, revealed), items), (path) => from.send("GET", path));
  if (from.writes) content.append(form(from, show, revealed));
  content.append(once, place);
  await show();
}

function columns(from, show, revealed) {
  return [
    ...from.columns,
    { label: t("name"), cell: (k) => k.name || k.id },
    { label: t("product"), cell: (k) => k.product },
    { label: t("permissions"), cell: (k) => k.permissions.join(", ") },
    { label: t("created-at"), cell: (k) => time(k.created_at) },
    { label: t("last-used"), cell: (k) => time(k.last_used_at) },
    { label: t("state"), cell: (k) => stateOf(k) },
    { label: t("actions"), cell: (k) => actions(from, k, show, revealed) },
  ];
}

function stateOf(key) {
  if (key.revoked_at) return t("revoked");
  if (key.expires_at) return t("ends", { time: time(key.expires_at) });
  return t("active");
}

function actions(from, key, show, revealed) {
  if (!from.writes || key.revoked_at) return "";
  const of = (label) => ({ "aria-label": `${label}: ${key.name || key.id}` });
  const all = [];
  if (from.mayRotate(key) && !key.replaced_by) {
    all.push(button(t("rotate"), async () => {
      const next = await from.send("POST", `${from.path}/${encodeURIComponent(key.id)}/rotate`, {});
      await show();
      say(t("rotated"));
      revealed(next);
    }, of(t("rotate"))));
  }
  all.push(button(t("revoke"), async () => {
    if (!confirm(t("revoke-key", { name: key.name || key.id }))) return;
    await from.send("DELETE", `${from.path}/${encodeURIComponent(key.id)}`);
    await show();
    say(t("revoked"));
  }, of(t("revoke"))));
  return el("div", { class: "actions" }, from.more?.(key, show), all);
}

function form(from, show, revealed) {
  const name = el("input", { maxlength: 200, id: "key-name", name: "name" });
  const product = el("select", { required: true, id: "key-product", name: "product" }, from.products.map((p) => el("option", { value: p }, p)));
  const boxes = from.permissions.map((s) => el("input", { type: "checkbox", value: s }));
  return el("form", {
    class: "form", "aria-label": t("new-key"), onsubmit: submit(async (event) => {
      const permissions = boxes.filter((b) => b.checked).map((b) => b.value);
      const fields = Object.fromEntries(Object.entries(from.fields).map(([field, input]) => [field, input.value]));
      const key = await from.send("POST", from.path, { ...fields, name: name.value, product: product.value, permissions });
      event.target.reset();
      await show();
      say(t("created"));
      revealed(key);
    }),
  }, Object.entries(from.fields).map(([label, input]) => field(t(label), input)), field(t("name"), name), field(t("product"), product),
  el("fieldset", {}, el("legend", {}, t("permissions")), boxes.map((b) => el("label", {}, b, b.value))),
  el("button", { class: "main", type: "submit" }, t("new-key")));
}

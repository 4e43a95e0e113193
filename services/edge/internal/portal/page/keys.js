import { call } from "./api.js";
import { el, field, table } from "./dom.js";
import { act, button, list, may, reveal, say, state } from "./page.js";
import { t, time } from "./text.js";

export async function keys(content) {
  const place = el("div", { id: "keys" });
  const once = el("div", { id: "new-key", role: "group", "aria-label": t("new-key"), hidden: true });
  const revealed = ({ key }) => reveal(once, "key-text", t("new-key"), t("key-once"), key);
  const show = () => list(place, "/keys", {}, "keys", (items) => table(t("keys"), columns(show, revealed), items));
  if (may("keys:write")) content.append(form(show, revealed));
  content.append(once, place);
  await show();
}

function columns(show, revealed) {
  return [
    { label: t("name"), cell: (k) => k.name || k.id },
    { label: t("product"), cell: (k) => k.product },
    { label: t("permissions"), cell: (k) => k.permissions.join(", ") },
    { label: t("created-at"), cell: (k) => time(k.created_at) },
    { label: t("last-used"), cell: (k) => time(k.last_used_at) },
    { label: t("state"), cell: (k) => stateOf(k) },
    { label: t("actions"), cell: (k) => actions(k, show, revealed) },
  ];
}

function stateOf(key) {
  if (key.revoked_at) return t("revoked");
  if (key.expires_at) return t("ends", { time: time(key.expires_at) });
  return t("active");
}

function actions(key, show, revealed) {
  if (!may("keys:write") || key.revoked_at) return "";
  const of = (label) => ({ "aria-label": `${label}: ${key.name || key.id}` });
  const all = [];
  if (key.permissions.every(may) && !key.replaced_by) {
    all.push(button(t("rotate"), async () => {
      const next = await call("POST", `/keys/${encodeURIComponent(key.id)}/rotate`, {});
      await show();
      say(t("rotated"));
      revealed(next);
    }, of(t("rotate"))));
  }
  all.push(button(t("revoke"), async () => {
    if (!confirm(t("revoke-key", { name: key.name || key.id }))) return;
    await call("DELETE", `/keys/${encodeURIComponent(key.id)}`);
    await show();
    say(t("revoked"));
  }, of(t("revoke"))));
  return el("div", { class: "actions" }, all);
}

function form(show, revealed) {
  const { products, scopes } = state.session;
  const name = el("input", { maxlength: 200, id: "key-name" });
  const product = el("select", { required: true, id: "key-product" }, products.map((p) => el("option", { value: p }, p)));
  const boxes = scopes.filter((s) => !s.startsWith("keys:")).map((s) => el("input", { type: "checkbox", value: s }));
  return el("form", {
    class: "form", "aria-label": t("new-key"), onsubmit: act(async (event) => {
      const permissions = boxes.filter((b) => b.checked).map((b) => b.value);
      const key = await call("POST", "/keys", { name: name.value, product: product.value, permissions });
      event.target.reset();
      await show();
      say(t("created"));
      revealed(key);
    }),
  }, field(t("name"), name), field(t("product"), product),
  el("fieldset", {}, el("legend", {}, t("permissions")), boxes.map((b) => el("label", {}, b, b.value))),
  el("button", { class: "main", type: "submit" }, t("new-key")));
}

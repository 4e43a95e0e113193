// The keys of all organizations, or of the chosen one.

import { acting, admin } from "./acting.js";
import { changeKey } from "./changekey.js";
import { el } from "./dom.js";
import { keys } from "./keys.js";
import { button, state } from "./page.js";
import { rateText } from "./ratelimit.js";
import { t } from "./text.js";

export function allKeys(content, parameters) {
  const organization = el("input", { id: "key-organization", name: "organization_id", required: true, maxlength: 256, value: acting.organization, pattern: "[!-~]+" });
  const editor = el("div", { id: "key-editor" });
  content.append(editor);
  return keys(content, parameters, {
    send: admin, path: "/admin/v1/keys", writes: true,
    parameters: () => ({ organization_id: acting.organization }),
    fields: { organization_id: organization },
    columns: [
      { label: t("organization"), cell: (k) => k.organization_id }, { label: t("plan"), cell: (k) => k.plan ?? "" },
      { label: t("rate-limit"), cell: (k) => rateText(k.rate_limit) },
    ],
    products: state.session.products, permissions: state.session.permissions,
    mayRotate: () => true,
    more: (key, show) => [button(t("change"), () => changeKey(editor, key, show), { "aria-label": `${t("change")}: ${key.name || key.id}` })],
  });
}

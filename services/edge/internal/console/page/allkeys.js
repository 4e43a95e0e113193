// The keys of all organizations, or of the chosen one.

import { acting, admin } from "./acting.js";
import { el } from "./dom.js";
import { keys } from "./keys.js";
import { state } from "./page.js";
import { t } from "./text.js";

export function allKeys(content, parameters) {
  const organization = el("input", { id: "key-organization", required: true, maxlength: 256, value: acting.organization, pattern: "[!-~]+" });
  return keys(content, parameters, {
    send: admin, path: "/admin/v1/keys", writes: true,
    parameters: () => ({ organization_id: acting.organization }),
    fields: { organization_id: organization },
    columns: [{ label: t("organization"), cell: (k) => k.organization_id }],
    products: state.session.products, permissions: state.session.permissions,
    mayRotate: () => true,
  });
}

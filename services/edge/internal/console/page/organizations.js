// The organizations, and the choice of one.

import { acting, admin, choose } from "./acting.js";
import { el, field, table } from "./dom.js";
import { route } from "./frame.js";
import { act, button, list, refresher, say } from "./page.js";
import { t } from "./text.js";

export async function organizations(content) {
  const place = el("div", { id: "organizations" });
  // show lists the organizations whose names begin with a text, page by page.
  const show = (prefix) => list(place, "/organizations", { prefix }, "organizations",
    (items) => table(t("organizations"), columns(), items), (path) => admin("GET", path));
  content.append(picker(show), place);
  await show("");
}

// picker chooses an organization. What is typed as its name narrows the list that show shows.
function picker(show) {
  const input = (name) => el("input", { id: `acting-${name}`, maxlength: 256, value: acting[name], autocomplete: "off", spellcheck: "false", pattern: "[!-~]*" });
  const fields = { organization: input("organization"), owner: input("owner"), user: input("user") };
  fields.organization.setAttribute("aria-controls", "organizations");
  fields.organization.oninput = refresher(async () => {
    await show(fields.organization.value.trim());
    const found = document.querySelectorAll("#organizations tbody tr").length;
    say(t(document.querySelector("#organizations > button") ? "organizations-shown-more" : "organizations-shown", { count: found }));
  });
  return el("form", {
    class: "form", "aria-label": t("act-for"), onsubmit: act(async () => {
      await go(Object.fromEntries(Object.entries(fields).map(([name, { value }]) => [name, value])));
    }),
  }, field(t("organization"), fields.organization), field(t("owner-optional"), fields.owner), field(t("user-optional"), fields.user),
  el("button", { class: "main", type: "submit" }, t("act-for")));
}

// go acts for an organization and shows a view of it.
export async function go(whom, view = "account") {
  choose(whom);
  if (!whom.organization) view = "organizations";
  if (location.hash === `#/${view}`) await route(true);
  else location.hash = `#/${view}`;
}

function columns() {
  return [
    { label: t("organization"), cell: (o) => o.organization_id },
    { label: t("plan"), cell: (o) => o.plan },
    { label: t("actions"), cell: (o) => button(t("act-for"), () => go({ organization: o.organization_id }), { "aria-label": `${t("act-for")}: ${o.organization_id}` }) },
  ];
}

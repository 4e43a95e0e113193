// The plans: all of them, the form of one, and their deletion.

import { admin } from "./acting.js";
import { el, table } from "./dom.js";
import { limitText } from "./limits.js";
import { button, list, say } from "./page.js";
import { planForm } from "./planform.js";
import { t, time } from "./text.js";

export async function plans(content) {
  const editor = el("div", { id: "plan-editor" });
  const place = el("div", { id: "plans" });
  const at = (plan) => `/admin/v1/plans/${encodeURIComponent(plan)}`;
  const show = () => list(place, "/admin/v1/plans", {}, "plans", (items) => table(t("plans"), columns(), items), (path) => admin("GET", path));

  // edit shows the form for a plan, or for a new one.
  function edit(plan) {
    editor.replaceChildren(planForm(plan, async ({ name, ...body }) => {
      if (!plan && await exists(at(name))) throw new Error(`plan: ${t("plan-exists")}`);
      await admin("PUT", at(name), body);
      await show();
      edit();
      say(t(plan ? "saved" : "created"));
    }, plan && (() => edit())));
    if (plan) editor.querySelector("input:not([readonly])").focus();
  }

  function columns() {
    return [
      { label: t("plan"), cell: (p) => p.plan },
      { label: t("note"), cell: (p) => p.description },
      { label: t("prepaid"), cell: (p) => t(p.prepaid ? "yes" : "no") },
      { label: t("limits"), cell: (p) => p.limits.map((l) => el("div", {}, limitText(l))) },
      { label: t("changed-at"), cell: (p) => time(p.updated_at) },
      { label: t("actions"), cell: actions },
    ];
  }

  function actions(plan) {
    const of = (label) => ({ "aria-label": `${label}: ${plan.plan}` });
    return el("div", { class: "actions" },
      button(t("change"), async () => edit(plan), of(t("change"))),
      button(t("delete"), async () => {
        if (!confirm(t("delete-plan", { plan: plan.plan }))) return;
        await admin("DELETE", at(plan.plan));
        await show();
        edit();
        say(t("deleted"));
      }, of(t("delete"))));
  }

  edit();
  content.append(editor, place);
  await show();
}

// exists reports whether there is a plan at a path: to write it would replace it.
async function exists(path) {
  try {
    await admin("GET", path);
    return true;
  } catch (error) {
    if (error.status === 404) return false;
    throw error;
  }
}

// planChoice returns a choice among all plans and none, of which one is chosen.
export async function planChoice(id, chosen, none) {
  const names = [];
  for (let cursor = ""; ;) {
    const page = await admin("GET", `/admin/v1/plans?limit=200${cursor && `&cursor=${encodeURIComponent(cursor)}`}`);
    names.push(...page.plans.map((p) => p.plan));
    cursor = page.next_cursor;
    if (!cursor) break;
  }
  return el("select", { id, name: "plan" }, el("option", { value: "" }, none),
    names.map((name) => el("option", { value: name, selected: name === chosen }, name)));
}

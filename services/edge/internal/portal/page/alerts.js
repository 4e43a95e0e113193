// The rules by which people are told of events of the organization. Each change replaces all rules, as the operation does.

import { call } from "./api.js";
import { el, table } from "./dom.js";
import { button, may, replace, say } from "./page.js";
import { ruleForm } from "./alertform.js";
import { typeText } from "./alerttype.js";
import { t } from "./text.js";

const path = "/product/v1/alerts/rules";

export async function alerts(content) {
  const editor = el("div", { id: "alert-editor" });
  const place = el("div", { id: "alert-rules" });
  const write = may("alerts:rules:write");
  const show = (rules) => replace(place, rules.length ? table(t("alerts"), columns(rules), rules) : el("p", {}, t("nothing")));
  const read = async () => (await call("GET", path)).rules;

  // change reads the rules, replaces them with those that a function makes of them, and shows them.
  async function change(of, done) {
    const { rules } = await call("PUT", path, { rules: of(await read()) });
    show(rules);
    say(t(done));
  }

  // edit shows the form for a rule, or for a new one.
  function edit(rule) {
    editor.replaceChildren(ruleForm(rule, async (made) => {
      await change((rules) => put(rules, rule?.name, made), rule ? "saved" : "created");
      edit();
    }, rule && (() => edit())));
    if (rule) editor.querySelector("input").focus();
  }

  function columns(rules) {
    return [
      { label: t("name"), cell: (r) => r.name },
      { label: t("alert-types"), cell: (r) => r.types.map(typeText).join(", ") },
      { label: t("condition"), cell: (r) => Object.entries(r.where ?? {}).map(([name, value]) => `${name} = ${value}`).join(", ") },
      { label: t("alert-to"), cell: (r) => r.to.map(targetText).join(", ") },
      { label: t("repeat-after"), cell: (r) => r.repeat_after ?? t("repeat-always") },
      { label: t("state"), cell: (r) => t(r.enabled === false ? "paused" : "active") },
      ...(write ? [{ label: t("actions"), cell: (r) => actions(r, rules.indexOf(r)) }] : []),
    ];
  }

  function actions(rule, number) {
    const of = (label) => ({ "aria-label": `${label}: ${rule.name}` });
    const next = t(rule.enabled === false ? "resume" : "pause");
    return el("div", { class: "actions" },
      button(t("change"), async () => edit(rule), of(t("change"))),
      button(next, () => change((now) => now.map((r) => (r.name === rule.name ? { ...r, enabled: rule.enabled === false } : r)), "saved"),
        { ...of(next), id: `alert-active-${number}` }), // It keeps the focus when its name changes.
      button(t("delete"), async () => {
        if (!confirm(t("delete-alert", { name: rule.name }))) return;
        await change((rules) => rules.filter((r) => r.name !== rule.name), "deleted");
        edit();
      }, of(t("delete"))));
  }

  if (write) edit();
  content.append(el("p", {}, t("alerts-about")), editor, place);
  show(await read());
}

// put returns rules in which a rule takes the place of the one with a name, or comes last.
function put(rules, name, rule) {
  if (rules.some((r) => r.name === name)) return rules.map((r) => (r.name === name ? rule : r));
  return [...rules, rule];
}

function targetText(target) {
  const to = target.user_id ?? target.email ?? target.url ?? (target.channel === "slack" ? "" : t("all-users"));
  return `${t(`channel-${target.channel}`)}${to && `: ${to}`}`;
}

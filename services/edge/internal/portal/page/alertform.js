// The form of one alert rule. What it has no fields for, such as conditions on other fields, stays as it is in the rule.

import { types, typeText, withPercent } from "./alerttype.js";
import { el, field } from "./dom.js";
import { act, button } from "./page.js";
import { t } from "./text.js";

const channels = ["in_app", "web_push", "email", "webhook", "slack"];
const pauses = ["0s", "15m", "1h", "6h", "24h", "168h"];
const maxTargets = 10;

// ruleForm returns the form of a rule, or of a new one. save gets the rule that it makes; cancel may be absent.
export function ruleForm(rule, save, cancel) {
  const name = el("input", { id: "alert-name", required: true, maxlength: 100, value: rule?.name });
  const boxes = all(types, rule?.types).map((type) => el("input", { type: "checkbox", value: type, checked: rule?.types.includes(type) }));
  const held = typeof rule?.where?.percent === "number";
  const percent = el("input", { id: "alert-percent", type: "number", min: 1, step: "any", value: held ? rule.where.percent : "" });
  const percentField = field(t("alert-percent"), percent);
  const chosen = () => boxes.filter((b) => b.checked).map((b) => b.value);
  const offer = () => { percentField.hidden = !chosen().some((type) => withPercent.includes(type)) && percent.value === ""; };
  const quiet = rule?.repeat_after ?? "0s";
  const repeat = el("select", { id: "alert-repeat" }, all(pauses, [quiet]).map((pause) =>
    el("option", { value: pause, selected: pause === quiet }, pause === "0s" ? t("repeat-always") : pause)));
  const targets = targetRows(rule?.to ?? [{ channel: "in_app" }]);
  boxes.forEach((box) => { box.onchange = offer; });
  offer();
  const title = rule ? t("change-alert", { name: rule.name }) : t("new-alert");
  return el("form", {
    class: "form", "aria-label": title, onsubmit: act(async () => {
      const where = { ...rule?.where };
      if (held) delete where.percent;
      if (percent.value !== "") where.percent = Number(percent.value);
      await save({ ...rule, name: name.value, types: chosen(), where, to: targets.read(), repeat_after: repeat.value === "0s" ? undefined : repeat.value });
    }),
  }, field(t("name"), name),
  el("fieldset", {}, el("legend", {}, t("alert-types")), boxes.map((box) => el("label", {}, box, typeText(box.value)))),
  percentField, field(t("repeat-after"), repeat), targets.place,
  el("button", { class: "main", type: "submit" }, rule ? t("save") : t("new-alert")),
  cancel && button(t("discard"), async () => cancel()));
}

const all = (offered, given = []) => [...offered, ...given.filter((value) => !offered.includes(value))];

// targetRows returns the fields of targets, and a function that reads them.
function targetRows(targets) {
  const rows = el("div", { class: "rows" });
  const more = button(t("add-target"), async () => {
    const row = targetRow({ channel: "in_app" });
    rows.append(row);
    update();
    row.querySelector("select").focus();
  });
  const place = el("fieldset", {}, el("legend", {}, t("alert-to")), rows, more);
  const update = () => {
    more.disabled = rows.children.length >= maxTargets;
    for (const row of rows.children) row.querySelector("button").hidden = rows.children.length === 1;
  };
  function targetRow(target) {
    const channel = el("select", {}, channels.map((c) => el("option", { value: c, selected: c === target.channel }, t(`channel-${c}`))));
    const to = el("input", { value: target.user_id ?? target.email ?? target.url });
    const label = field("", to);
    const fit = () => {
      label.hidden = channel.value === "slack";
      label.firstChild.textContent = t(`recipient-${channel.value}`);
      to.type = { email: "email", webhook: "url" }[channel.value] ?? "text";
      to.required = channel.value === "email" || channel.value === "webhook";
      to.maxLength = { email: 256, webhook: 2048 }[channel.value] ?? 128;
    };
    channel.onchange = () => { to.value = ""; fit(); };
    const row = el("div", { class: "row" }, field(t("channel"), channel), label, button(t("remove-target"), async () => {
      row.remove();
      update();
      more.focus();
    }));
    row.read = () => read(channel.value, to.value.trim());
    fit();
    return row;
  }
  rows.append(...targets.map(targetRow));
  update();
  return { place, read: () => [...rows.children].map((row) => row.read()) };
}

// read returns the target with a channel and a recipient, which may be empty for all users.
function read(channel, to) {
  if (channel === "email") return { channel, email: to };
  if (channel === "webhook") return { channel, url: to };
  if (channel === "slack") return { channel };
  if (to) return { channel, user_id: to };
  return channel === "web_push" ? { channel, broadcast: true } : { channel };
}

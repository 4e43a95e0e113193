// The form of one group of approvers. Fields are named as errors name them.

import { el, field } from "./dom.js";
import { button, submit } from "./page.js";
import { t } from "./text.js";

const channels = ["in_app", "web_push", "email", "slack"];
const maxMembers = 20;
const maxSteps = 5;
const namePattern = "[a-z0-9][a-z0-9_\\-]{0,63}";

// groupForm returns the form of a group, or of a new one. save gets the group that it makes; cancel may be absent.
export function groupForm(group, save, cancel) {
  const name = el("input", {
    id: "approver-group", name: "name", required: true, maxlength: 64, pattern: namePattern, title: t("approver-name-rule"), value: group?.name, placeholder: "default", spellcheck: "false",
  });
  const members = memberRows(group?.members ?? [{ user_id: "" }], () => steps.update());
  const steps = stepRows(group ? group.steps ?? [] : [{ after: "0s", channels: ["in_app"] }], members);
  const title = group ? t("change-approvers", { name: group.name }) : t("new-approvers");
  return el("form", {
    class: "form", "aria-label": title, onsubmit: submit(() => save({ ...group, name: name.value, members: members.read(), steps: steps.read() })),
  }, field(t("name"), name), members.place, steps.place,
  el("button", { class: "main", type: "submit" }, group ? t("save") : t("new-approvers")),
  cancel && button(t("discard"), async () => cancel()));
}

// rowsOf returns the rows that make makes of items, up to a number, with a button for one more. changed is called when rows
// come, go or move.
function rowsOf({ label, more, most, least, fresh, make, changed }) {
  const rows = el("div", { class: "rows" });
  const add = button(t(more), async () => {
    const row = append(fresh);
    row.querySelector("input").focus();
  }, { id: more });
  const list = () => [...rows.children];

  function update() {
    add.disabled = list().length >= most;
    list().forEach((row, i) => {
      row.drop.hidden = list().length <= least;
      row.number(i);
    });
    changed?.();
  }

  function append(item) {
    const row = make(item);
    row.drop = button(t("remove-target"), async () => {
      row.remove();
      update();
      add.focus();
    });
    row.append(row.drop);
    rows.append(row);
    update();
    return row;
  }

  const place = el("fieldset", {}, el("legend", {}, t(label)), rows, add);
  return { place, list, update, append, read: () => list().map((row) => row.read()) };
}

// memberRows returns the fields of members. changed is called when there are others, or one is renamed.
function memberRows(members, changed) {
  let ready = false;
  const rows = rowsOf({
    label: "approver-members", more: "add-member", most: maxMembers, least: 1, fresh: { user_id: "" }, changed: () => ready && changed(),
    make: (member) => {
      const user = el("input", { required: true, maxlength: 128, value: member.user_id, autocomplete: "off" });
      const email = el("input", { type: "email", maxlength: 256, value: member.email, autocomplete: "off" });
      const team = el("input", { maxlength: 21, value: member.slack_user?.team_id, placeholder: "T0123ABCD", spellcheck: "false" });
      const slack = el("input", { maxlength: 21, value: member.slack_user?.user_id, placeholder: "U0123ABCD", spellcheck: "false" });
      user.oninput = changed;
      const row = el("div", { class: "row", role: "group" }, field(t("user"), user), field(t("approver-email"), email),
        field(t("slack-team"), team), field(t("slack-user"), slack));
      row.user = () => user.value.trim();
      row.number = (i) => {
        row.setAttribute("aria-label", t("member-number", { number: i + 1 }));
        const at = `members[${i}]`;
        Object.entries({ user_id: user, email, "slack_user.team_id": team, "slack_user.user_id": slack }).forEach(([key, input]) => { input.name = `${at}.${key}`; });
      };
      row.read = () => {
        const ids = { team_id: team.value.trim(), user_id: slack.value.trim() };
        return {
          user_id: row.user(), ...(email.value && { email: email.value.trim() }), ...((ids.team_id || ids.user_id) && { slack_user: ids }),
        };
      };
      return row;
    },
  });
  members.forEach(rows.append);
  ready = true;
  return rows;
}

// stepRows returns the fields of steps, which name members of these rows.
function stepRows(steps, members) {
  const rows = rowsOf({
    label: "approver-steps", more: "add-step", most: maxSteps, least: 0, fresh: { after: "10m", channels: ["in_app"] }, make: (step) => stepRow(step, members),
  });
  steps.forEach(rows.append);
  return { ...rows, update: () => rows.list().forEach((row) => row.showMembers()) };
}

function stepRow(step, members) {
  const after = el("input", { required: true, maxlength: 20, value: step.after, placeholder: "10m", spellcheck: "false" });
  const boxes = channels.map((c) => el("input", { type: "checkbox", value: c, checked: step.channels.includes(c) }));
  const conversation = el("input", { maxlength: 21, value: step.slack_channel, placeholder: "C0123ABCD", spellcheck: "false" });
  const conversationField = field(t("slack-conversation"), conversation);
  // The members that the step names, by their rows: a member that is renamed stays one of them.
  const chosen = new Set(members.list().filter((row) => step.users?.includes(row.user())));
  const people = el("fieldset", {});
  const inSlack = boxes.find((box) => box.value === "slack");
  inSlack.onchange = () => { conversationField.hidden = !inSlack.checked; };
  inSlack.onchange();

  const row = el("div", { class: "row", role: "group" }, field(t("step-after"), after),
    el("fieldset", {}, el("legend", {}, t("channels")), boxes.map((box) => el("label", {}, box, t(`channel-${box.value}`)))), people, conversationField);
  row.showMembers = () => {
    const labels = members.list().map((member, i) => {
      const box = el("input", { type: "checkbox", checked: chosen.has(member) });
      box.onchange = () => (box.checked ? chosen.add(member) : chosen.delete(member));
      return el("label", {}, box, member.user() || t("member-number", { number: i + 1 }));
    });
    people.replaceChildren(el("legend", {}, t("step-members")), ...labels);
  };
  row.number = (i) => {
    row.setAttribute("aria-label", t("step-number", { number: i + 1 }));
    after.name = `steps[${i}].after`;
    boxes[0].name = `steps[${i}].channels`;
    conversation.name = `steps[${i}].slack_channel`;
  };
  row.read = () => {
    const users = members.list().filter((member) => chosen.has(member)).map((member) => member.user());
    return {
      after: after.value.trim(), channels: boxes.filter((box) => box.checked).map((box) => box.value), ...(users.length > 0 && { users }),
      ...(inSlack.checked && conversation.value && { slack_channel: conversation.value.trim() }),
    };
  };
  row.showMembers();
  return row;
}

// The groups of people who decide on approvals. Each change replaces all groups, as the operation does.

import { ai, call } from "./api.js";
import { groupForm } from "./approverform.js";
import { el, table } from "./dom.js";
import { button, may, replace, say } from "./page.js";
import { t } from "./text.js";

const path = `${ai}/approvers`;

export async function approvers(content) {
  const editor = el("div", { id: "approver-editor" });
  const place = el("div", { id: "approver-groups" });
  const write = may("ai:approvers:write");
  const show = (groups) => replace(place, groups.length ? table(t("approvers"), columns(), groups) : el("p", {}, t("nothing")));
  const read = async () => (await call("GET", path)).groups;

  // change reads the groups, replaces them with those that a function makes of them, and shows them.
  async function change(of, done) {
    const { groups } = await call("PUT", path, { groups: of(await read()) });
    show(groups);
    say(t(done));
  }

  // save puts a group in the place of another one, or behind all others. An error of a field of the group names the field.
  async function save(before, group) {
    let at = 0;
    try {
      await change((groups) => {
        const [next, index] = put(groups, before?.name, group);
        at = index;
        return next;
      }, before ? "saved" : "created");
    } catch (error) {
      const within = `groups[${at}].`;
      if (error.message.startsWith(within)) error.message = error.message.slice(within.length);
      throw error;
    }
    edit();
  }

  // edit shows the form for a group, or for a new one.
  function edit(group) {
    editor.replaceChildren(groupForm(group, (made) => save(group, made), group && (() => edit())));
    if (group) editor.querySelector("input").focus();
  }

  function columns() {
    return [
      { label: t("name"), cell: (g) => g.name },
      { label: t("approver-members"), cell: (g) => lines(g.members.map(memberText)) },
      { label: t("approver-steps"), cell: (g) => (g.steps?.length ? lines(g.steps.map(stepText)) : t("approver-no-steps")) },
      ...(write ? [{ label: t("actions"), cell: actions }] : []),
    ];
  }

  function actions(group) {
    const of = (label) => ({ "aria-label": `${label}: ${group.name}` });
    return el("div", { class: "actions" },
      button(t("change"), async () => edit(group), of(t("change"))),
      button(t("delete"), async () => {
        if (!confirm(t("delete-approvers", { name: group.name }))) return;
        await change((groups) => groups.filter((g) => g.name !== group.name), "deleted");
        edit();
      }, of(t("delete"))));
  }

  if (write) edit();
  content.append(el("p", {}, t("approvers-about")), editor, place);
  show(await read());
}

// put returns groups in which a group takes the place of the one with a name, or comes last, and its index.
function put(groups, name, group) {
  const index = groups.findIndex((g) => g.name === name);
  if (index < 0) return [[...groups, group], groups.length];
  return [groups.map((g, i) => (i === index ? group : g)), index];
}

const lines = (texts) => el("ul", { class: "lines" }, texts.map((text) => el("li", {}, text)));

function memberText(member) {
  const slack = member.slack_user && `Slack ${member.slack_user.team_id}/${member.slack_user.user_id}`;
  return [member.user_id, member.email, slack].filter(Boolean).join(" · ");
}

function stepText(step) {
  const ways = step.channels.map((c) => (c === "slack" && step.slack_channel ? `Slack ${step.slack_channel}` : t(`channel-${c}`))).join(", ");
  return t("approver-step-text", { after: step.after, ways, members: step.users?.length ? step.users.join(", ") : t("approver-all") });
}

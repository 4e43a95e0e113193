// What views share: the session, messages, and lists by pages.

import { call, Declined, query } from "./api.js";
import { el, field } from "./dom.js";
import { t, time } from "./text.js";

// state is the session, and ended(), which is called when a call finds that it has ended; null where pages have nothing to show
// without one.
export const state = { session: null, ended: null };

// alone matches scopes that no area includes.
const alone = /:(decide|mint|approvers:write)$/;

// may reports whether the session has a scope, itself or by its whole area.
export function may(scope) {
  const [area] = scope.split(":");
  const scopes = state.session.scopes;
  return scopes.includes(scope) || (!alone.test(scope) && scopes.includes(`${area}:*`)) ||
    (scope === "keys:read" && scopes.includes("keys:write"));
}

export function say(text) {
  document.getElementById("failure").textContent = "";
  document.getElementById("status").textContent = text;
}

export function fail(error) {
  if (error instanceof Declined) {
    say(t("unchanged"));
    return;
  }
  if (error.status === 401 && state.session && state.ended) {
    state.ended().catch(fail);
    return;
  }
  document.getElementById("status").textContent = "";
  document.getElementById("failure").textContent = error.status === 401 ? t("session.ended") : t("failed", { reason: error.message });
}

// act returns a listener that does something, once at a time, and says what went wrong.
export function act(work) {
  let busy = false;
  return async (event) => {
    event?.preventDefault();
    if (busy) return;
    busy = true;
    try {
      await work(event);
    } catch (error) {
      fail(error);
    } finally {
      busy = false;
    }
  };
}

// refresher returns a listener that shows a list again. What is asked for meanwhile is shown after it, so that the list is
// that of the last choice.
export function refresher(show) {
  let wanted = false;
  const next = act(async () => {
    while (wanted) {
      wanted = false;
      await show();
    }
  });
  return (event) => {
    event?.preventDefault();
    wanted = true;
    return next();
  };
}

// submit returns the listener of a form. An error of a field is shown at the input that has the field's name, or that of a
// field around it, which gets the focus.
export function submit(work) {
  return act(async (event) => {
    const form = event.target;
    for (const input of form.querySelectorAll("[aria-invalid]")) clear(input);
    try {
      await work(event);
    } catch (error) {
      if (!showAtField(form, error)) throw error;
    }
  });
}

function clear(input) {
  document.getElementById(input.getAttribute("aria-describedby"))?.remove();
  for (const name of ["aria-invalid", "aria-describedby"]) input.removeAttribute(name);
}

// showAtField shows an error, whose text begins with the name of a field, at its input. It reports whether there is one.
function showAtField(form, error) {
  const [, name, rule] = /^([a-z][\w.[\]]*): (.+)$/s.exec(error.message) ?? [];
  const names = (input) => input.name && (input.name === name || name.startsWith(`${input.name}[`) || name.startsWith(`${input.name}.`));
  const [input] = name ? [...form.elements].filter((e) => names(e) && e.offsetParent !== null).sort((a, b) => b.name.length - a.name.length) : [];
  if (!input) return false;
  say("");
  const note = el("p", { class: "fault", id: `${input.id}-fault` }, rule);
  input.after(note);
  input.setAttribute("aria-invalid", "true");
  input.setAttribute("aria-describedby", note.id);
  input.focus();
  return true;
}

export function button(label, work, attributes = {}) {
  return el("button", { type: "button", onclick: act(work), ...attributes }, label);
}

// replace changes what a place shows. A focus in it stays on the control with the same id or name, or goes to the place.
export function replace(place, ...children) {
  const before = document.activeElement;
  const held = place.contains(before);
  place.replaceChildren(...children);
  if (!held) return;
  const same = before === place ? null : [...place.querySelectorAll("a, button, input, select")].find((control) => nameOf(control) === nameOf(before));
  place.tabIndex = -1;
  (same ?? place).focus();
}

const nameOf = (control) => control.id || control.getAttribute("aria-label") || control.textContent;

// reveal shows a secret that no later answer has.
export function reveal(place, id, label, note, secret) {
  const text = el("input", { readonly: true, value: secret, id, autocomplete: "off" });
  place.replaceChildren(el("p", {}, note), field(label, text), button(t("hide"), async () => {
    place.replaceChildren();
    place.hidden = true;
    document.getElementById("view").focus();
  }));
  place.hidden = false;
  text.focus();
  text.select();
}

// list shows pages of a list in an element: render returns the element of all items so far, get the answer at a path.
export async function list(place, path, parameters, name, render, get = (from) => call("GET", from)) {
  const items = [];
  let cursor = "";
  const more = button(t("more"), () => next());
  async function next() {
    const page = await get(query(path, { ...parameters, limit: 50, cursor }));
    items.push(...page[name]);
    cursor = page.next_cursor;
    replace(place, items.length ? render(items) : el("p", {}, t("nothing")), ...(cursor ? [more] : []));
  }
  await next();
}

// endpointStatus shows whether an endpoint gets its deliveries, why not, and since when they fail.
export function endpointStatus(e) {
  const why = e.status === "failing" ? ` ${t("since", { time: time(e.failing_since) })}` : e.disabled_reason ? ` (${e.disabled_reason})` : "";
  return el("span", { class: ["failing", "disabled"].includes(e.status) ? "bad" : "" }, t(e.status) + why);
}

export function statusText(status) {
  const tone = { delivered: "good", ok: "good", failed: "bad", expired: "bad", gone: "bad", partial: "bad", open: "bad", changed: "bad", rejected: "bad", interrupted: "bad" }[status];
  return el("span", { class: tone }, status);
}

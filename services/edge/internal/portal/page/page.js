// What views share: the session, messages, and lists by pages.

import { call, query } from "./api.js";
import { el } from "./dom.js";
import { t } from "./text.js";

export const state = { session: null };

// may reports whether the session has a scope, itself or by its whole area.
export function may(scope) {
  const [area] = scope.split(":");
  const scopes = state.session.scopes;
  return scopes.includes(scope) || (!scope.endsWith(":decide") && scopes.includes(`${area}:*`)) ||
    (scope === "keys:read" && scopes.includes("keys:write"));
}

export function say(text) {
  document.getElementById("failure").textContent = "";
  document.getElementById("status").textContent = text;
}

export function fail(error) {
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

export function button(label, work, attributes = {}) {
  return el("button", { type: "button", onclick: act(work), ...attributes }, label);
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
    const focused = place.contains(document.activeElement);
    place.replaceChildren(items.length ? render(items) : el("p", {}, t("nothing")), ...(cursor ? [more] : []));
    if (focused) { // What had the focus is gone.
      place.tabIndex = -1;
      place.focus();
    }
  }
  await next();
}

export function statusText(status) {
  const tone = { delivered: "good", ok: "good", failed: "bad", expired: "bad", gone: "bad" }[status];
  return el("span", { class: tone }, status);
}

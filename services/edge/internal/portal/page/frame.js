// The frame around views: their list, the one that the address names, the language, and the end of the session.

import { el, safeLink } from "./dom.js";
import { act, fail, say, state } from "./page.js";
import { language, load, t } from "./text.js";

const $ = (id) => document.getElementById(id);

// pages say what is framed: groups() returns the groups of views, each with a label or none, session() asks for the
// session, name() returns whose pages these are, leave() ends the session, and left(), which may be absent, forgets it.
// welcome(content), which may be absent, shows what there is without a session.
let pages;
let end = () => {}; // ends what the view before has started
let shown = 0; // the number of the view that is shown last

// route shows the view that the address names, or the first one.
export async function route(focus) {
  const groups = pages.groups();
  const open = groups.flatMap((group) => group.places);
  const [path, search] = location.hash.slice(2).split("?");
  const [name, id] = path.split("/");
  const place = open.find((p) => p.name === name && !p.href) ?? open[0];
  $("nav").replaceChildren(...groups.map((group) => el("ul", { "aria-label": group.label },
    group.label && el("li", { class: "group" }, group.label),
    group.places.map((p) => el("li", {},
      el("a", { href: p.href ?? `#/${p.name}`, "aria-current": p === place ? "page" : null }, t(p.name)))))));
  const title = place ? t(place.name) : t("nothing-open");
  await show(title, focus, place && ((content) => id && place.one
    ? place.one(content, decodeURIComponent(id))
    : place.show(content, new URLSearchParams(search))));
}

// show shows a view under a title.
async function show(title, focus, view) {
  const number = ++shown;
  end();
  end = () => {};
  $("title").textContent = title;
  document.title = `${title} · Switchyard`;
  const content = el("div", { id: "content" });
  $("content").replaceWith(content);
  say("");
  if (focus) $("view").focus();
  if (!view) return;
  const ended = await view(content);
  content.dataset.ready = "true";
  if (!ended) return;
  if (number === shown) end = ended;
  else ended();
}

export function frame() {
  $("skip").textContent = t("skip");
  $("language-label").textContent = t("language");
  $("language").value = language;
  $("nav").setAttribute("aria-label", t("contents"));
  $("leave").textContent = t("leave");
  $("return").textContent = t("return");
  $("nav").hidden = $("leave").hidden = !state.session;
  $("organization").textContent = state.session ? pages.name() : "";
  const back = state.session && safeLink(state.session.return_url);
  if (back) $("return").href = back;
  $("return").hidden = !back;
}

// enter asks for the session and shows its first view.
export async function enter() {
  try {
    state.session = await pages.session();
  } catch (error) {
    if (error.status !== 401 || !pages.welcome) throw error;
    await welcome();
    return;
  }
  frame();
  await route(false);
}

async function welcome() {
  state.session = null;
  frame();
  await show(t("sign-in"), false, pages.welcome);
}

// signInAgain shows what there is without a session to a person whose session has ended, and says why.
async function signInAgain() {
  await welcome();
  $("failure").textContent = t("sign-in-again");
  $("view").focus();
}

export async function start(of) {
  pages = of;
  if (pages.welcome) state.ended = signInAgain;
  $("skip").onclick = (event) => { event.preventDefault(); $("view").focus(); };
  $("language").onchange = act(async ({ target }) => {
    localStorage.setItem("language", target.value);
    await load(target.value);
    frame();
    if (state.session) await route(false);
    else if (pages.welcome) await enter();
  });
  $("leave").onclick = act(async () => {
    await pages.leave().catch((error) => { if (error.status !== 401) throw error; }); // It has ended before.
    pages.left?.();
    location.replace($("return").hidden ? document.baseURI.split("#")[0] : $("return").href);
  });
  window.addEventListener("hashchange", () => { if (state.session) route(true).catch(fail); });
  try {
    await load(localStorage.getItem("language") ?? navigator.language.slice(0, 2));
    frame();
    await enter();
  } catch (error) {
    fail(error);
  }
}

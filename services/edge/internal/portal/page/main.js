// The portal: which views the session's scopes open, and the one that the address names.

import { alerts } from "./alerts.js";
import { call } from "./api.js";
import { deliveries, delivery } from "./deliveries.js";
import { devices } from "./devices.js";
import { el, safeLink } from "./dom.js";
import { endpoints } from "./endpoints.js";
import { eventType, eventTypes } from "./eventtypes.js";
import { inbox } from "./inbox.js";
import { keys } from "./keys.js";
import { act, fail, may, say, state } from "./page.js";
import { spend } from "./spend.js";
import { language, load, t } from "./text.js";

const $ = (id) => document.getElementById(id);

const places = [
  { name: "endpoints", scope: "webhooks:endpoints:read", show: endpoints },
  { name: "deliveries", scope: "webhooks:deliveries:read", show: deliveries, one: delivery },
  { name: "event-types", scope: "webhooks:event_types:read", show: eventTypes, one: eventType },
  { name: "alerts", scope: "alerts:rules:read", show: alerts },
  { name: "spend", scope: "ai:usage:read", show: spend },
  { name: "keys", scope: "keys:read", show: keys },
  { name: "inbox", scope: "notifications:inbox:read", show: inbox },
  { name: "devices", scope: "notifications:push:read", show: devices },
];

let leave = () => {}; // ends what the view before has started
let shown = 0; // the number of the view that is shown last

// route shows the view that the address names, or the first one.
async function route(focus) {
  const open = places.filter(({ scope }) => may(scope));
  const [path, search] = location.hash.slice(2).split("?");
  const [name, id] = path.split("/");
  const place = open.find((p) => p.name === name) ?? open[0];
  const number = ++shown;
  leave();
  leave = () => {};
  $("places").replaceChildren(...open.map((p) => el("li", {},
    el("a", { href: `#/${p.name}`, "aria-current": p === place ? "page" : null }, t(p.name)))));
  const title = place ? t(place.name) : t("nothing-open");
  $("title").textContent = title;
  document.title = `${title} · Switchyard`;
  const content = el("div", { id: "content" });
  $("content").replaceWith(content);
  say("");
  if (focus) $("view").focus();
  if (!place) return;
  const end = id && place.one
    ? await place.one(content, decodeURIComponent(id))
    : await place.show(content, new URLSearchParams(search));
  content.dataset.ready = "true";
  if (!end) return;
  if (number === shown) leave = end;
  else end();
}

function frame() {
  $("skip").textContent = t("skip");
  $("language-label").textContent = t("language");
  $("language").value = language;
  $("nav").setAttribute("aria-label", t("contents"));
  $("leave").textContent = t("leave");
  $("return").textContent = t("return");
  if (!state.session) return;
  $("organization").textContent = state.session.organization_id;
  $("nav").hidden = $("leave").hidden = false;
  const back = safeLink(state.session.return_url);
  if (back) $("return").href = back;
  $("return").hidden = !back;
}

async function start() {
  await load(localStorage.getItem("language") ?? navigator.language.slice(0, 2));
  frame();
  state.session = await call("GET", "/session");
  frame();
  await route(false);
}

$("skip").onclick = (event) => { event.preventDefault(); $("view").focus(); };
$("language").onchange = act(async ({ target }) => {
  localStorage.setItem("language", target.value);
  await load(target.value);
  frame();
  if (state.session) await route(false);
});
$("leave").onclick = act(async () => {
  await call("DELETE", "/session");
  location.replace($("return").hidden ? "/portal/" : $("return").href);
});
window.addEventListener("hashchange", () => { if (state.session) route(true).catch(fail); });
start().catch(fail);

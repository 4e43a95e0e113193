import { call, notifications } from "./api.js";
import { el, table } from "./dom.js";
import { button, list, may, say } from "./page.js";
import { t, time } from "./text.js";

const path = `${notifications}/push/registrations`;

export async function devices(content) {
  const place = el("div", { id: "devices" });
  const show = () => list(place, path, {}, "registrations", (items) => table(t("devices"), columns(show), items));
  if (may("notifications:push:write")) {
    content.append("serviceWorker" in navigator && "PushManager" in window
      ? button(t("register"), async () => { await register(); await show(); say(t("registered")); }, { class: "main", id: "register" })
      : el("p", {}, t("no-push")));
  }
  content.append(place);
  await show();
}

function columns(show) {
  return [
    { label: t("push-service"), cell: (r) => r.endpoint_origin },
    { label: t("state"), cell: (r) => r.status },
    { label: t("created-at"), cell: (r) => time(r.created_at) },
    { label: t("last-delivered"), cell: (r) => time(r.last_delivered_at) },
    { label: t("actions"), cell: (r) => may("notifications:push:write") ? button(t("delete"), async () => {
      await call("DELETE", `${path}/${encodeURIComponent(r.sub_id)}`);
      await show();
      say(t("deleted"));
    }, { "aria-label": `${t("delete")}: ${r.endpoint_origin}, ${time(r.created_at)}` }) : "" },
  ];
}

// register subscribes this browser and registers the subscription.
async function register() {
  if (await Notification.requestPermission() !== "granted") throw new Error(t("not-allowed"));
  const key = await call("GET", `${notifications}/push/vapid-public-key`);
  const worker = await startWorker();
  const made = await worker.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key.public_key });
  const { endpoint, keys, expirationTime } = made.toJSON();
  await call("POST", path, { subscription: { endpoint, keys, ...(expirationTime && { expirationTime }) }, vapid_key_id: key.key_id });
}

// startWorker starts the service worker, whose address is the only script that this page makes trusted.
async function startWorker() {
  const url = window.trustedTypes
    ? trustedTypes.createPolicy(`portal-${Date.now()}`, { createScriptURL: () => "worker.js" }).createScriptURL("")
    : "worker.js";
  await navigator.serviceWorker.register(url);
  return navigator.serviceWorker.ready;
}

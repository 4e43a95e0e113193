import { address, at, call, notifications, query } from "./api.js";
import { el, safeLink, table } from "./dom.js";
import { button, list, may, refresher, say } from "./page.js";
import { t, time } from "./text.js";

const path = `${notifications}/inbox`;

export async function inbox(content) {
  const count = el("p", { id: "unread", role: "status" });
  const place = el("div", { id: "inbox" });
  const show = async () => {
    await list(place, path, {}, "notifications", (items) => table(t("inbox"), columns(show), items));
    count.textContent = t("unread-count", { count: (await call("GET", `${path}/unread-count`)).unread_count });
  };
  content.append(count);
  if (may("notifications:inbox:write")) {
    content.append(button(t("read-all"), async () => {
      await call("PUT", `${path}/read-all`, {});
      await show();
      say(t("saved"));
    }));
  }
  content.append(place);
  await show();
  return follow(show);
}

const events = ["ready", "reset", "created", "updated", "read", "read_all", "deleted"];
const [firstPause, mostPause] = [1_000, 60_000];

// follow shows the list again with each event of the stream, and when it begins: what came before isn't sent again. A stream
// that is refused is opened again after a pause, which doubles. follow returns the function that ends it.
function follow(show) {
  const again = refresher(show);
  let stream, timer, pause = firstPause;
  const open = () => {
    stream = new EventSource(query(address(`${path}/stream`), { user_id: at.user }));
    for (const kind of events) stream.addEventListener(kind, again);
    stream.addEventListener("open", () => { pause = firstPause; });
    stream.addEventListener("error", () => {
      if (stream.readyState !== EventSource.CLOSED) return; // It connects again by itself.
      timer = setTimeout(open, pause);
      pause = Math.min(2 * pause, mostPause);
    });
  };
  open();
  return () => {
    clearTimeout(timer);
    stream.close();
  };
}

function columns(show) {
  return [
    { label: t("message"), cell: message },
    { label: t("time"), cell: (n) => time(n.created_at) },
    { label: t("actions"), cell: (n) => actions(n, show) },
  ];
}

function message(n) {
  const link = safeLink(n.url);
  return el("div", { class: n.read ? null : "unread" }, el("div", {}, n.subject), n.message,
    link && el("div", {}, el("a", { href: link, rel: "noreferrer" }, link)));
}

function actions(n, show) {
  if (!may("notifications:inbox:write")) return "";
  const of = (label) => ({ "aria-label": `${label}: ${n.subject || n.message}` });
  const at = `${path}/${encodeURIComponent(n.id)}`;
  return el("div", { class: "actions" },
    n.read ? null : button(t("mark-read"), async () => { await call("PUT", `${at}/read`, {}); await show(); }, of(t("mark-read"))),
    button(t("delete"), async () => { await call("DELETE", at); await show(); }, of(t("delete"))));
}

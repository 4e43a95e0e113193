// The page: this browser as a device of web push, and the in-app feed, live.

const $ = (id) => document.getElementById(id);

async function call(method, path, body) {
  const response = await fetch(path, {
    method,
    headers: body ? { "Content-Type": "application/json" } : {},
    body: body && JSON.stringify(body),
  });
  const answer = response.status === 204 ? null : await response.json();
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

// report runs what a button asks for and says what went wrong.
function report(place, work) {
  return async (event) => {
    event?.preventDefault();
    try {
      await work(event);
    } catch (error) {
      $(place).textContent = error.message;
    }
  };
}

// --- this browser -----------------------------------------------------------

let registered = null; // the registration of this browser at notify

async function worker() {
  await navigator.serviceWorker.register("sw.js");
  return navigator.serviceWorker.ready;
}

async function lookAtDevice() {
  if (!("serviceWorker" in navigator) || !("PushManager" in window)) {
    throw new Error("This browser has no web push here.");
  }
  const { pushManager } = await worker();
  const subscription = await pushManager.getSubscription();
  if (subscription) return enrol(subscription.toJSON(), (await call("GET", "/v1/push/vapid-public-key")).key_id);
  if (fake.available && localStorage.getItem(fake.stored)) return subscribeAtFake();
  showDevice();
}

async function allow() {
  if (await Notification.requestPermission() !== "granted") throw new Error("Notifications are not allowed for this page.");
}

async function subscribe() {
  await allow();
  const key = await call("GET", "/v1/push/vapid-public-key");
  const { pushManager } = await worker();
  const subscription = await pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key.public_key });
  await enrol(subscription.toJSON(), key.key_id);
}

async function enrol({ endpoint, expirationTime, keys }, keyID) {
  registered = await call("POST", "/v1/push/registrations", {
    subscription: { endpoint, keys, ...(expirationTime && { expirationTime }) },
    vapid_key_id: keyID,
  });
  showDevice();
}

async function unsubscribe() {
  const { pushManager } = await worker();
  const subscription = await pushManager.getSubscription();
  if (subscription) await subscription.unsubscribe();
  await call("DELETE", `/v1/push/registrations/${registered.sub_id}`);
  leaveFake();
  registered = null;
  showDevice();
}

function showDevice() {
  $("device").textContent = registered ? `Subscribed at ${registered.endpoint_origin}` : "Not subscribed";
  $("subscribe").disabled = false;
  $("subscribe").hidden = Boolean(registered);
  $("subscribe-fake").hidden = Boolean(registered) || !fake.available;
  $("unsubscribe").hidden = !registered;
}

navigator.serviceWorker?.addEventListener("message", report("device", async ({ data }) => {
  if (data.kind === "push") {
    const { title, body, notification_id: id } = data.message;
    $("received").textContent = `${title || "(no subject)"}: ${body}`;
    $("received").dataset.notification = id;
  }
  if (data.kind === "renew") await lookAtDevice();
}));

// --- a fake push service, in place of the browser's own ----------------------

// It keeps subscriptions in memory, so the page makes a new one each time it is opened, in place of the stored one.
const fake = { available: false, stored: "registration at the fake push service", path: "", last: "", timer: 0, failed: false };

async function subscribeAtFake() {
  await allow();
  const former = localStorage.getItem(fake.stored);
  if (former) await call("DELETE", `/v1/push/registrations/${former}`).catch(() => {}); // It may be gone.
  const key = await call("GET", "/v1/push/vapid-public-key");
  const subscription = await call("POST", "/push-service/subscriptions", { application_server_key: key.public_key });
  await enrol(subscription, key.key_id);
  localStorage.setItem(fake.stored, registered.sub_id);
  Object.assign(fake, { path: new URL(subscription.endpoint).pathname, last: "" });
  clearTimeout(fake.timer);
  await collect();
}

function leaveFake() {
  clearTimeout(fake.timer);
  fake.path = "";
  localStorage.removeItem(fake.stored);
}

// collect hands to the service worker what was pushed since the last time, once a second.
async function collect() {
  const { path } = fake;
  try {
    const { messages } = await call("GET", `/push-service/messages?limit=50&path=${encodeURIComponent(path)}`);
    if (path !== fake.path) return; // The subscription has changed meanwhile.
    if (fake.failed) showDevice();
    fake.failed = false;
    const { active } = await worker();
    for (const message of messages.slice(messages.findLastIndex(({ time }) => time === fake.last) + 1)) {
      if (!message.plaintext) { // The service has been restarted and can't decrypt for this subscription any more.
        await subscribeAtFake();
        $("received").textContent = "A push is lost, because the push service was restarted: send it again.";
        return;
      }
      fake.last = message.time;
      active.postMessage({ kind: "deliver", text: message.plaintext });
    }
  } catch (error) {
    fake.failed = true;
    $("device").textContent = error.message;
  }
  fake.timer = setTimeout(collect, 1000);
}

// --- sending ----------------------------------------------------------------

async function send() {
  const form = new FormData($("send"));
  const accepted = await call("POST", "/v1/notify", {
    channels: form.getAll("channel"),
    subject: form.get("subject"),
    message: form.get("message"),
    target: { user_id: "demo", url: "/" },
  });
  $("sent").textContent = `Accepted as ${accepted.notification_id}`;
}

// --- the feed ---------------------------------------------------------------

function showUnread(count) {
  $("unread").textContent = count;
  document.title = count ? `(${count}) Switchyard notify` : "Switchyard notify";
}

async function list() {
  const page = await call("GET", "/v1/notifications?limit=20");
  $("feed").replaceChildren(...page.notifications.map(item));
  showUnread(page.unread_count);
}

function item(record) {
  const entry = document.createElement("li");
  entry.id = `record-${record.id}`;
  entry.className = record.read ? "" : "new";
  const text = document.createElement("span");
  text.className = "text";
  text.textContent = record.subject ? `${record.subject}: ${record.message}` : record.message;
  const time = document.createElement("time");
  time.dateTime = record.created_at;
  time.textContent = new Date(record.created_at).toLocaleTimeString();
  entry.append(text, time, button("Read", "PUT", record, "/read", record.read), button("Delete", "DELETE", record, ""));
  return entry;
}

function button(label, method, record, path, disabled = false) {
  const b = document.createElement("button");
  b.type = "button";
  b.textContent = label;
  b.disabled = disabled;
  b.onclick = report("live", () => call(method, `/v1/notifications/${record.id}${path}`, method === "PUT" ? {} : undefined));
  return b;
}

function change({ notification }) {
  if (notification) $(`record-${notification.id}`)?.replaceWith(item(notification));
}

// Every event carries the count after it; the list follows from the kind.
const changes = {
  ready: list,
  reset: list,
  read_all: list,
  created: ({ notification }) => { if (notification) $("feed").prepend(item(notification)); },
  updated: change,
  read: change,
  deleted: ({ notification_id: id }) => $(`record-${id}`)?.remove(),
};

function follow() {
  const stream = new EventSource("/v1/notifications/stream");
  stream.onopen = () => { $("live").textContent = "live"; };
  stream.onerror = () => { $("live").textContent = "reconnecting"; };
  for (const [kind, apply] of Object.entries(changes)) {
    stream.addEventListener(kind, report("live", async (event) => {
      const change = JSON.parse(event.data);
      await apply(change);
      showUnread(change.unread_count);
    }));
  }
}

$("subscribe").onclick = report("device", subscribe);
$("subscribe-fake").onclick = report("device", subscribeAtFake);
$("unsubscribe").onclick = report("device", unsubscribe);
$("send").onsubmit = report("sent", send);
$("read-all").onclick = report("live", () => call("PUT", "/v1/notifications/read-all", {}));

follow();
report("device", async () => {
  fake.available = (await call("GET", "/push-service")).available;
  await lookAtDevice();
})();

// The service worker: it shows what is pushed, and opens what a click asks for.

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

self.addEventListener("push", (event) => {
  const message = event.data ? event.data.json() : {};
  event.waitUntil(show(message));
});

// The page hands over what a fake push service has for it, which can't reach the browser by itself.
self.addEventListener("message", (event) => {
  if (event.data.kind === "deliver") event.waitUntil(show(JSON.parse(event.data.text)));
});

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  const { url, links } = event.notification.data;
  const link = new URL((event.action && links[event.action]) || url, self.location.origin);
  event.waitUntil(open(link));
});

// The browser has replaced the subscription: the page registers the new one.
self.addEventListener("pushsubscriptionchange", (event) => event.waitUntil(tell({ kind: "renew" })));

async function show(message) {
  await self.registration.showNotification(message.title || "Switchyard", {
    body: message.body,
    tag: message.tag, // a push that comes twice is shown once, and an update replaces what it updates
    actions: (message.actions || []).map(({ action, title }) => ({ action, title })),
    data: { url: message.url || "/", links: Object.fromEntries((message.actions || []).map((a) => [a.action, a.url])) },
  });
  await tell({ kind: "push", message });
}

async function tell(what) {
  for (const client of await self.clients.matchAll({ includeUncontrolled: true })) client.postMessage(what);
}

async function open(url) {
  for (const client of await self.clients.matchAll({ type: "window" })) {
    if (new URL(client.url).origin === url.origin) return client.focus();
  }
  return self.clients.openWindow(url);
}

// The service worker: it shows what is pushed, and opens what a click asks for.

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

self.addEventListener("push", (event) => {
  const message = event.data ? event.data.json() : {};
  event.waitUntil(show(message));
});

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(open(new URL(event.notification.data.url, self.location.origin)));
});

// The browser has replaced the subscription: the page registers the new one.
self.addEventListener("pushsubscriptionchange", (event) => event.waitUntil(tell({ kind: "renew" })));

async function show(message) {
  await self.registration.showNotification(message.title || "Switchyard", {
    body: message.body,
    tag: message.notification_id, // a push that comes twice is shown once
    data: { url: message.url || "/" },
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

// The service worker: it shows what is pushed, and opens what a click asks for.

self.addEventListener("push", (event) => {
  const message = event.data ? event.data.json() : {};
  event.waitUntil(self.registration.showNotification(message.title || "Switchyard", {
    body: message.body,
    tag: message.notification_id, // a push that comes twice is shown once
    data: { url: message.url || "/portal/" },
  }));
});

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  const url = new URL(event.notification.data.url, self.location.origin);
  if (url.protocol === "https:" || url.origin === self.location.origin) event.waitUntil(self.clients.openWindow(url));
});

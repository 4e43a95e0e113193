// The views of an organization, in the order in which the portal and the console list them.

import { deliveries, delivery } from "./deliveries.js";
import { devices } from "./devices.js";
import { endpoints } from "./endpoints.js";
import { eventType, eventTypes } from "./eventtypes.js";
import { inbox } from "./inbox.js";
import { keys } from "./keys.js";
import { spend } from "./spend.js";

export const places = [
  { name: "endpoints", scope: "webhooks:endpoints:read", show: endpoints },
  { name: "deliveries", scope: "webhooks:deliveries:read", show: deliveries, one: delivery },
  { name: "event-types", scope: "webhooks:event_types:read", show: eventTypes, one: eventType },
  { name: "spend", scope: "ai:usage:read", show: spend },
  { name: "keys", scope: "keys:read", show: keys },
  { name: "inbox", scope: "notifications:inbox:read", show: inbox },
  { name: "devices", scope: "notifications:push:read", show: devices },
];

// The views of an organization, in the order in which the portal and the console list them.

import { alerts } from "./alerts.js";
import { approvals } from "./approvals.js";
import { approvers } from "./approvers.js";
import { deliveries, delivery } from "./deliveries.js";
import { devices } from "./devices.js";
import { endpoints } from "./endpoints.js";
import { eventType, eventTypes } from "./eventtypes.js";
import { inbox } from "./inbox.js";
import { keys } from "./keys.js";
import { limits } from "./limits.js";
import { spend } from "./spend.js";

// places have a name, the scope that opens them, and the functions that show all and one. What shows the whole organization is
// not for a session or an operator that acts for an owner.
export const places = [
  { name: "endpoints", scope: "webhooks:endpoints:read", show: endpoints },
  { name: "deliveries", scope: "webhooks:deliveries:read", show: deliveries, one: delivery },
  { name: "event-types", scope: "webhooks:event_types:read", show: eventTypes, one: eventType },
  { name: "alerts", scope: "alerts:rules:read", show: alerts, whole: true },
  { name: "approvals", scope: "ai:approvals:read", show: approvals, whole: true },
  { name: "approvers", scope: "ai:approvers:read", show: approvers, whole: true },
  { name: "spend", scope: "ai:usage:read", show: spend },
  { name: "keys", scope: "keys:read", show: keys },
  { name: "inbox", scope: "notifications:inbox:read", show: inbox },
  { name: "devices", scope: "notifications:push:read", show: devices },
  { name: "limits", scope: "ai:usage:read", show: limits, whole: true },
];

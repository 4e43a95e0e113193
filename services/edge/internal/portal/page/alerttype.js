// The types of events that people of an organization may want to be told of.

import { t } from "./text.js";

const prefix = "switchyard.";

// types are the types that the page offers. Those in withPercent tell the share of a limit that is reached.
export const types = [
  "switchyard.budget.threshold", "switchyard.quota.reached", "switchyard.credits.exhausted", "switchyard.run.exhausted",
  "switchyard.approval.pending", "switchyard.approval.decided", "switchyard.approval.superseded",
  "switchyard.endpoint.failing", "switchyard.endpoint.disabled", "switchyard.endpoint.recovered", "switchyard.delivery.failed",
  "switchyard.credential.failing", "switchyard.credential.recovered", "switchyard.credential.rotation_due",
  "switchyard.model.deprecated", "switchyard.model.retiring",
];
export const withPercent = ["switchyard.budget.threshold", "switchyard.quota.reached"];

// typeText returns what a type means; the type itself if it is another one.
export function typeText(type) {
  return types.includes(type) ? t(`type-${type.slice(prefix.length)}`) : type;
}

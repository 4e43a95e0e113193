// The operators' console: views of everything, and those of the portal for the organization that is chosen.

import { account } from "./account.js";
import { acting, admin, forget, personal, restore } from "./acting.js";
import { audit } from "./audit.js";
import { allKeys } from "./allkeys.js";
import { budget } from "./budget.js";
import { circuits } from "./circuits.js";
import { allDeliveries, allEndpoints, deadLetters, events, registrations } from "./everywhere.js";
import { start } from "./frame.js";
import { may, state } from "./page.js";
import { organizations } from "./organizations.js";
import { places } from "./places.js";
import { plans } from "./plans.js";
import { allSends, sends, send } from "./sends.js";
import { signIn } from "./signin.js";
import { sharedTools, sharedToolServer, toolServer, tools } from "./tools.js";
import { t } from "./text.js";

const everything = [
  { name: "organizations", show: organizations },
  { name: "all-deliveries-of-all", show: allDeliveries },
  { name: "dead-letters", show: deadLetters },
  { name: "all-endpoints", show: allEndpoints },
  { name: "circuits", show: circuits },
  { name: "all-sends", show: allSends },
  { name: "events", show: events },
  { name: "registrations", show: registrations },
  { name: "all-keys", show: allKeys },
  { name: "plans", show: plans },
  { name: "shared-tools", show: sharedTools, one: sharedToolServer },
  { name: "audit", show: audit },
];

// gateway leads to the gateway's own page, which shows the chosen organization first.
const gateway = () => ({ name: "gateway", href: `gateway/console${acting.organization && `#${encodeURIComponent(acting.organization)}`}` });

// ofOrganization are the views of the chosen organization. Its keys are in the list of all keys.
function ofOrganization() {
  const open = places.filter((place) => may(place.scope) && (!personal(place) || acting.user) && !(place.whole && acting.owner));
  const whole = acting.owner ? [] : [{ name: "tools", show: tools, one: toolServer }, { name: "budget", show: budget }];
  return [{ name: "account", show: account }, ...open, { name: "sends", show: sends, one: send }, ...whole];
}

function groups() {
  const all = [{ label: t("everything"), places: [...everything, gateway()] }];
  if (!acting.organization) return all;
  const label = [acting.organization, acting.owner, acting.user].filter(Boolean).join(" · ");
  return [...all, { label, places: ofOrganization() }];
}

restore();
start({
  groups,
  session: () => admin("GET", "/session"),
  name: () => t("signed-in", { operator: state.session.operator }),
  leave: () => admin("DELETE", "/session"),
  left: forget,
  welcome: signIn,
});

// Which organization, owner and user the views of an organization act for. The choice lasts as long as the tab.

import { at, Declined, query, send } from "./api.js";
import { state } from "./page.js";
import { t } from "./text.js";

const kept = "acting";
export const acting = { organization: "", owner: "", user: "" };

// admin calls an operators' operation.
export function admin(method, path, body) {
  return send(method, at.api + path, body);
}

// choose acts for an organization from now on; for none if it is empty.
export function choose({ organization = "", owner = "", user = "" }) {
  Object.assign(acting, { organization, owner, user });
  if (organization) sessionStorage.setItem(kept, JSON.stringify(acting));
  else sessionStorage.removeItem(kept);
  Object.assign(at, {
    scope: organization ? `/organizations/${encodeURIComponent(organization)}` : "", user,
    headers: { ...(owner && { "X-Owner-Id": owner }), ...(user && { "X-User-Id": user }) },
  });
}

// restore chooses what was chosen before the page was loaded again.
export function restore() {
  try {
    choose(JSON.parse(sessionStorage.getItem(kept)) ?? {});
  } catch {
    choose({});
  }
}

let sure = ""; // the organization whose name is known to be right

// confirmName asks before the first change in the place of an organization that no key belongs to: its name may be mistyped.
async function confirmName(method, url) {
  const { organization } = acting;
  if (method === "GET" || organization === sure || !url.includes(`/${encodeURIComponent(organization)}/`)) return;
  const { organizations: [first] } = await admin("GET", query("/organizations", { prefix: organization, limit: 1 }));
  if (first?.organization_id !== organization && !confirm(t("act-for-unknown", { organization }))) throw new Declined();
  sure = organization;
}
at.before = confirmName;

// personal reports whether a view shows one user's own records.
export function personal(place) {
  return place.scope.startsWith("notifications:inbox:") || place.scope.startsWith("notifications:push:");
}

// forget leaves no choice for the operator who signs in next.
export function forget() {
  sessionStorage.removeItem(kept);
  state.session = null;
}

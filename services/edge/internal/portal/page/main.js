// The portal: the views that the session's scopes open.

import { call } from "./api.js";
import { start } from "./frame.js";
import { may, state } from "./page.js";
import { places } from "./places.js";

start({
  groups: () => [{ places: places.filter((place) => may(place.scope) && !(place.whole && state.session.owner_id)) }],
  session: () => call("GET", "/session"),
  name: () => state.session.organization_id,
  leave: () => call("DELETE", "/session"),
});

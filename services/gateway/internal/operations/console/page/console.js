// The operators' page. It shows only what the gateway's own JSON face returns, and inserts all of it as text. The token
// is kept for the tab, until the operator signs out.
(() => {
  "use strict";

  const INTERVAL = 5000; // milliseconds between refreshes
  const PATIENCE = 30000; // milliseconds that the gateway has for an answer
  // The operators' console relays this page below its own address, with a session in place of a token.
  const base = location.pathname.replace(/[^/]*$/, "");
  const relayed = base !== "/";
  let token = "";
  let rights = "none"; // none, service or operator
  let organization = "";
  let opened = ""; // the request whose details are open
  const FEW = 12; // providers shown until the button for all is pressed
  let all = false; // whether it was pressed
  let unidentified = false; // whether the gateway failed when it was asked what the token may do
  let busy = false; // whether a refresh is under way
  let stale = false; // whether another one has to follow
  let providersNow = null; // the last answer with the providers
  let versions = null; // of the pin and the canary that are shown

  const KEPT = "switchyard-token"; // the token's name in the tab's storage

  const $ = (id) => document.getElementById(id);

  // el returns an element; text children are inserted as text, whatever they contain.
  const el = (tag, props, ...children) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(props || {})) {
      if (value === undefined || value === null || value === false) continue;
      if (name === "on") for (const [event, run] of Object.entries(value)) node.addEventListener(event, run);
      else node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...children.filter((c) => c !== null && c !== undefined).map((c) => (c instanceof Node ? c : String(c))));
    return node;
  };

  const nameOf = (control) => control.id || control.getAttribute("aria-label") || control.textContent;

  // replace changes what a place shows, unless that is the same. A focus within the place stays on the control of the same
  // name, or goes to the place.
  const replace = (place, ...children) => {
    const next = place.cloneNode(false);
    next.append(...children);
    if (next.isEqualNode(place)) return;
    const before = document.activeElement;
    const held = place.contains(before) && before !== place;
    place.replaceChildren(...next.childNodes);
    if (!held) return;
    const same = [...place.querySelectorAll("button, [tabindex]")].find((control) => nameOf(control) === nameOf(before));
    if (!same) place.tabIndex = -1;
    (same ?? place).focus({ preventScroll: true });
  };

  // call returns {ok, status, body}; a failed connection has status 0.
  const call = async (path, { method = "GET", body, org } = {}) => {
    const headers = { Accept: "application/json", "X-Switchyard-Portal": "1" };
    if (token) headers.Authorization = "Bearer " + token;
    if (org) headers["X-Organization-Id"] = org;
    if (body !== undefined) headers["Content-Type"] = "application/json";
    try {
      const reply = await fetch(base + path.slice(1), { method, headers, body: body === undefined ? undefined : JSON.stringify(body), cache: "no-store", credentials: "same-origin", signal: AbortSignal.timeout(PATIENCE) });
      const text = await reply.text();
      let value = null;
      try { value = JSON.parse(text); } catch { /* Not JSON: the status says enough. */ }
      return { ok: reply.ok, status: reply.status, body: value };
    } catch {
      return { ok: false, status: 0, body: null };
    }
  };

  // known reports whether calls are made with an identity: with a token, or in a session that has been found.
  const known = () => token || rights !== "none";

  // callAll returns the answer of a list with the items of all its pages.
  const callAll = async (path, list) => {
    const first = await call(path);
    for (let page = first; page.ok && page.body.next_cursor;) {
      page = await call(path + "&cursor=" + encodeURIComponent(page.body.next_cursor));
      if (!page.ok) return page;
      first.body[list].push(...page.body[list]);
    }
    return first;
  };

  const why = (reply) => {
    if (reply.status === 0) return "the gateway does not answer";
    return (reply.body && (reply.body.reason || reply.body.error)) || "status " + reply.status;
  };

  const tones = {
    healthy: "good", up: "good", operational: "good", ok: "good", closed: "good", available: "good",
    degraded: "warn", half_open: "warn", gateway_degraded: "warn", vendor_degraded: "warn", cancelled: "warn", skipped: "warn", unconfigured: "",
    down: "bad", open: "bad", failed: "bad", aborted: "bad", gateway_down: "bad", vendor_down: "bad", unavailable: "bad",
  };
  const chip = (text, tone, kind = "chip") => el("span", { class: kind, "data-tone": tone || null }, text);
  const words = (code) => String(code || "").replaceAll("_", " ");
  // Why requests that name no provider don't get this one.
  const unselected = {
    missing_key: "has no key",
    pinned_elsewhere: "routing is pinned to another provider",
    breaker_open: "its circuits are open",
    bulkhead_full: "at its limit of calls in flight",
    not_in_the_policys_choice: "only when a request names it",
  };

  const ms = (n) => (!n ? "–" : n < 1000 ? Math.round(n) + " ms" : (n / 1000).toFixed(n < 10000 ? 2 : 1) + " s");
  const percent = (n) => (n ? (100 * n).toFixed(n < 0.1 ? 1 : 0) + " %" : "0 %");
  const money = (cents) => {
    if (!cents) return "$0";
    const dollars = cents / 100;
    return "$" + (dollars >= 1 ? dollars.toFixed(2) : dollars >= 0.01 ? dollars.toFixed(4) : dollars.toPrecision(2));
  };
  const time = (at) => new Date(at).toISOString().slice(11, 19) + " UTC";
  const ago = (text) => {
    if (!text) return "";
    const s = Math.max(0, (Date.now() - new Date(text)) / 1000);
    if (s < 90) return Math.round(s) + " s";
    if (s < 5400) return Math.round(s / 60) + " min";
    if (s < 129600) return Math.round(s / 3600) + " h";
    return Math.round(s / 86400) + " d";
  };
  const empty = (columns, text) => el("tr", null, el("td", { class: "empty", colspan: columns }, text));

  // ----- views -----

  const showVerdict = (reply) => {
    const node = $("verdict");
    if (reply.ok) {
      const f = reply.body;
      node.dataset.tone = tones[f.status] || "";
      replace(node, el("b", null, words(f.status)), f.since ? ` for ${ago(f.since)}. ` : ". ", f.summary || "");
      return;
    }
    node.dataset.tone = reply.status === 0 ? "bad" : "";
    replace(node, reply.status === 0 ? "The gateway does not answer." : "The gateway answers. Enter a token to see more.");
  };

  const showReady = async () => {
    const ready = await call("/health/ready");
    const node = $("verdict");
    if (ready.ok) {
      node.dataset.tone = "good";
      replace(node, el("b", null, "ready"), ". Enter a token to see more.");
    } else {
      node.dataset.tone = "bad";
      replace(node, ready.status === 0 ? "The gateway does not answer." : "Not ready: " + why(ready));
    }
  };

  const selection = (p) => {
    if (!p.selectable) return el("span", { class: "dim" }, unselected[p.not_selectable_reason] || words(p.not_selectable_reason) || "not selectable");
    const order = ["chat", "vision", "embeddings", "images"];
    const best = (p.ranks || []).filter((r) => r.goal === "quality").sort((a, b) => order.indexOf(a.operation) - order.indexOf(b.operation) || a.rank - b.rank)[0];
    return best ? el("span", { title: best.reason }, `${best.operation} ${best.rank}`, el("span", { class: "sub" }, "by quality")) : "selectable";
  };

  const showProviders = (reply) => {
    const body = $("providers");
    providersNow = reply;
    if (!reply.ok) {
      replace(body, empty(9, rights === "none" ? "Enter a token to see the providers." : "Providers can’t be read: " + why(reply)));
      return;
    }
    // Providers in trouble first, then those with most calls.
    const weigh = { down: 0, degraded: 1, healthy: 2, unconfigured: 3 };
    const called = (p) => (p.models || []).reduce((n, m) => n + m.attempts, 0);
    const sorted = [...reply.body.providers].sort((a, b) => (weigh[a.status] ?? 2) - (weigh[b.status] ?? 2) || called(b) - called(a));
    const rows = sorted.slice(0, all ? sorted.length : FEW).map((p) => {
      const models = p.models || [];
      const calls = models.reduce((n, m) => n + m.attempts, 0);
      const errors = calls ? models.reduce((n, m) => n + m.error_rate * m.attempts, 0) / calls : 0;
      const worst = (field) => models.reduce((n, m) => Math.max(n, m[field] || 0), 0);
      const circuits = (p.breakers || []).filter((b) => b.state !== "closed");
      const chips = circuits.map((b) => el("span", { class: "chip", "data-tone": tones[b.state], title: b.last_error_class ? "last failure: " + words(b.last_error_class) : null }, `${b.model_family || "all"} ${words(b.state)} ${ago(b.since)}`));
      const bulk = p.bulkhead || {};
      return el("tr", { "data-provider": p.provider },
        el("td", null, el("b", null, p.provider), el("span", { class: "sub" }, p.dialect)),
        el("td", null, chip(words(p.status), tones[p.status]), p.status_since ? el("span", { class: "sub" }, ago(p.status_since)) : null),
        el("td", null, ...(chips.length ? chips : [el("span", { class: "dim" }, (p.breakers || []).length ? "closed" : "–")])),
        el("td", { class: "n" }, `${bulk.in_flight || 0}`, el("span", { class: "sub" }, "of " + (bulk.capacity || 0))),
        el("td", { class: calls ? "n" : "n dim" }, calls ? percent(errors) : "–", calls ? el("span", { class: "sub" }, "of " + calls) : null),
        el("td", { class: "n" }, ms(worst("latency_p50_ms"))),
        el("td", { class: "n" }, ms(worst("latency_p99_ms"))),
        el("td", { class: "n" }, ms(worst("first_token_p50_ms"))),
        el("td", null, selection(p)));
    });
    if (sorted.length > FEW) {
      const turn = () => { all = !all; showProviders(providersNow); };
      const label = all ? "Show fewer" : `Show ${sorted.length - FEW} more`;
      rows.push(el("tr", null, el("td", { class: "more", colspan: 9 }, el("button", { type: "button", class: "quiet", id: "more-providers", on: { click: turn } }, label))));
    }
    replace(body, ...(rows.length ? rows : [empty(9, "The policy has no provider.")]));
    offer(reply.body.providers.map((p) => p.provider));
  };

  // offer fills the lists of providers and keeps the selection.
  const offer = (names) => {
    for (const list of document.querySelectorAll("select[name=provider]")) {
      if (list.dataset.names === names.join()) continue;
      list.dataset.names = names.join();
      const chosen = list.value;
      replace(list, ...names.map((name) => el("option", { value: name }, name)));
      if (names.includes(chosen)) list.value = chosen;
    }
  };

  const target = (s) => s.provider + (s.model ? "/" + s.model : "");

  const showRouting = (reply) => {
    if (reply && reply.ok) versions = { pin: reply.body.pin.version, canary: reply.body.canary.version };
    const operator = rights === "operator";
    $("routing-note").textContent = operator ? "" : "Read only: changing the routing needs an operator’s token.";
    // A change names the version that it replaces, so the routing must have been shown before.
    for (const field of document.querySelectorAll("#routing input, #routing select, #routing button")) field.disabled = !operator || !versions;
    if (!reply || !reply.ok) {
      // A refresh that began before the token was known has no reply.
      $("policy-detail").textContent = operator && reply ? "The routing can’t be read: " + why(reply) : "Shown to operators.";
      return;
    }
    const { pin, canary } = reply.body;
    $("pin-state").textContent = pin.pinned ? target(pin) : "none";
    $("pin-state").dataset.tone = pin.pinned ? "warn" : "";
    $("pin-detail").textContent = pin.pinned
      ? `For ${ago(pin.since)}, by ${pin.set_by || "?"}${pin.reason ? ": " + pin.reason : ""}. There is no failover.`
      : "Every request is routed by the policy.";
    $("canary-state").textContent = canary.active ? `${target(canary)} ${canary.percentage} %` : "none";
    $("canary-state").dataset.tone = canary.active ? "calm" : "";
    $("canary-detail").textContent = canary.active
      ? `For ${ago(canary.since)}, sticky by ${canary.sticky_by}, by ${canary.set_by || "?"}.`
      : "No share of the traffic goes to a canary.";
    $("policy-detail").textContent = `Version ${reply.body.policy_version}, read ${ago(reply.body.policy_loaded_at)} ago. Goal: ${reply.body.default_goal}.`;
    const ladders = (reply.body.fallback_ladder || []).slice(0, 4);
    replace($("ladder"), ...ladders.map((l) => el("li", null, el("b", null, l.operation), el("span", null, (l.steps || []).map(target).join(" → ") || "no fallback"))));
  };

  const pretty = (value) => (value === null || value === undefined ? "not captured" : JSON.stringify(value, null, 2));

  // text returns a text that scrolls, also with the keyboard.
  const text = (label, value) => el("pre", { tabindex: "0", role: "region", "aria-label": label }, pretty(value));

  const details = (t) => el("tr", { class: "detail-row" }, el("td", { colspan: 7 },
    el("div", { class: "attempts" }, ...(t.attempts || []).map((a) => chip(`${a.number}. ${a.provider}/${a.model} ${a.outcome}${a.error ? " " + a.error : ""} ${ms(a.duration_ms)}`, tones[a.outcome]))),
    t.error ? el("p", { class: "note" }, `${t.error.error} (${t.error.error_class}), answered ${t.error.http_status}`) : null,
    t.redactions && t.redactions.length ? el("p", { class: "note" }, "Redacted: " + t.redactions.map(words).join(", ") + (t.truncated ? ". Truncated." : ".")) : null,
    el("div", { class: "texts" },
      el("div", null, el("h4", null, "Request"), text("Request", t.request)),
      el("div", null, el("h4", null, "Answer"), text("Answer", t.response)))));

  const showTraces = (reply) => {
    const body = $("traces");
    if (!organization || rights === "none") {
      replace(body, empty(7, rights === "none" ? "Enter a token to see the requests." : "Enter an organization to see its requests, with personal data redacted."));
      return;
    }
    if (!reply.ok) {
      replace(body, empty(7, "Requests can’t be read: " + why(reply)));
      return;
    }
    const rows = [];
    for (const t of reply.body.traces) {
      const key = t.request_id + t.started_at;
      const toggle = () => { opened = opened === key ? "" : key; showTraces(reply); };
      const last = (t.attempts || []).at(-1);
      const u = t.usage;
      rows.push(el("tr", {
        class: "open-able", "data-request": t.request_id, on: { click: toggle },
      },
        el("td", { class: "dim" }, time(t.started_at)),
        el("td", null, el("button", { type: "button", class: "plain mono", id: "trace-" + key, "aria-expanded": String(opened === key) }, t.request_id.slice(0, 22)), el("span", { class: "sub" }, t.operation + (t.stream ? ", stream" : ""))),
        el("td", null, chip(t.status, tones[t.status])),
        el("td", null, u ? `${u.provider_used}/${u.model_used}` : last ? `${last.provider}/${last.model}` : "–", t.attempts.length > 1 ? el("span", { class: "sub" }, t.attempts.length + " attempts") : null, u && u.cache_hit ? el("span", { class: "sub" }, "cached") : null),
        el("td", { class: "n" }, u ? `${u.prompt_tokens} → ${u.completion_tokens}` : "–"),
        el("td", { class: "n" }, u ? money(u.cost_cents) : "–"),
        el("td", { class: "n" }, ms(t.duration_ms))));
      if (opened === key) rows.push(details(t));
    }
    replace(body, ...(rows.length ? rows : [empty(7, "No recent request of this organization was recorded.")]));
  };

  const showSpend = (reply) => {
    const box = $("spend");
    $("spend-who").textContent = organization;
    if (!reply) {
      replace(box, el("p", { class: "note" }, rights === "operator" ? "Enter an organization." : "Shown to operators."));
      return;
    }
    if (!reply.ok) {
      replace(box, el("p", { class: "note" }, "The spend can’t be read: " + why(reply)));
      return;
    }
    const s = reply.body;
    const limited = s.budget_ceiling_cents > 0;
    replace(box, 
      el("p", { class: "figure" }, money(s.spent_cents), el("small", null, limited ? ` of ${money(s.budget_ceiling_cents)} a ${s.period}` : ` this ${s.period}`)),
      limited ? el("progress", { max: s.budget_ceiling_cents, value: Math.min(s.spent_cents + s.reserved_cents, s.budget_ceiling_cents) }) : el("span"),
      el("dl", null,
        el("dt", null, "Reserved for calls in flight"), el("dd", null, money(s.reserved_cents)),
        el("dt", null, "Active sessions"), el("dd", null, `${s.active_sessions}, ${money(s.active_sessions_spent_cents)}`),
        el("dt", null, "State"), el("dd", null, s.suspended ? "suspended" : "active")));
  };

  const showLeaving = (reply) => {
    const list = $("leaving");
    if (!reply.ok) {
      replace(list, el("li", { class: "dim" }, "The models can’t be read: " + why(reply)));
      return;
    }
    const left = (m) => (m.days_until_cutoff === null ? 1e6 : m.days_until_cutoff);
    const gone = reply.body.models.filter((m) => left(m) < 0);
    const coming = reply.body.models.filter((m) => left(m) >= 0).sort((a, b) => left(a) - left(b));
    const rows = coming.map((m) => {
      const days = m.days_until_cutoff;
      const tone = days === null ? "" : days <= 14 ? "bad" : days <= 45 ? "warn" : "";
      return el("li", null,
        el("span", null, m.model_id, el("span", { class: "sub dim" }, " " + (m.provider || ""))),
        chip(days === null ? words(m.status) : days + " d", tone),
        el("span", { class: "to" }, (m.cutoff_date ? m.cutoff_date.slice(0, 10) + ". " : "") + (m.successor ? "Successor: " + m.successor : "No successor is known.")));
    });
    if (!rows.length) rows.push(el("li", { class: "dim" }, "None in the next 90 days."));
    if (gone.length) rows.push(el("li", { class: "dim", title: gone.map((m) => m.model_id).join(", ") }, `${gone.length} are retired; requests for them are refused.`));
    replace(list, ...rows);
  };

  // ----- refresh and actions -----

  const showRole = (text, tone) => { $("role").textContent = text; $("role").dataset.tone = tone || ""; };

  // refresh shows the gateway's state. If a refresh is under way, another one follows it.
  const refresh = async () => {
    stale = true;
    if (busy) return;
    busy = true;
    try {
      while (stale) {
        stale = false;
        await look();
      }
    } finally {
      busy = false;
    }
  };

  // look reads everything that the page shows.
  const look = async () => {
    if (unidentified) await identify();
    const org = organization;
    const none = Promise.resolve(null);
    const [leaving, fleet, providers, routing, traces, spend] = await Promise.all([
      call("/v1/models/deprecation-notifications?limit=50"),
      known() ? call("/v1/fleet/status") : none,
      known() ? callAll("/v1/providers?limit=200", "providers") : none,
      rights === "operator" ? call("/v1/admin/routing-config") : none,
      known() && org ? call("/v1/traces?limit=25", { org }) : none,
      rights === "operator" && org ? call(`/v1/admin/orgs/${encodeURIComponent(org)}/spend`) : none,
    ]);
    const refused = { ok: false, status: 401, body: null };
    if (fleet) showVerdict(fleet); else await showReady();
    showProviders(providers || refused);
    showRouting(routing);
    showTraces(traces || refused);
    showSpend(spend);
    showLeaving(leaving);
    $("clock").textContent = "As of " + time(Date.now());
    document.body.dataset.looked = String(Number(document.body.dataset.looked || 0) + 1);
  };

  // keep keeps a token for the tab; none if it is empty.
  const keep = (text) => {
    if (relayed) return; // There is a session in its place.
    if (text) sessionStorage.setItem(KEPT, text); else sessionStorage.removeItem(KEPT);
    $("sign-out").hidden = !text;
  };

  // identify asks the gateway what the token may do, and forgets a token that is refused. If the gateway fails, the next
  // refresh asks again.
  const identify = async () => {
    const refused = (reply) => reply.status === 401 || reply.status === 403;
    const asked = token;
    const operator = await call("/v1/admin/pin-status");
    const reply = refused(operator) ? await call("/v1/providers?limit=1") : operator;
    if (asked !== token) return; // Another one was entered meanwhile.
    unidentified = !reply.ok && !refused(reply);
    if (reply.ok) {
      rights = operator.ok ? "operator" : "service";
      return showRole(operator.ok ? "operator" : "read only", operator.ok && "good");
    }
    if (refused(reply)) {
      token = "";
      keep("");
    }
    showRole(unidentified ? "no answer" : reply.status === 401 ? "not accepted" : "not permitted", "bad");
  };

  const useToken = async (text) => {
    token = text;
    rights = "none";
    unidentified = false;
    keep(text);
    if (token || relayed) await identify(); else showRole("read only");
  };

  const say = (text, tone) => { $("outcome").textContent = text; $("outcome").dataset.tone = tone || ""; };

  const acts = {
    pin: (f) => ["/v1/admin/pin", { provider: f.provider.value, model: f.model.value.trim(), reason: f.reason.value.trim(), expected_version: versions.pin }, "Pinned."],
    unpin: () => ["/v1/admin/unpin", { expected_version: versions.pin }, "The pin is cleared."],
    canary: (f) => ["/v1/admin/canary", { provider: f.provider.value, model: f.model.value.trim(), percentage: Number(f.percentage.value), sticky_by: f.sticky_by.value, expected_version: versions.canary }, "The canary is set."],
    "canary-stop": () => ["/v1/admin/canary-stop", { expected_version: versions.canary }, "The canary is stopped."],
    "reload-policy": () => ["/v1/admin/reload-policy", {}, "The files were reloaded."],
  };

  const act = async (name, form) => {
    if (rights !== "operator" || !versions) return;
    const [path, body, done] = acts[name](form && form.elements);
    const reply = await call(path, { method: "POST", body });
    if (reply.ok) say(done); else say(why(reply), "bad");
    await refresh();
  };

  $("access").addEventListener("submit", async (e) => {
    e.preventDefault();
    const text = $("token").value.trim();
    $("token").value = "";
    await useToken(text);
    await refresh();
  });
  // A new page has nothing of what the token showed.
  $("sign-out").addEventListener("click", () => { keep(""); location.reload(); });
  $("who").addEventListener("submit", async (e) => {
    e.preventDefault();
    organization = $("org").value.trim();
    opened = "";
    await refresh();
  });
  for (const name of ["pin", "canary"]) {
    $(name).addEventListener("submit", (e) => { e.preventDefault(); act(name, e.target); });
  }
  for (const button of document.querySelectorAll("button[type=button][data-act]")) {
    button.addEventListener("click", () => act(button.dataset.act, button.form));
  }
  document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
  setInterval(() => { if (!document.hidden && !busy) refresh(); }, INTERVAL);
  showRouting(null);
  if (relayed) {
    $("operators").hidden = false;
    $("access").hidden = $("kept").hidden = true;
    // The operators' console names the organization that is chosen there.
    try { organization = $("org").value = decodeURIComponent(location.hash.slice(1)); } catch { organization = ""; }
    useToken("").then(refresh);
  } else {
    useToken(sessionStorage.getItem(KEPT) ?? "").then(refresh);
  }
})();

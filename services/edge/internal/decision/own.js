// The page on which an identified person decides: by the cookie of a session of the portal, or by the token of an end user,
// which the application that leads here has put into the fragment, or the person enters.
"use strict";
const $ = (id) => document.getElementById(id);
const at = `/product/v1/ai/approvals/${location.pathname.split("/")[3]}/decision`;
let token = new URLSearchParams(location.hash.slice(1)).get("token");
let shown;
history.replaceState(null, "", location.pathname);

// visible escapes characters that are not seen, or that change the order of others.
const visible = (text) => text.replace(/[^\P{C}\n]|[^\P{Z} ]/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);

async function call(method, body) {
  const headers = { "X-Switchyard-Portal": "1", ...(body && { "Content-Type": "application/json" }), ...(token && { Authorization: `Bearer ${token}` }) };
  const response = await fetch((token ? "" : "/portal/api") + at, { method, headers, body: body && JSON.stringify(body), credentials: token ? "omit" : "same-origin" });
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw Object.assign(new Error(answer.reason || answer.error || response.statusText), { status: response.status });
  return answer;
}

function show(d) {
  shown = d;
  const name = visible([d.server_id, d.tool].filter(Boolean).join("/"));
  const pending = d.status === "pending";
  $("title").textContent = pending ? `Decide on a call of ${name}` : "This call is decided";
  const unknown = d.call?.unknown_ref;
  $("note").textContent = !pending ? `It is ${d.status}${d.decided_by ? ` by ${visible(d.decided_by)}` : ""}.` : unknown
    ? `A call with the same arguments was sent before, and its outcome is unknown (approval ${unknown}). It may have taken effect: approving can make it happen twice.` : "";
  const facts = [
    ["You decide as", d.approver], ["Organization", d.organization_id], ["Server", d.server_id], ["Tool", d.tool], ["Asked for by", d.requested_by],
    ["Run", d.run_id], ["Information from who asks", d.description], ["Rule of the policy", d.call?.rule], ["Price", d.call && `${d.call.price_cents} cents`],
    ["Definition reviewed by", d.call?.definition_reviewed_by], ["Digest of the definition", d.call?.definition_digest], ["Digest of the call", d.call?.call_digest],
    ["Hidden in the arguments", d.call?.redacted?.join(", ")], ["Asked for at", d.created_at], ["Expires at", d.expires_at], ["Reason of the decision", d.reason],
  ];
  $("facts").replaceChildren(...facts.filter(([, value]) => value).map(([label, value]) => {
    const row = document.createElement("div");
    row.append(document.createElement("dt"), document.createElement("dd"));
    row.firstChild.textContent = label;
    row.lastChild.textContent = visible(value);
    return row;
  }));
  $("arguments").textContent = d.arguments == null ? "" : visible(JSON.stringify(d.arguments, null, 2));
  $("arguments").hidden = $("arguments-title").hidden = d.arguments == null;
  $("who").hidden = true;
  $("decide").hidden = !pending;
}

// fail says why nothing is shown or decided, and asks who decides where no one is identified.
function fail(error) {
  const unidentified = !token || error.status === 401;
  $("note").textContent = [401, 404].includes(error.status) && !token ? "This page shows calls to people who are identified." : `Nothing was decided: ${error.message}.`;
  $("who").hidden = Boolean(shown) || !unidentified;
}

async function load() {
  await call("GET").then(show).catch(fail);
}

$("who").onsubmit = (event) => {
  event.preventDefault();
  token = $("token").value.trim();
  $("token").value = "";
  load();
};

$("decide").onsubmit = async (event) => {
  event.preventDefault();
  const body = { decision: event.submitter.value, reason: $("reason").value, display_version: shown.display_version };
  try {
    show(await call("POST", body));
  } catch (error) {
    await load();
    fail(error);
  }
};

load();

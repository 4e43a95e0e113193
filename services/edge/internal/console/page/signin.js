// The sign-in: the operator's token is sent once, and the session is a cookie that scripts can't read.

import { admin } from "./acting.js";
import { el, field } from "./dom.js";
import { enter } from "./frame.js";
import { act } from "./page.js";
import { t } from "./text.js";

export async function signIn(content) {
  const token = el("input", { id: "token", type: "password", required: true, maxlength: 1024, autocomplete: "off", spellcheck: "false" });
  content.append(el("p", {}, t("sign-in-how")), el("form", {
    class: "form", "aria-label": t("sign-in"), onsubmit: act(async () => {
      const value = token.value.trim();
      token.value = "";
      await admin("POST", "/session", { token: value }).catch((error) => {
        throw error.status === 401 ? new Error(t("wrong-token")) : error;
      });
      await enter();
      document.getElementById("view").focus();
    }),
  }, field(t("operator-token"), token), el("button", { class: "main", type: "submit", id: "sign-in" }, t("sign-in"))));
}

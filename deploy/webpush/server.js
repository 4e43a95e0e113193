// Others' implementations of the receiving side of web push, for the tests of
// services/notify/internal/webpush: the push service and browser of
// web-push-testing, and http_ece. Listens on loopback; the port is the argument.

import ece from "http_ece";
import { createECDH } from "node:crypto";
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);
const TestingServer = require("web-push-testing/src/server.js");
const { PushApiModel } = require("web-push-testing/src/PushApiModel.js");

const port = Number(process.argv[2]);
const service = new TestingServer(new PushApiModel(), port);
service.setRequestHandlers();

// decrypt opens a message with http_ece: {private, auth, body}, all base64url.
service._app.post("/ece", (request, response) => {
  try {
    const device = createECDH("prime256v1");
    device.setPrivateKey(Buffer.from(request.body.private, "base64url"));
    const text = ece.decrypt(Buffer.from(request.body.body, "base64url"), {
      version: "aes128gcm", privateKey: device, authSecret: request.body.auth,
    });
    response.json({ text: text.toString("base64url") });
  } catch (error) {
    response.status(400).json({ error: error.message });
  }
});

service._app.listen(port, "127.0.0.1", () => console.log("ready"));

"""Receives webhooks on this machine, and prints each with the result of the check of its signature.

Reads the secret from WEBHOOK_SECRET. The address is 127.0.0.1:9555 unless the first argument is another one, or a port of
127.0.0.1. All interfaces are 0.0.0.0 and a port.
"""

import http.server
import os
import sys
import time

from python_receiver import verify_organization


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        valid = verify_organization(os.environ["WEBHOOK_SECRET"], headers, body, time.time())
        event = headers.get("x-webhook-event", "")
        print(event, body.decode(), "signature valid" if valid else "signature invalid", flush=True)
        self.send_response(204 if valid else 401)
        self.end_headers()

    def log_message(self, *args):
        """Keeps the server's own log lines out of the output."""


if __name__ == "__main__":
    if not os.environ.get("WEBHOOK_SECRET"):
        sys.exit("WEBHOOK_SECRET must be set, as .local/demo.env has it")
    host, _, port = (sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9555").rpartition(":")
    host = host or "127.0.0.1"
    server = http.server.ThreadingHTTPServer((host, int(port)), Receiver)
    print(f"listening at http://{host}:{server.server_port}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass

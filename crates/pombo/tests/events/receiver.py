"""A receiver of webhooks that verifies with the official library and says on standard output what came.

It is told on standard input which secret to believe. What it answers depends on the path:
/ok 200, /flaky 500 at the first try of each id, /some the same for one id in eight, /gone 410, /slow never in time at
the first try of each id.
"""

import json
import sys
import threading
import time
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from standardwebhooks import Webhook, WebhookVerificationError

secret = None
seen = set()
lock = threading.Lock()


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        event = headers.get("webhook-id")
        try:
            Webhook(secret).verify(body, headers)
            verified = True
        except WebhookVerificationError as error:
            verified = str(error)
        with lock:
            first = (self.path, event) not in seen
            seen.add((self.path, event))
        some = first and zlib.crc32(event.encode()) % 8 == 0
        status = {"/gone": 410, "/flaky": 500 if first else 200, "/some": 500 if some else 200}.get(self.path, 200)
        with lock:
            line = {
                "path": self.path,
                "id": event,
                "timestamp": headers.get("webhook-timestamp"),
                "signatures": len(headers.get("webhook-signature", "").split()),
                "verified": verified,
                "status": status,
                "event": json.loads(body),
            }
            print(json.dumps(line), flush=True)
        if self.path == "/slow" and first:
            time.sleep(5)
        try:
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()
        except OSError:
            pass

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
server.daemon_threads = True
# A sender that is killed leaves connections behind.
server.handle_error = lambda *_: None
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_address[1], flush=True)
for told in sys.stdin:
    secret = told.strip()
    print(json.dumps({"believes": True}), flush=True)

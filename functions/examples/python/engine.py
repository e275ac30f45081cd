"""The contract between lbremedy's engine and a hand, for any class: signed calls, the declaration, and the HTTP server.

It needs the standard library alone. Its variables are those of a function in Go: LBREMEDY_CLUSTER, LBREMEDY_ENGINE_KEYS, PORT.
"""

import base64
import datetime
import hashlib
import http.server
import json
import os
import pathlib
import re
import signal
import sys
import threading

MOST_CALL = 4 << 20
FARTHEST = 30.0


def declaration():
    """Reads class.yaml: fields whose values are JSON, perhaps over several lines, and comments."""
    text = re.sub(r"(?m)^#.*\n", "", pathlib.Path(__file__).with_name("class.yaml").read_text())
    parts = re.split(r"(?m)^(\w+):", text)
    return {key: json.loads(value) for key, value in zip(parts[1::2], parts[2::2])}


DECLARATION = declaration()
CLASS = DECLARATION["class"]
CLUSTER = os.environ["LBREMEDY_CLUSTER"]


def digest():
    """The digest of the declaration, as both sides compute it."""
    data = {k: v for k, v in DECLARATION.items() if k != "doc"}
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


class Problem(Exception):
    """Why a call has no result; kind is one of the kinds of shared/hand, or empty."""

    def __init__(self, kind, text, answer=None):
        super().__init__(text)
        self.kind, self.answer = kind, answer


# Ed25519 (RFC 8032, section 5.1), to verify signatures. It is not fast and needs no secret.
P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
ROOT = pow(2, (P - 1) // 4, P)


def add(a, b):
    s, t = (a[1] - a[0]) * (b[1] - b[0]) % P, (a[1] + a[0]) * (b[1] + b[0]) % P
    u, v = 2 * a[3] * b[3] * D % P, 2 * a[2] * b[2] % P
    e, f, g, h = t - s, v - u, v + u, t + s
    return e * f % P, g * h % P, f * g % P, e * h % P


def times(n, a):
    sum_ = (0, 1, 1, 0)
    while n:
        if n & 1:
            sum_ = add(sum_, a)
        a, n = add(a, a), n >> 1
    return sum_


def same(a, b):
    return (a[0] * b[2] - b[0] * a[2]) % P == 0 and (a[1] * b[2] - b[1] * a[2]) % P == 0


def point(data):
    y = int.from_bytes(data, "little")
    sign, y = y >> 255, y & ((1 << 255) - 1)
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * ROOT % P
    if (x * x - square) % P or (x == 0 and sign):
        return None
    if x & 1 != sign:
        x = P - x
    return x, y, 1, x * y % P


BASE = point((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))


def verified(key, message, signature):
    if len(key) != 32 or len(signature) != 64:
        return False
    a, r, s = point(key), point(signature[:32]), int.from_bytes(signature[32:], "little")
    if a is None or r is None or s >= L:
        return False
    h = int.from_bytes(hashlib.sha512(signature[:32] + key + message).digest(), "little") % L
    return same(times(s, BASE), add(r, times(h, a)))


def unbase(text):
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if base64.urlsafe_b64encode(data).rstrip(b"=").decode() != text:
        raise ValueError("not canonical")
    return data


KEYS = {text: unbase(text) for text in os.environ["LBREMEDY_ENGINE_KEYS"].replace(",", " ").split()}
SEEN, LOCK = {}, threading.Lock()


def opened(call):
    """What a call says, if the engine has signed it for this hand and now."""
    try:
        head, body, signature = call.decode("ascii").strip().split(".")
        header, sig = json.loads(unbase(head)), unbase(signature)
        kid, alg, critical = str(header.get("kid")), header.get("alg"), "crit" in header
    except (ValueError, AttributeError):
        raise Problem("invalid", "the call is not a JWS in compact form")
    if alg != "EdDSA" or critical or kid not in KEYS or not verified(KEYS[kid], f"{head}.{body}".encode(), sig):
        raise Problem("denied", "the signature of the call is not accepted")
    try:
        event = json.loads(unbase(body))
        expires = moment(event["expires"])
        kind, ident, cluster, to, declares, data = (event[k] for k in ("type", "id", "source", "subject", "declares", "data"))
    except (ValueError, KeyError, TypeError):
        raise Problem("invalid", "the payload of the call is not a CloudEvent")
    now = datetime.datetime.now(datetime.timezone.utc).timestamp()
    if cluster != CLUSTER or to != CLASS:
        raise Problem("denied", "the call is for another cluster or class")
    if not now < expires <= now + FARTHEST:
        raise Problem("clock", "the call has expired, or expires too late")
    if declares != digest():
        raise Problem("outdated", "engine and hand have different declarations")
    failure, service = data["failure"], data["service"]
    if data["class"] != CLASS or failure["cluster"] != CLUSTER or service["metadata"]["uid"] != failure["service"]["uid"]:
        raise Problem("invalid", "the data of the call are about something else")
    with LOCK:
        for old in [k for k, end in SEEN.items() if end < now]:
            del SEEN[old]
        if ident in SEEN:
            # The order that came before may be carried out, and its answer may not reach the engine.
            raise Problem("unsure" if kind == "io.lbremedy.apply.v1" else "denied", "this call came before")
        SEEN[ident] = expires
    return kind, ident, data, expires - now


def moment(text):
    """A time of RFC 3339; Python knows microseconds only."""
    whole, _, zone = text.rpartition("Z")
    if zone or not whole:
        raise ValueError(text)
    seconds, _, part = whole.partition(".")
    return datetime.datetime.fromisoformat(seconds + "+00:00").timestamp() + float("0." + (part or "0"))


class Handler(http.server.BaseHTTPRequestHandler):
    timeout = 30
    statuses = {"denied": 401, "outdated": 409, "clock": 412}

    def do_GET(self):  # a platform asks whether the hand is alive
        self.send(200, {})

    def do_POST(self):
        try:
            size = int(self.headers.get("Content-Length", ""))
        except ValueError:
            size = -1
        if not 0 <= size <= MOST_CALL:
            self.close_connection = True
            self.send(400, {"problem": {"type": "invalid", "detail": "the call has no length, or is too long"}})
            return
        try:
            kind, ident, data, left = opened(self.rfile.read(size))
        except Problem as problem:
            self.send(self.statuses.get(problem.kind, 400), {"problem": {"type": problem.kind, "detail": str(problem)}})
            return
        answer = {"id": ident, "cluster": CLUSTER, "class": CLASS, "uid": data["failure"]["service"]["uid"], "attempt": data["attempt"]}
        try:
            if kind == "io.lbremedy.look.v1":
                answer["answer"] = self.look(data)
            elif kind == "io.lbremedy.apply.v1":
                answer["answer"] = self.apply(data, left, self.headers)
            else:
                raise Problem("invalid", "calls of this type are unknown")
        except Problem as problem:
            answer["problem"] = {"type": problem.kind, "detail": str(problem)}
            if problem.answer is not None:
                answer["answer"] = problem.answer
        except Exception as failed:  # a fault of the class must not end the process
            answer["problem"] = {"detail": f"{type(failed).__name__}: {failed}"}
        self.send(200, answer)

    def send(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def serve(look, apply):
    """Answers calls with look(data) and apply(data, seconds left, headers) until the process is asked to end."""
    handler = type("Hand", (Handler,), {"look": staticmethod(look), "apply": staticmethod(apply)})
    port = os.environ.get("FC_CUSTOM_LISTEN_PORT") or os.environ.get("PORT") or "9000"
    server = http.server.ThreadingHTTPServer(("0.0.0.0", int(port)), handler)
    server.daemon_threads = False  # what is in hand is finished
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        sys.exit(0)
    server.server_close()

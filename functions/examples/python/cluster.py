"""How a hand reaches the API server: in a Pod, by KUBE_URL, or with a kubeconfig that a function of Function Compute fetches for itself.

The variables of a function are those of infra/fc/README.md.
"""

import base64
import contextlib
import datetime
import hashlib
import hmac
import json
import os
import pathlib
import re
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid

import engine

ACCOUNT = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")
LIFE = 60  # minutes that a kubeconfig is valid
KINDS = {401: "denied", 403: "denied", 404: "not-found", 409: "moved", 429: "throttled"}


def patch(namespace, name, change, dry, left, headers):
    """Patches a Service within so many seconds, and returns it as written. A patch that holds a resource version fails on any other."""
    end = time.monotonic() + left
    url, token, tls, who = access(headers, left)
    left = end - time.monotonic()
    if left <= 0:
        raise engine.Problem("clock", "the order has expired")
    url += f"/api/v1/namespaces/{namespace}/services/{name}" + ("?dryRun=All" if dry else "")
    sent = {"Content-Type": "application/merge-patch+json", **who}
    if token:
        sent["Authorization"] = "Bearer " + token
    return answered(urllib.request.Request(url, json.dumps(change).encode(), sent, method="PATCH"), left, tls, "the API server")


def answered(request, left, tls, by):
    try:
        with urllib.request.urlopen(request, timeout=left, context=tls) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as failed:
        raise engine.Problem(KINDS.get(failed.code, "unavailable"), f"{by} answers {failed.code}")
    except OSError as failed:
        raise engine.Problem("unavailable", f"{by}: {failed}")


def access(headers, left):
    """The URL of the API server, a token, the TLS context, and headers that say as whom to act."""
    if "KUBE_URL" in os.environ:
        return os.environ["KUBE_URL"], os.environ.get("KUBE_TOKEN"), None, {}
    if os.environ.get("LBREMEDY_KUBECONFIG_FROM"):
        url, token, tls = kubeconfig(headers, left)
        return url, token, tls, {"Impersonate-User": os.environ["LBREMEDY_KUBECONFIG_AS"]}
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    host = f"[{host}]" if ":" in host else host
    token = (ACCOUNT / "token").read_text()  # the kubelet renews it
    return f"https://{host}:{port}", token, ssl.create_default_context(cafile=ACCOUNT / "ca.crt"), {}


KEPT, LOCK = {}, threading.Lock()


def kubeconfig(headers, left):
    """The access of LBREMEDY_KUBECONFIG_DATA, or that of the container service, kept in memory until five minutes before its end."""
    if os.environ["LBREMEDY_KUBECONFIG_FROM"] == "data":
        text = os.environ["LBREMEDY_KUBECONFIG_DATA"]
        return parsed(text if ":" in text else base64.b64decode(text).decode())
    with LOCK:
        now = datetime.datetime.now(datetime.timezone.utc)
        if not KEPT or now >= KEPT["until"]:
            query = {"PrivateIpAddress": "true", "TemporaryDurationMinutes": str(LIFE)}
            got = openapi("cs", "2015-12-15", "DescribeClusterUserKubeconfig", f"/k8s/{engine.CLUSTER}/user_config", query, headers, left)
            KEPT.update(access=parsed(got["config"]), until=now + datetime.timedelta(minutes=LIFE - 5))
        return KEPT["access"]


def parsed(text):
    """The access in a kubeconfig with one cluster and one user, with certificates inside, in YAML or JSON."""
    def field(name):
        found = re.search(rf'{name}"?:\s*"?([^\s",}}]+)', text)
        return found.group(1) if found else ""

    def inside(name):
        return base64.b64decode(field(name))

    tls = ssl.create_default_context(cadata=inside("certificate-authority-data").decode())
    if field("client-certificate-data"):
        # The ssl module reads a key from a file only. This file is in memory, and nobody else can open it.
        with contextlib.ExitStack() as files:
            paths = []
            for name in ("client-certificate-data", "client-key-data"):
                f = files.enter_context(os.fdopen(os.memfd_create(name), "wb", buffering=0))
                f.write(inside(name))
                paths.append(f"/proc/self/fd/{f.fileno()}")
            tls.load_cert_chain(*paths)
    return field("server").rstrip("/"), field("token"), tls


def openapi(product, version, action, path, query, headers, left):
    """Calls the OpenAPI with the role of the invocation, which Function Compute puts into the headers, signed with ACS3-HMAC-SHA256
    (https://www.alibabacloud.com/help/en/sdk/product-overview/v3-request-structure-and-signature)."""
    scheme = os.environ.get("LBREMEDY_CLOUD_SCHEME", "HTTPS").lower()
    host = os.environ.get("LBREMEDY_CLOUD_ENDPOINT") or f'{product}-anony-vpc.{os.environ["LBREMEDY_REGION"]}.aliyuncs.com'
    sent = {
        "host": host, "x-acs-action": action, "x-acs-version": version, "x-acs-signature-nonce": uuid.uuid4().hex,
        "x-acs-date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "x-acs-content-sha256": hashlib.sha256(b"").hexdigest(), "x-acs-security-token": headers["x-fc-security-token"],
    }
    names = ";".join(sorted(sent))
    asked = "&".join(f"{urllib.parse.quote(k, safe='')}={urllib.parse.quote(query[k], safe='')}" for k in sorted(query))
    lines = ["GET", path, asked, *(f"{k}:{sent[k]}" for k in sorted(sent)), "", names, sent["x-acs-content-sha256"]]
    text = "ACS3-HMAC-SHA256\n" + hashlib.sha256("\n".join(lines).encode()).hexdigest()
    signature = hmac.new(headers["x-fc-access-key-secret"].encode(), text.encode(), hashlib.sha256).hexdigest()
    sent["Authorization"] = f'ACS3-HMAC-SHA256 Credential={headers["x-fc-access-key-id"]},SignedHeaders={names},Signature={signature}'
    request = urllib.request.Request(f"{scheme}://{host}{path}?{asked}", headers=sent)
    return answered(request, left, None, f"{product}:{action}")

"""A class of lbremedy in Python, with the standard library alone: what is particular to it.

A company's admission webhook refuses Services that name no owner. The class takes the owner from a label of the Service, and asks a person if
it has none. class.yaml says what it may do; engine.py and cluster.py are the same for any class.
"""

import cluster
import engine

ANNOTATION = engine.DECLARATION["annotations"][0]
LABEL = "team"
MARK = "lbremedy.io/resync"  # of the attempt, which the engine looks for


def annotations(service):
    return service["metadata"].get("annotations") or {}


def look(data):
    missing = ANNOTATION not in annotations(data["service"])
    match data["for"]:
        case "cause" | "prove":
            return {"verdict": "yes" if missing else "no"}
        case "flow":
            return {"flow": {}}
        case "check":
            return {"state": state(data["service"], change(data["steps"][0], data.get("undo")))}
        case "compare":
            return {"plan": {"risk": "low"}}
        case "backup" | "bars" | "nothing":
            return {}
        case "diagnose":
            return {"verdict": "yes", "plan": plan(data["service"])} if missing else {"verdict": "no"}
    raise engine.Problem("invalid", "this look is unknown")


def plan(service):
    owner = (service["metadata"].get("labels") or {}).get(LABEL)
    if not owner:
        return {
            "risk": "low",
            "finding": [{"format": "The annotation %s and the label %s are missing.", "args": [ANNOTATION, LABEL]}],
            "ask": [{"format": "Set the label %s to the team that owns the Service.", "args": [LABEL]}],
        }
    return {
        "risk": "low",
        "finding": [{"format": "The annotation %s is missing, and the label %s is %s.", "args": [ANNOTATION, LABEL, owner]}],
        "steps": [{"kind": "annotate", "step": {"set": {ANNOTATION: owner}}}],
    }


def change(step, undo):
    """What a step sets, None for what it removes, and what it found."""
    body = step["step"]
    if step["kind"] not in engine.DECLARATION["steps"] or set(body["set"]) != {ANNOTATION} or body.get("remove"):
        raise engine.Problem("invalid", "the class does not declare this step")
    new, old = body["set"], body.get("was") or {}
    if undo:
        return {k: old.get(k) for k in new}, new
    return new, old


def state(service, both):
    new, old = both
    now = annotations(service)
    if all(now.get(k) == v for k, v in new.items()):
        return "found"
    return "todo" if all(now.get(k) == old.get(k) for k in new) else "moved"


def apply(data, left, headers):
    service, both = data["service"], change(data["step"], data.get("undo"))
    now = state(service, both)
    if now != "todo":
        return {"state": now}
    meta = service["metadata"]
    mark = f'{data["case"]}.{data["attempt"]}'
    patch = {"metadata": {"resourceVersion": meta["resourceVersion"], "annotations": {**both[0], MARK: mark}}}
    call = {"at": data["now"], "action": "patch services", "resource": f'{meta["namespace"]}/{meta["name"]}'}
    try:
        written = cluster.patch(meta["namespace"], meta["name"], patch, data.get("dry"), left, headers)
    except engine.Problem as problem:
        problem.answer = {"state": "todo", "calls": [{**call, "error": problem.kind}]}
        raise
    call["resourceVersion"] = written["metadata"]["resourceVersion"]
    return {"state": "done", "calls": [call], "service": written}


if __name__ == "__main__":
    engine.serve(look, apply)

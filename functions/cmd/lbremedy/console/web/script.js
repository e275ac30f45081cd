// Follows the stream of changes, and replaces the parts of the page that changed.
"use strict";

const state = document.getElementById("live");
let shown = Number(document.body.dataset.version);
let busy = false, wanted = 0;

function say(word, text) {
  if (state.dataset.state !== word) {
    state.dataset.state = word;
    state.textContent = text;
  }
}

// keep takes over what a person did to the old part: what is open, and where the focus is.
function keep(old, fresh) {
  for (const d of old.querySelectorAll("details[id]")) {
    const same = fresh.querySelector("#" + CSS.escape(d.id));
    if (same) same.open = d.open;
  }
  for (const box of old.querySelectorAll("input[type=checkbox][id]")) {
    const same = fresh.querySelector("#" + CSS.escape(box.id));
    if (same) same.checked = box.checked && same.value === box.value;
  }
}

function place(of) {
  const at = document.activeElement;
  if (!at || !of.contains(at)) return null;
  const path = [];
  for (let e = at; e !== of; e = e.parentElement) path.unshift([...e.parentElement.children].indexOf(e));
  return { box: at.matches("input") && at.id, href: at.getAttribute("href"), id: at.id || at.closest("[id]")?.id, path };
}

function restore(of, was) {
  if (!was) return;
  let at = was.box && of.querySelector("#" + CSS.escape(was.box)) || was.href && [...of.querySelectorAll("a")].find((a) => a.getAttribute("href") === was.href);
  if (!at) {
    at = of;
    for (const n of was.path) at = at?.children[n];
  }
  at?.focus({ preventScroll: true });
}

// parts are what is replaced as a whole: forms keep what somebody types into them.
function replace(fresh) {
  const main = document.getElementById("main"), next = fresh.getElementById("main");
  const names = (m) => [...m.children].map((e) => e.tagName + e.id).join(" ");
  let changed = false;
  const swap = (old, now) => {
    if (old.outerHTML === now.outerHTML) return;
    keep(old, now);
    if (old.outerHTML === now.outerHTML) return;
    const was = place(old);
    const node = document.adoptNode(now);
    old.replaceWith(node);
    restore(node, was);
    changed = true;
  };
  swap(document.getElementById("nav"), fresh.getElementById("nav"));
  if (names(main) !== names(next)) {
    if (!main.contains(document.activeElement) || !document.activeElement.matches("input, textarea, select")) swap(main, next);
  } else {
    const now = [...next.children];
    [...main.children].forEach((old, n) => { if (!old.matches("form") && !old.querySelector("form textarea, form input:not([type=hidden], [type=checkbox])")) swap(old, now[n]); });
  }
  document.title = fresh.title;
  return changed;
}

// local shows times as the browser's clock does; their titles have them in UTC.
const clock = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "long" });
function local(of) {
  for (const t of of.querySelectorAll("time[data-clock]")) t.textContent = clock.format(new Date(t.dateTime));
}
local(document);

async function refresh(anyway) {
  if (busy) return;
  busy = true;
  try {
    while (anyway || shown !== wanted) {
      anyway = false;
      const target = wanted;
      const answer = await fetch(location.href, { headers: { Accept: "text/html", "Lbremedy-Live": "1" }, cache: "no-store" });
      if (answer.status === 401) { location.reload(); return; }
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      local(fresh);
      replace(fresh);
      shown = target;
      document.body.dataset.version = String(target);
    }
  } catch {
    say("off", document.body.dataset.dead);
  } finally {
    busy = false;
  }
}

let source;
function follow() {
  source?.close();
  source = new EventSource("/live");
  source.onopen = () => say("on", document.body.dataset.live);
  source.onmessage = (e) => {
    wanted = Number(e.data);
    if (wanted !== shown) refresh();
  };
  source.onerror = () => {
    say("off", document.body.dataset.mute);
    if (source.readyState !== EventSource.CLOSED) return; // it tries again
    refresh(true); // which shows where one logs in, if that is why
    setTimeout(follow, 2000);
  };
}
follow();

// A page that nobody sees follows nothing.
document.addEventListener("visibilitychange", () => {
  source.close();
  if (!document.hidden) follow();
});
addEventListener("pagehide", () => source.close());
addEventListener("pageshow", (e) => { if (e.persisted) follow(); });

document.addEventListener("change", (e) => {
  const boxes = [...(e.target.form?.querySelectorAll("input[name=plan]") ?? [])], every = e.target.form?.querySelector("[data-every]");
  if (e.target === every) for (const box of boxes) box.checked = every.checked;
  else if (every) every.checked = boxes.every((box) => box.checked);
});

document.addEventListener("click", async (e) => {
  const button = e.target.closest("button.copy");
  if (!button) return;
  const said = document.getElementById("said");
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    said.textContent = document.body.dataset.copied + " " + button.dataset.copy;
    button.classList.add("done");
    setTimeout(() => button.classList.remove("done"), 1500);
  } catch {
    said.textContent = document.body.dataset.uncopied;
  }
});

// A letter alone is a command, unless somebody types.
document.addEventListener("keydown", (e) => {
  const keys = document.getElementById("keys");
  if (e.ctrlKey || e.metaKey || e.altKey || keys.open || document.activeElement.matches("input:not([type=checkbox]), textarea, select")) return;
  if (e.key === "?") keys.showModal();
  else if (e.key === "/") {
    const search = document.querySelector("input[type=search]");
    if (search) search.focus();
    else location.assign("/cases#search");
  } else if (e.key === "j" || e.key === "k") {
    const all = [...document.querySelectorAll(".rows th a, .incident summary, #findings > details > summary, #classes th a")].filter((a) => a.checkVisibility());
    const at = all.indexOf(document.activeElement), to = at < 0 ? 0 : e.key === "j" ? at + 1 : at - 1;
    all[Math.max(0, Math.min(to, all.length - 1))]?.focus();
  } else return;
  e.preventDefault();
});
if (location.hash === "#search") document.querySelector("input[type=search]")?.focus();

// Every page: keeps "ago" texts true, listens for changes, loads parts that take a while, performs actions.
"use strict";

const STEPS = [[86400, "d"], [3600, "h"], [60, "min"]];

/** How long ago an instant was; the server writes the same. */
function ago(at) {
  const seconds = (Date.now() - Date.parse(at)) / 1000;
  if (seconds < 1) return "just now";
  for (const [size, unit] of STEPS) if (seconds >= size) return `${Math.floor(seconds / size)} ${unit} ago`;
  return `${Math.floor(seconds)} s ago`;
}

function tellTheTime() {
  for (const element of document.querySelectorAll("[data-ago]")) {
    const text = ago(element.dataset.ago);
    if (element.textContent !== text) element.textContent = text;
  }
}

let hiding = 0;

/** Say something to the person, for a while. */
function say(text) {
  const message = document.getElementById("message");
  message.textContent = text;
  message.hidden = false;
  clearTimeout(hiding);
  hiding = setTimeout(() => { message.hidden = true; }, 12000);
}

/** This page, or another one, as the server shows it now. */
async function fetchPage(path) {
  const response = await fetch(path, { headers: { accept: "text/html" } });
  return new DOMParser().parseFromString(await response.text(), "text/html");
}

/** Replace an element's content, unless it is the same or the person is inside it with the keyboard. */
function replaceContent(element, fresh) {
  if (!fresh || element.innerHTML === fresh.innerHTML) return;
  const focused = element.contains(document.activeElement) ? document.activeElement : null;
  const mark = focused && (focused.dataset.action || focused.getAttribute("href") || focused.getAttribute("aria-label"));
  element.replaceChildren(...document.importNode(fresh, true).childNodes);
  element.hidden = fresh.hidden;
  if (!mark) return;
  for (const each of element.querySelectorAll("button, a, [tabindex]")) {
    if ([each.dataset.action, each.getAttribute("href"), each.getAttribute("aria-label")].includes(mark)) return each.focus();
  }
  const button = element.querySelector("button");
  if (button) button.focus();
}

/** Bring the live parts of the page up to date. */
async function refreshLiveParts() {
  const fresh = await fetchPage(location.href);
  for (const element of document.querySelectorAll("[data-live]")) {
    replaceContent(element, fresh.getElementById(element.id));
    const twin = fresh.getElementById(element.id);
    if (twin) element.hidden = twin.hidden;
  }
  tellTheTime();
}

/** Fill a part that has an address of its own. */
async function load(element) {
  try {
    const fresh = await fetchPage(element.dataset.load);
    replaceContent(element, fresh.getElementById(element.id) || fresh.getElementById("problem"));
  } catch {
    // The link to the same content stays where it is.
  }
}

const liveParts = { running: false, wanted: false };

/** One update at a time; what comes meanwhile makes one more. */
async function update() {
  liveParts.wanted = true;
  if (liveParts.running || !document.querySelector("[data-live]")) return;
  liveParts.running = true;
  try {
    while (liveParts.wanted) {
      liveParts.wanted = false;
      await refreshLiveParts();
      for (const element of document.querySelectorAll("[data-load][data-follow]")) await load(element);
    }
  } catch {
    // The server is away; the connection's own notice says so.
  } finally {
    liveParts.running = false;
  }
}

/** What the head of every page says. */
function showLake(change) {
  document.body.dataset.revision = change.revision;
  document.getElementById("snapshot").textContent = change.snapshot;
  const scheduler = document.getElementById("scheduler");
  scheduler.textContent = change.scheduler.toLowerCase().replace("_", " ");
  scheduler.setAttribute("class", `state-${change.scheduler}`);
  const errors = document.getElementById("error-count");
  errors.textContent = ` ${change.errors}`;
  errors.hidden = change.errors === 0;
  for (const button of document.querySelectorAll("[data-when-paused]")) {
    button.hidden = (button.dataset.whenPaused === "true") !== (change.scheduler === "PAUSED");
  }
}

let events = null;

function listen() {
  if (events || document.hidden) return;
  events = new EventSource(`/api/events?seen=${document.body.dataset.revision}`);
  events.addEventListener("open", () => { document.getElementById("connection").textContent = ""; });
  events.addEventListener("error", () => { document.getElementById("connection").textContent = "· not connected, trying again"; });
  events.addEventListener("change", (event) => {
    const change = JSON.parse(event.data);
    showLake(change);
    document.dispatchEvent(new CustomEvent("lake-changed", { detail: change }));
    update();
  });
}

/** A hidden tab holds no connection: a browser has few of them for one server. */
function listenWhileVisible() {
  if (!document.hidden) return listen();
  if (events) events.close();
  events = null;
}

/** Perform what a button says, and say how it went. */
async function act(button) {
  button.disabled = true;
  button.setAttribute("aria-busy", "true");
  try {
    const response = await fetch(button.dataset.action, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: "{}",
    });
    const answer = await response.json();
    if (response.ok) say(summary(button.dataset.done, answer));
    else say([`${answer.code}: ${answer.message}`, answer.detail, answer.hint && `Hint: ${answer.hint}`].filter(Boolean).join("\n"));
  } catch {
    say("The server did not answer.");
  } finally {
    button.disabled = false;
    button.removeAttribute("aria-busy");
    update();
  }
}

function summary(done, answer) {
  if (!answer.nodes) return `${done[0].toUpperCase()}${done.slice(1)}.`;
  const lines = answer.nodes.slice(0, 8).map((node) => `${node.name}: ${node.action} ${node.reason}${node.error ? `: ${node.error.message}` : ""}`);
  const more = answer.nodes.length > 8 ? [`and ${answer.nodes.length - 8} more`] : [];
  return [`Snapshot ${answer.snapshot}, ${answer.seconds.toFixed(2)} s`, ...lines, ...more].join("\n");
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-action]");
  if (button) act(button);
});
document.addEventListener("visibilitychange", listenWhileVisible);
addEventListener("pagehide", () => { if (events) events.close(); });
for (const element of document.querySelectorAll("[data-load]")) load(element);
// When all scripts are there: an event that came before would find nobody to draw what it tells.
document.addEventListener("DOMContentLoaded", () => { if (document.getElementById("snapshot")) listenWhileVisible(); });
tellTheTime();
setInterval(tellTheTime, 1000);

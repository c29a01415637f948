// The graph: boxes brought up to date as ticks happen, zoom, find, arrow keys.
"use strict";

const graph = { scale: 1 };
const svg = () => document.getElementById("graph");
const boxes = () => [...document.querySelectorAll(".box")];

function setText(parent, selector, text) {
  const element = parent.querySelector(selector);
  if (element && element.textContent !== text) element.textContent = text;
}

/** Show a card in a box or in a line of the list. */
function show(parent, card) {
  const since = parent.querySelector(".ago");
  if (card.since) since.dataset.ago = card.since;
  else delete since.dataset.ago;
  setText(parent, ".since-text", card.since_text);
  setText(parent, ".ago", card.since ? ago(card.since) : "");
  setText(parent, ".did", card.action);
  setText(parent, ".facts", card.facts);
}

function showCards(cards) {
  const places = new Map(boxes().map((box) => [box.dataset.name, box]));
  const lines = new Map([...document.querySelectorAll("#list tbody tr")].map((line) => [line.dataset.name, line]));
  for (const card of cards) {
    const box = places.get(card.name);
    if (box) {
      show(box, card);
      setText(box, ".label", card.label);
      setText(box, ".mark", card.mark);
      setText(box, "title", card.summary);
      box.setAttribute("class", `box state-${card.state} changed`);
      setTimeout(() => box.classList.remove("changed"), 2000);
    }
    const line = lines.get(card.name);
    if (line) {
      show(line, card);
      const badge = line.querySelector(".badge");
      badge.textContent = card.label;
      badge.setAttribute("class", `badge state-${card.state}`);
    }
  }
  find();
}

/** The tables or what they read are others: draw anew. */
async function redraw() {
  const fresh = await fetchPage("/").catch(() => null);
  if (!fresh) return void setTimeout(redraw, 1000);
  for (const id of ["drawing", "list"]) replaceContent(document.getElementById(id), fresh.getElementById(id));
  zoom(graph.scale);
  find();
}

function zoom(scale) {
  const picture = svg();
  if (!picture) return;
  graph.scale = Math.min(3, Math.max(0.1, scale));
  picture.setAttribute("width", picture.dataset.width * graph.scale);
  picture.setAttribute("height", picture.dataset.height * graph.scale);
}

function fit() {
  const canvas = document.getElementById("canvas");
  if (canvas) zoom(Math.min(1, (canvas.clientWidth - 4) / svg().dataset.width));
}

/** Fade what does not match. */
function find() {
  const wanted = document.getElementById("find").value.trim().toLowerCase();
  for (const box of boxes()) {
    const found = !wanted || box.querySelector("title").textContent.toLowerCase().includes(wanted);
    box.classList.toggle("faded", !found);
  }
}

function goToFound() {
  const found = boxes().find((box) => !box.classList.contains("faded"));
  if (found) found.focus();
}

const MOVES = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** The box next to this one: in its layer above or below, or the nearest one in the layer beside. */
function neighbour(box, [layers, rows]) {
  const layer = Number(box.dataset.layer) + layers;
  const beside = boxes().filter((each) => Number(each.dataset.layer) === layer);
  if (rows) return beside.find((each) => Number(each.dataset.row) === Number(box.dataset.row) + rows);
  const height = (each) => each.transform.baseVal[0].matrix.f;
  return beside.sort((one, other) => Math.abs(height(one) - height(box)) - Math.abs(height(other) - height(box)))[0];
}

document.addEventListener("keydown", (event) => {
  const box = document.activeElement && document.activeElement.closest(".box");
  if (box && MOVES[event.key]) {
    const next = neighbour(box, MOVES[event.key]);
    if (next) {
      event.preventDefault();
      next.focus();
      next.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
  } else if (event.key === "/" && !event.target.closest("input")) {
    event.preventDefault();
    document.getElementById("find").focus();
  } else if (event.key === "Enter" && event.target.id === "find") {
    goToFound();
  }
});
document.addEventListener("lake-changed", (event) => {
  if (event.detail.redraw) redraw();
  else showCards(event.detail.cards);
});
document.getElementById("find").addEventListener("input", find);
document.getElementById("smaller").addEventListener("click", () => zoom(graph.scale / 1.25));
document.getElementById("larger").addEventListener("click", () => zoom(graph.scale * 1.25));
document.getElementById("fit").addEventListener("click", fit);

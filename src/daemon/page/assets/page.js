// The page. It follows the daemon's events and updates sources, filter, matrix and panel.

import { PageModel, FAILURES } from "./model.js";
import { clock, element, icon } from "./dom.js";
import { Grid } from "./grid.js";
import { Panel } from "./panel.js";
import { drawSources, verdict } from "./sources.js";

const BEAT = 10_000; // the daemon says something at least this often
const AGAIN = [1_000, 2_000, 5_000, 10_000]; // before each new try to connect

const at = (id) => document.getElementById(id);
const model = new PageModel();
const filter = { cluster: "", work: "", source: null, states: new Set(), order: "name", fold: true };
const live = { state: "connecting", heard: null, tries: 0, events: null };

const panel = new Panel(at("panel"), () => {
  remember();
  at("grid").focus({ preventScroll: true });
});

const grid = new Grid(at("grid"), model, (cluster, column) => {
  const { source, work } = model.columns[column];
  panel.open(model.sources[source].id, model.clusters[cluster], work);
  remember();
});

// --- following the daemon

function connect() {
  live.events?.close();
  const events = new EventSource("/api/events");
  live.events = events;
  events.addEventListener("whole", (event) => {
    model.applyWhole(JSON.parse(event.data));
    heard();
    draw();
    panel.refresh();
    openRemembered();
  });
  events.addEventListener("change", (event) => {
    const touched = model.applyChange(JSON.parse(event.data));
    heard();
    // A change is missing: a new connection starts with the whole model.
    if (touched === null) return connect();
    draw();
    refreshPanel(touched);
  });
  events.addEventListener("beat", heard);
  events.addEventListener("error", () => {
    events.close();
    if (live.events !== events) return;
    live.events = null;
    setLive("lost");
    const wait = AGAIN[Math.min(live.tries, AGAIN.length - 1)];
    live.tries += 1;
    setTimeout(connect, wait);
  });
}

function heard() {
  live.heard = Date.now();
  live.tries = 0;
  setLive("live");
}

function setLive(state) {
  if (live.state === state) return;
  live.state = state;
  drawLive();
}

function watchTheClock() {
  // A connection may break unnoticed, for example while a laptop sleeps.
  if (live.state === "live" && Date.now() - live.heard > 2.5 * BEAT) {
    setLive("stale");
    connect();
  }
  panel.tick();
}

function drawLive() {
  const words = {
    connecting: ["busy", "Connecting …"],
    live: ["live", "Live"],
    stale: ["lost", "Out of date"],
    lost: ["lost", "Disconnected"],
  };
  const [symbol, word] = words[live.state];
  at("live").className = `live l-${live.state}`;
  at("live").replaceChildren(icon(symbol), element("span", "", word));
  const isOld = live.state === "stale" || live.state === "lost";
  document.body.classList.toggle("old", isOld);
  at("old").hidden = !isOld;
  at("old").textContent = live.heard
    ? `The daemon does not respond. Last update: ${clock(live.heard)}. Retrying.`
    : "The daemon does not respond. Retrying.";
}

function refreshPanel(touched) {
  if (!panel.isOpen) return;
  const { source, cluster, work } = panel.shown;
  const number = model.find(source, cluster, work);
  // A work panel shows holds, too.
  const isTouched = number && touched.some(([row, column]) => row === number[0] && column === number[1]);
  if (isTouched || panel.content.querySelector(".note.held, .note.lost")) panel.refresh();
}

// --- drawing

function draw() {
  const view = model.view(filter);
  at("line").replaceChildren(verdict(model.verdict), element("span", "text", model.line));
  at("line").title = model.line;
  document.title = `${{ success: "✓", pending: "…", failure: "✕" }[model.verdict]} ${model.line} – gitwork`;
  drawSources(at("sources"), model);
  drawSourceChoice();
  drawChips(view);
  grid.show(view);
  const { clusters } = view;
  at("fold-field").hidden = model.groups.length === 0;
  at("count").textContent = `${view.works} work${view.works === 1 ? "" : "s"} on ${clusters} cluster${clusters === 1 ? "" : "s"}`;
  drawEmpty(view);
}

function drawEmpty(view) {
  const isEmpty = view.rows.length === 0;
  at("empty").hidden = !isEmpty;
  at("grid").hidden = isEmpty;
  if (!isEmpty) return;
  const isFiltered = filter.cluster || filter.work || filter.source !== null || filter.states.size > 0;
  const title = isFiltered ? "Nothing matches the filter" : "No works yet";
  const text = isFiltered
    ? "No work has this name and this state."
    : "Works appear here once a source has been read. Each folder clusters/<cluster>/<work> in Git is a work.";
  at("empty-title").textContent = title;
  at("empty-text").textContent = text;
  at("empty-clear").hidden = !isFiltered;
}

// One chip for each state with works, and for each selected state.
function drawChips(view) {
  const root = at("states");
  for (const [number, state] of model.states.entries()) {
    let chip = at(`chip-${state}`);
    if (!chip) {
      chip = element("button", "chip", element("span", `mark s-${state}`, icon(state)), element("span", "", state), element("span", "number"));
      chip.id = `chip-${state}`;
      chip.type = "button";
      chip.addEventListener("click", () => {
        if (!filter.states.delete(state)) filter.states.add(state);
        draw();
      });
      root.append(chip);
    }
    const count = view.counts[number];
    const isChosen = filter.states.has(state);
    chip.hidden = count === 0 && !isChosen;
    chip.setAttribute("aria-pressed", String(isChosen));
    chip.classList.toggle("alarm", FAILURES.has(state));
    const shown = chip.lastChild;
    if (shown.textContent !== String(count)) shown.textContent = String(count);
  }
}

function drawSourceChoice() {
  const choice = at("source");
  at("source-field").hidden = model.sources.length < 2;
  const ids = model.sources.map((source) => source.id);
  if (choice.dataset.ids === ids.join()) return;
  choice.dataset.ids = ids.join();
  const option = (value, text) => {
    const made = element("option", "", text);
    made.value = value;
    return made;
  };
  choice.replaceChildren(option("", "all sources"), ...ids.map((id, number) => option(String(number), id)));
  choice.value = filter.source === null ? "" : String(filter.source);
}

// --- the filter

function onFilter() {
  filter.cluster = at("cluster").value;
  filter.work = at("work").value;
  filter.source = at("source").value === "" ? null : Number(at("source").value);
  filter.order = at("order").value;
  filter.fold = at("fold").checked;
  draw();
}

function clearFilter() {
  for (const id of ["cluster", "work", "source"]) at(id).value = "";
  filter.states.clear();
  onFilter();
  at("cluster").focus();
}

for (const id of ["cluster", "work"]) at(id).addEventListener("input", onFilter);
for (const id of ["source", "order", "fold"]) at(id).addEventListener("change", onFilter);
at("empty-clear").addEventListener("click", clearFilter);
at("filter").addEventListener("submit", (event) => event.preventDefault());

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName ?? "");
  if (event.key === "Escape" && panel.isOpen) panel.close();
  else if (event.key === "Escape" && isTyping) at("grid").focus();
  else if (event.key === "/" && !isTyping) at("cluster").focus();
  else return;
  event.preventDefault();
});

// --- the URL of an open work, for sharing

function remember() {
  const fragment = panel.isOpen ? `#${new URLSearchParams(panel.shown)}` : "";
  history.replaceState(null, "", location.pathname + fragment);
}

function openRemembered() {
  const named = new URLSearchParams(location.hash.slice(1));
  const [source, cluster, work] = ["source", "cluster", "work"].map((name) => named.get(name));
  if (!source || !cluster || !work || panel.isOpen) return;
  const number = model.find(source, cluster, work);
  if (!number) return;
  grid.activate(...number);
  panel.open(source, cluster, work);
}

window.addEventListener("hashchange", openRemembered);
drawLive();
connect();
setInterval(watchTheClock, 1_000);

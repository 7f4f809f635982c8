// The page: it follows the daemon's events, and keeps the sources, the filter, the matrix and the panel as they say.

import { Board, FAILURES } from "./board.js";
import { clock, element, icon } from "./dom.js";
import { Grid } from "./grid.js";
import { Panel } from "./panel.js";
import { drawSources, verdict } from "./sources.js";

const BEAT = 10_000; // the daemon says something at least this often
const AGAIN = [1_000, 2_000, 5_000, 10_000]; // before each new try to connect

const at = (id) => document.getElementById(id);
const board = new Board();
const filter = { cluster: "", work: "", source: null, states: new Set(), order: "name" };
const live = { state: "connecting", heard: null, tries: 0, events: null };

const panel = new Panel(at("panel"), () => {
  remember();
  at("grid").focus({ preventScroll: true });
});

const grid = new Grid(at("grid"), board, (cluster, column) => {
  const { source, work } = board.columns[column];
  panel.open(board.sources[source].id, board.clusters[cluster], work);
  remember();
});

// --- following the daemon

function connect() {
  live.events?.close();
  const events = new EventSource("/api/events");
  live.events = events;
  events.addEventListener("whole", (event) => {
    board.takeWhole(JSON.parse(event.data));
    heard();
    draw();
    panel.refresh();
    openRemembered();
  });
  events.addEventListener("change", (event) => {
    const touched = board.takeChange(JSON.parse(event.data));
    heard();
    // Something is missing: a new connection begins with the whole.
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
  // A connection may die without a word; a laptop may have slept.
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
    ? `The daemon does not answer. What is shown is as of ${clock(live.heard)}; trying again.`
    : "The daemon does not answer; trying again.";
}

function refreshPanel(touched) {
  if (!panel.isOpen) return;
  const { source, cluster, work } = panel.shown;
  const number = board.find(source, cluster, work);
  // A hold is told in a work's panel too.
  const isTouched = number && touched.some(([row, column]) => row === number[0] && column === number[1]);
  if (isTouched || panel.content.querySelector(".note.held, .note.lost")) panel.refresh();
}

// --- drawing

function draw() {
  const view = board.view(filter);
  at("line").replaceChildren(verdict(board.verdict), element("span", "text", board.line));
  at("line").title = board.line;
  document.title = `${{ success: "✓", pending: "…", failure: "✕" }[board.verdict]} ${board.line} – gitwork`;
  drawSources(at("sources"), board);
  drawSourceChoice();
  drawChips(view);
  grid.show(view);
  const clusters = view.rows.length;
  at("count").textContent = `${view.works} work${view.works === 1 ? "" : "s"} on ${clusters} cluster${clusters === 1 ? "" : "s"}`;
  drawEmpty(view);
}

function drawEmpty(view) {
  const isEmpty = view.rows.length === 0;
  at("empty").hidden = !isEmpty;
  at("grid").hidden = isEmpty;
  if (!isEmpty) return;
  const isFiltered = filter.cluster || filter.work || filter.source !== null || filter.states.size > 0;
  const title = isFiltered ? "Nothing fits the filter" : "No works yet";
  const text = isFiltered
    ? "No work has such a name and such a state."
    : "Works are shown here once a source has been read: a folder clusters/<cluster>/<work> in Git is one.";
  at("empty-title").textContent = title;
  at("empty-text").textContent = text;
  at("empty-clear").hidden = !isFiltered;
}

// One chip for each state that there is, and for those that are chosen.
function drawChips(view) {
  const root = at("states");
  for (const [number, state] of board.states.entries()) {
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
  at("source-field").hidden = board.sources.length < 2;
  const ids = board.sources.map((source) => source.id);
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
  draw();
}

function clearFilter() {
  for (const id of ["cluster", "work", "source"]) at(id).value = "";
  filter.states.clear();
  onFilter();
  at("cluster").focus();
}

for (const id of ["cluster", "work"]) at(id).addEventListener("input", onFilter);
for (const id of ["source", "order"]) at(id).addEventListener("change", onFilter);
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

// --- the address of an open work, to be sent to somebody

function remember() {
  const fragment = panel.isOpen ? `#${new URLSearchParams(panel.shown)}` : "";
  history.replaceState(null, "", location.pathname + fragment);
}

function openRemembered() {
  const named = new URLSearchParams(location.hash.slice(1));
  const [source, cluster, work] = ["source", "cluster", "work"].map((name) => named.get(name));
  if (!source || !cluster || !work || panel.isOpen) return;
  const number = board.find(source, cluster, work);
  if (!number) return;
  grid.activate(...number);
  panel.open(source, cluster, work);
}

window.addEventListener("hashchange", openRemembered);
drawLive();
connect();
setInterval(watchTheClock, 1_000);

// The list of sources: commit, state, and actions for the user.

import { command, element, untrusted, icon, link, short } from "./dom.js";

const VERDICTS = { success: ["done", "done"], pending: ["busy", "in progress"], failure: ["bad", "needs attention"] };

export function verdict(name) {
  const [symbol, word] = VERDICTS[name] ?? VERDICTS.pending;
  return element("span", `verdict v-${name}`, icon(symbol), element("span", "unseen", word));
}

export function drawSources(root, model) {
  const text = JSON.stringify(model.sources);
  if (root.dataset.text === text) return;
  root.dataset.text = text;
  // The header already shows the line of a single source.
  root.replaceChildren(...model.sources.map((one) => source(one, model.sources.length > 1)));
  root.classList.toggle("many", model.sources.length > 1);
}

function source(one, withLine) {
  const state = one.trouble ? "failure" : (one.verdict ?? "pending");
  const head = element(
    "div", "source-head",
    verdict(state),
    element("strong", "", one.id),
    one.commit && link(one.commitUrl, short(one.commit), "commit"),
    untrusted("span", "quiet where", one.reference ? `${one.repository} · ${one.reference}` : one.repository),
  );
  const line = one.line ?? (one.trouble ? "not read yet" : "being read …");
  return element(
    "li", "source",
    head,
    (withLine || !one.known) && untrusted("p", "line", line),
    one.trouble && note("bad", "The source cannot be read; the hub stays unchanged", one.trouble),
    one.firstError && note("bad", one.errors === 1 ? "1 error in Git" : `${one.errors} errors in Git; the first`, one.firstError),
    !one.leads && note("held", "Another replica is the leader for this source", "This replica is a standby: it shows the state on the hub, but not why the leader holds a change or failed to write it."),
    one.held.map((held) => heldNote(held)),
    one.rollouts?.map(rollout),
  );
}

// A rollout of a group: what it waits for, and a band with a part for each wave.
function rollout(one) {
  const parts = one.waves.map((wave) => {
    const title = wave.name === "*" ? "last wave" : wave.name;
    const states = ["done", "soaking", "progressing", "failed", "offline", "waiting"].filter((state) => wave[state] > 0);
    const bar = element("span", "bar");
    bar.append(...states.map((state) => {
      const part = element("span", `part p-${state}`);
      part.style.flexGrow = wave[state];
      return part;
    }));
    const text = states.map((state) => `${wave[state]} ${state}`).join(", ");
    const item = element("li", wave.name === one.wave ? "now" : "", untrusted("span", "wave", title), bar, element("span", "quiet", text));
    if (wave.name === one.wave) item.setAttribute("aria-current", "step");
    return item;
  });
  return element(
    "div", `rollout${one.held ? " held" : ""}`,
    untrusted("p", "", one.line),
    element("ol", "waves", ...parts),
  );
}

function note(symbol, title, text) {
  return element("div", `note ${symbol}`, icon(symbol), element("div", "", element("strong", "", title), untrusted("p", "", text)));
}

// A held change, its size, and the command that approves it.
export function heldNote(held, isOpen = false) {
  const [one, many] = held.guard === "budget" ? ["deletion waits", "deletions wait"] : ["change waits", "changes wait"];
  const title = `${held.works} ${held.works === 1 ? one : many} for ${held.guard === "window" ? "a window, or " : ""}approval`;
  const details = element(
    "details", "",
    element("summary", "", element("strong", "", title)),
    element("p", "", `Held: ${held.why}. To approve only this:`),
    command(held.command),
  );
  details.open = isOpen;
  return element("div", "note held", icon("held"), details);
}

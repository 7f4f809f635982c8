// The list of sources: commit, what it has come to, and what somebody has to do.

import { command, element, foreign, icon, link, short } from "./dom.js";

const VERDICTS = { success: ["done", "done"], pending: ["busy", "in progress"], failure: ["bad", "needs attention"] };

export function verdict(name) {
  const [symbol, word] = VERDICTS[name] ?? VERDICTS.pending;
  return element("span", `verdict v-${name}`, icon(symbol), element("span", "unseen", word));
}

export function drawSources(root, board) {
  const text = JSON.stringify(board.sources);
  if (root.dataset.text === text) return;
  root.dataset.text = text;
  // The line of an only source stands above everything already.
  root.replaceChildren(...board.sources.map((told) => source(told, board.sources.length > 1)));
  root.classList.toggle("many", board.sources.length > 1);
}

function source(told, withLine) {
  const state = told.trouble ? "failure" : (told.verdict ?? "pending");
  const head = element(
    "div", "source-head",
    verdict(state),
    element("strong", "", told.id),
    told.commit && link(told.commitUrl, short(told.commit), "commit"),
    foreign("span", "quiet where", told.reference ? `${told.repository} · ${told.reference}` : told.repository),
  );
  const line = told.line ?? (told.trouble ? "not read yet" : "being read …");
  return element(
    "li", "source",
    head,
    (withLine || !told.known) && foreign("p", "line", line),
    told.trouble && note("bad", "The source cannot be read; the hub stays as it is", told.trouble),
    told.firstError && note("bad", told.errors === 1 ? "An error in Git" : `${told.errors} errors in Git; the first`, told.firstError),
    !told.leads && note("held", "Another daemon leads this source", "This one stands by: it shows what the hub says, and not why the leader holds or could not write something."),
    told.held.map((held) => heldNote(held)),
  );
}

function note(symbol, title, text) {
  return element("div", `note ${symbol}`, icon(symbol), element("div", "", element("strong", "", title), foreign("p", "", text)));
}

// What is held, how much of it, and the command that lets it through: at hand, but out of the way.
export function heldNote(held, isOpen = false) {
  const [one, many] = held.guard === "budget" ? ["deletion waits", "deletions wait"] : ["change waits", "changes wait"];
  const title = `${held.works} ${held.works === 1 ? one : many} for ${held.guard === "window" ? "a window, or " : ""}approval`;
  const details = element(
    "details", "",
    element("summary", "", element("strong", "", title)),
    element("p", "", `Held: ${held.why}. To let just this through:`),
    command(held.command),
  );
  details.open = isOpen;
  return element("div", "note held", icon("held"), details);
}

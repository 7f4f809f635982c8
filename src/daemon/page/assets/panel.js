// All that is known of one work, in a panel beside the matrix.

import { age, element, foreign, icon, link, short } from "./dom.js";
import { heldNote } from "./sources.js";

export class Panel {
  // `closed` is called once it was closed.
  constructor(root, closed) {
    Object.assign(this, { root, closed, shown: null, text: "" });
    this.title = root.querySelector("#panel-title");
    this.content = root.querySelector("#panel-content");
    root.querySelector("#panel-close").addEventListener("click", () => this.close());
  }

  get isOpen() {
    return this.shown !== null;
  }

  open(source, cluster, work) {
    this.shown = { source, cluster, work };
    this.text = "";
    this.title.replaceChildren(element("span", "", cluster), element("span", "quiet", " / "), element("span", "", work));
    this.content.replaceChildren(element("p", "quiet", "Loading …"));
    this.root.hidden = false;
    document.body.classList.add("with-panel");
    this.title.focus({ preventScroll: true });
    return this.refresh();
  }

  close() {
    if (!this.isOpen) return;
    this.shown = null;
    this.root.hidden = true;
    document.body.classList.remove("with-panel");
    this.closed();
  }

  async refresh() {
    const wanted = this.shown;
    if (!wanted) return;
    const path = [wanted.source, wanted.cluster, wanted.work].map(encodeURIComponent).join("/");
    let text;
    try {
      const answer = await fetch(`/api/works/${path}`);
      if (answer.status === 404) text = "gone";
      else if (answer.ok) text = await answer.text();
      else throw new Error(String(answer.status));
    } catch {
      if (this.shown === wanted && this.text === "") {
        this.content.replaceChildren(element("p", "", "The daemon does not answer. It is asked again once it does."));
      }
      return;
    }
    if (this.shown !== wanted || this.text === text) return;
    this.text = text;
    if (text === "gone") this.content.replaceChildren(element("p", "", "This work is no more."));
    else this.content.replaceChildren(...content(JSON.parse(text)));
  }

  // Ages go on while nothing changes.
  tick() {
    for (const time of this.content.querySelectorAll("time")) time.textContent = age(Date.parse(time.dateTime), Date.now());
  }
}

function since(time, before) {
  const at = Date.parse(time);
  if (Number.isNaN(at)) return null;
  const made = element("time", "", age(at, Date.now()));
  made.dateTime = time;
  made.title = new Date(at).toLocaleString();
  return element("span", "quiet", before, made);
}

function content(work) {
  return [
    summary(work),
    work.unreachable && element(
      "div", "note lost",
      icon("lost"),
      element("div", "", element("strong", "", "Cluster unreachable"),
        element("p", "", "The hub has lost touch with it. This is what it said last.")),
    ),
    work.why && reason(work),
    work.held && heldNote(work.held, true),
    work.message && section("What the agent says", foreign("pre", "message", work.message)),
    conditions(work.conditions),
    objects(work),
  ].filter(Boolean);
}

function summary(work) {
  const facts = element("dl", "facts");
  const fact = (name, ...value) => facts.append(element("dt", "", name), element("dd", "", ...value));
  fact("State", element("span", `mark s-${work.state}`, icon(work.state), element("span", "word", work.state)),
    since(work.since, " for "));
  fact("Objects", work.manifests > 0 ? `${work.manifestsApplied} of ${work.manifests} applied` : "none on the hub");
  if (work.commit) fact("Commit", link(work.commitUrl, short(work.commit), "commit"));
  if (work.path) fact("Folder", link(work.folderUrl, work.path, ""));
  fact("Source", work.source);
  return facts;
}

function reason(work) {
  const isBad = ["failed", "degraded", "frozen"].includes(work.state);
  return element(
    "div", `note ${isBad ? "bad" : "plain"}`,
    icon(work.state),
    element("div", "", element("strong", "", "Why"), foreign("p", "", work.why)),
  );
}

function section(title, ...content) {
  return element("section", "", element("h3", "", title), ...content);
}

const GOOD = { Progressing: "False", Degraded: "False" };

function condition(told) {
  const isGood = told.status === (GOOD[told.type] ?? "True");
  return element(
    "li", `condition ${told.outdated ? "outdated" : isGood ? "good" : "wrong"}`,
    element(
      "div", "condition-head",
      icon(told.outdated ? "pending" : isGood ? "applied" : "failed"),
      foreign("strong", "", told.type),
      foreign("span", "", told.status),
      told.reason && foreign("span", "quiet", told.reason),
      told.outdated && element("span", "tag", "of an older generation"),
      told.since && since(told.since, ""),
    ),
    told.message && foreign("p", "message", told.message),
  );
}

function conditions(all) {
  if (!all || all.length === 0) return null;
  return section("Conditions", element("ul", "plain", ...all.map(condition)));
}

function objects(work) {
  const left = work.objectsLeftOut ?? 0;
  if (work.objects.length === 0 && left === 0) return null;
  return section(
    "Objects",
    ...work.objects.map((object) => {
      const values = element("dl", "facts feedback");
      for (const [name, value] of Object.entries(object.feedback)) {
        values.append(foreign("dt", "", name), foreign("dd", "", value));
      }
      return element(
        "div", "object",
        foreign("h4", "", object.object),
        values.children.length > 0 && values,
        object.conditions.length > 0 && element("ul", "plain", ...object.conditions.map(condition)),
      );
    }),
    left > 0 && element("p", "quiet", `${left} more with something to tell are left out.`),
    element("p", "quiet", "Objects are listed that report feedback, or that something is wrong with."),
  );
}

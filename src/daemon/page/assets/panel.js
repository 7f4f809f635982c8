// The details of one work, in a panel beside the matrix.

import { age, element, untrusted, icon, link, short } from "./dom.js";
import { heldNote } from "./sources.js";

export class Panel {
  // `closed` is called after the panel was closed.
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
        this.content.replaceChildren(element("p", "", "The daemon does not respond. Retrying when it does."));
      }
      return;
    }
    if (this.shown !== wanted || this.text === text) return;
    this.text = text;
    if (text === "gone") this.content.replaceChildren(element("p", "", "This work no longer exists."));
    else this.content.replaceChildren(...content(JSON.parse(text)));
  }

  // Updates ages while the data does not change.
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
        element("p", "", "The hub cannot reach it. This is its last known state.")),
    ),
    work.why && reason(work),
    work.held && heldNote(work.held, true),
    work.message && section("Message of the agent", untrusted("pre", "message", work.message)),
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
    element("div", "", element("strong", "", "Why"), untrusted("p", "", work.why)),
  );
}

function section(title, ...content) {
  return element("section", "", element("h3", "", title), ...content);
}

const GOOD = { Progressing: "False", Degraded: "False" };

function condition(one) {
  const isGood = one.status === (GOOD[one.type] ?? "True");
  return element(
    "li", `condition ${one.outdated ? "outdated" : isGood ? "good" : "wrong"}`,
    element(
      "div", "condition-head",
      icon(one.outdated ? "pending" : isGood ? "applied" : "failed"),
      untrusted("strong", "", one.type),
      untrusted("span", "", one.status),
      one.reason && untrusted("span", "quiet", one.reason),
      one.outdated && element("span", "tag", "of an older generation"),
      one.since && since(one.since, ""),
    ),
    one.message && untrusted("p", "message", one.message),
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
        values.append(untrusted("dt", "", name), untrusted("dd", "", value));
      }
      return element(
        "div", "object",
        untrusted("h4", "", object.object),
        values.children.length > 0 && values,
        object.conditions.length > 0 && element("ul", "plain", ...object.conditions.map(condition)),
      );
    }),
    left > 0 && element("p", "quiet", `${left} more are left out.`),
    element("p", "quiet", "Only objects with feedback or with an unhealthy condition are listed."),
  );
}

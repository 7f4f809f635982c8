// The daemon's page model: sources, clusters, columns (a work of a source) and the state of each
// cell.

// States that need attention.
export const FAILURES = new Set(["failed", "degraded", "frozen"]);

export class PageModel {
  constructor() {
    this.version = 0;
    this.states = [];
    this.sources = [];
    this.clusters = [];
    this.columns = [];
    this.rows = []; // by cluster: a Map from column to state
    this.lost = new Set();
    this.groups = []; // names of groups, as "stores, tills"
    this.groupsOf = []; // by cluster: a number of `groups`, or -1 if it has works of its own
    this.line = "";
    this.verdict = "pending";
  }

  applyWhole(event) {
    this.version = event.version;
    this.states = event.states;
    this.sources = event.sources;
    this.clusters = event.clusters;
    this.columns = event.columns.map(([source, work]) => ({ source, work }));
    this.rows = event.cells.map((pairs) => {
      const row = new Map();
      for (let at = 0; at < pairs.length; at += 2) row.set(pairs[at], pairs[at + 1]);
      return row;
    });
    this.lost = new Set(event.lost);
    this.groups = event.groups;
    this.groupsOf = event.groupsOf;
    this.line = event.line;
    this.verdict = event.verdict;
  }

  // Returns the changed cells as [cluster, column], or null if a change in between is missing.
  applyChange(event) {
    if (event.version !== this.version + 1) return null;
    this.version = event.version;
    this.line = event.line;
    this.verdict = event.verdict;
    for (const [number, source] of event.sources) this.sources[number] = source;
    for (const cluster of event.clusters ?? []) {
      this.clusters.push(cluster);
      this.rows.push(new Map());
      this.groupsOf.push(-1);
    }
    this.groups.push(...(event.groups ?? []));
    for (const [cluster, groups] of event.groupsOf ?? []) this.groupsOf[cluster] = groups;
    for (const [source, work] of event.columns ?? []) this.columns.push({ source, work });
    for (const [cluster, column, state] of event.cells ?? []) {
      if (state < 0) this.rows[cluster].delete(column);
      else this.rows[cluster].set(column, state);
    }
    if (event.lost) this.lost = new Set(event.lost);
    return (event.cells ?? []).map(([cluster, column]) => [cluster, column]);
  }

  state(cluster, column) {
    const number = this.rows[cluster]?.get(column);
    return number === undefined ? null : this.states[number];
  }

  // The numbers of a work, or null if there is none.
  find(source, cluster, work) {
    const row = this.clusters.indexOf(cluster);
    const column = this.columns.findIndex((one) => one.work === work && this.sources[one.source]?.id === source);
    return row < 0 || column < 0 ? null : [row, column];
  }

  // The clusters and columns that match a filter, and the number of matching works by state.
  view(filter) {
    const isCluster = matcher(filter.cluster);
    const isWork = matcher(filter.work);
    const isColumn = this.columns.map((column) =>
      (filter.source === null || column.source === filter.source) && isWork(column.work));
    const counts = new Array(this.states.length).fill(0);
    const wanted = this.states.map((state) => filter.states.size === 0 || filter.states.has(state));
    const rows = [];
    const columns = new Set();
    let works = 0;
    this.rows.forEach((row, cluster) => {
      if (!isCluster(this.clusters[cluster])) return;
      let worst = this.states.length;
      for (const [column, state] of row) {
        if (!isColumn[column]) continue;
        counts[state] += 1;
        if (!wanted[state]) continue;
        works += 1;
        columns.add(column);
        worst = Math.min(worst, state);
      }
      if (worst < this.states.length) rows.push({ cluster, worst });
    });
    const byName = (a, b) => compare(this.clusters[a.cluster], this.clusters[b.cluster]);
    rows.sort(filter.order === "worst" ? (a, b) => a.worst - b.worst || byName(a, b) : byName);
    const ofColumn = (a, b) => this.columns[a].source - this.columns[b].source
      || compare(this.columns[a].work, this.columns[b].work);
    const clusters = rows.length;
    const { shown, folded } = this.fold(rows, [...columns], filter);
    return { rows: shown, columns: [...columns].sort(ofColumn), counts, works, wanted, folded, clusters };
  }

  // Clusters with works of the same groups in the same states share a row: that of the first one.
  // Returns the rows, and for each shared one its clusters.
  fold(rows, columns, filter) {
    const [shown, folded, firsts] = [[], new Map(), new Map()];
    for (const { cluster } of rows) {
      const groups = this.groupsOf[cluster];
      // Somebody who names a cluster wants to see it.
      if (groups < 0 || !filter.fold || filter.cluster.trim() !== "") {
        shown.push(cluster);
        continue;
      }
      const states = columns.map((column) => this.rows[cluster].get(column) ?? "");
      const key = `${groups} ${this.lost.has(cluster)} ${states.join()}`;
      const first = firsts.get(key);
      if (first === undefined) {
        firsts.set(key, cluster);
        shown.push(cluster);
      } else if (folded.has(first)) {
        folded.get(first).push(cluster);
      } else {
        folded.set(first, [first, cluster]);
      }
    }
    return { shown, folded };
  }
}

const collator = new Intl.Collator("en", { numeric: true });

function compare(a, b) {
  return collator.compare(a, b);
}

// A list of alternatives. Each is a part of the name, or a pattern with `*` and `?` for the whole
// name.
function matcher(text) {
  const words = text.toLowerCase().split(/[\s,]+/).filter((word) => word !== "");
  if (words.length === 0) return () => true;
  const tests = words.map((word) => (/[*?]/.test(word) ? (name) => fits(word, name) : (name) => name.includes(word)));
  return (name) => tests.some((test) => test(name));
}

// Whether a name matches a pattern, in time proportional to the product of their lengths.
function fits(pattern, name) {
  let [p, n, star, mark] = [0, 0, -1, 0];
  while (n < name.length) {
    if (p < pattern.length && (pattern[p] === "?" || pattern[p] === name[n]) && pattern[p] !== "*") {
      p += 1;
      n += 1;
    } else if (pattern[p] === "*") {
      star = p;
      mark = n;
      p += 1;
    } else if (star >= 0) {
      p = star + 1;
      mark += 1;
      n = mark;
    } else {
      return false;
    }
  }
  while (pattern[p] === "*") p += 1;
  return p === pattern.length;
}

// Creates elements. All data is inserted as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

// An element with a class and content. Content that is null, undefined or false is left out.
export function element(tag, className, ...content) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  for (const one of content.flat()) {
    if (one !== null && one !== undefined && one !== false) made.append(one);
  }
  return made;
}

// A symbol of the sprite in index.html. Text beside it gives its meaning.
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#i-${name}`);
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  svg.append(use);
  return svg;
}

// Text of a cluster or a repository, with its own text direction.
export function untrusted(tag, className, text) {
  const made = element(tag, className, text);
  made.dir = "auto";
  return made;
}

// A link to a forge, or plain text if the URL is not http or https.
export function link(url, text, className) {
  if (!/^https?:\/\//.test(url ?? "")) return element("span", className, text);
  const made = element("a", className, text);
  made.href = url;
  made.target = "_blank";
  made.rel = "noopener noreferrer";
  return made;
}

export function short(commit) {
  return commit ? commit.slice(0, 8) : "";
}

// A command, with a copy button if the browser allows access to the clipboard.
export function command(text) {
  const code = element("code", "", text);
  code.tabIndex = 0;
  const row = element("div", "command", code);
  if (navigator.clipboard) {
    const button = element("button", "small", "Copy");
    button.type = "button";
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
      } catch {
        button.textContent = "Not allowed";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    row.append(button);
  }
  return row;
}

const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

// The age in its largest unit.
export function age(time, now) {
  const seconds = Math.max(0, Math.round((now - time) / 1000));
  const [unit, size] = UNITS.find(([, size]) => seconds >= size) ?? ["s", 1];
  return `${Math.floor(seconds / size)} ${unit}`;
}

export function clock(time) {
  return new Date(time).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
}

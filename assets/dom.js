// Small tools for stages: build elements safely, fill words, format numbers. Knows nothing of runs.

/** An element: el("span", {class: "token", title: "…", onclick: f}, "text", child). Text is never read as HTML. */
export function el(tag, attributes = {}, ...children) {
  const svg = ["svg", "path", "g", "rect", "line", "circle", "text", "polyline"].includes(tag);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.replace(/^on/, ""), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** Nodes for a line of words with `code` and **strong** in it; everything else is text. */
export function rich(text) {
  return text.split(/(`[^`]+`|\*\*[^*]+\*\*)/).filter(Boolean).map((part) => {
    if (part.startsWith("`") && part.length > 2) return el("code", {}, part.slice(1, -1));
    return part.startsWith("**") && part.length > 4 ? el("strong", {}, part.slice(2, -2)) : document.createTextNode(part);
  });
}

/** Put values into {{name}} and {{name:.2f}}; formats: d, ",", .Nf, .N%, .Ng. */
export function fill(text, values) {
  return text.replace(/\{\{([a-z_][a-z0-9_]*)(?::([^{}]*))?\}\}/g, (whole, name, format) =>
    name in values ? formatted(values[name], format) : whole);
}

function formatted(value, format) {
  const [, comma, digits, kind] = /^(,)?(?:\.(\d+))?([fgd%])?$/.exec(format ?? "") ?? [];
  if (!format || typeof value !== "number" || (!comma && !kind)) return String(value);
  if (kind === "g") return String(Number(value.toPrecision(Number(digits ?? 6))));
  const places = kind === "d" || digits === undefined ? (kind === "f" || kind === "%" ? 6 : 0) : Number(digits);
  const number = kind === "%" ? value * 100 : value;
  const options = { minimumFractionDigits: places, maximumFractionDigits: places, useGrouping: Boolean(comma) };
  return number.toLocaleString("en", options) + (kind === "%" ? "%" : "");
}

const formats = new Map(); // making one takes longer than using it a hundred times

/** A number with so many significant digits, thousands grouped. */
export function formatNumber(value, digits = 3, language = "en") {
  if (!Number.isFinite(value)) return "–";
  const key = `${language} ${digits}`;
  if (!formats.has(key)) formats.set(key, new Intl.NumberFormat(language, { maximumSignificantDigits: digits }));
  return formats.get(key).format(value);
}

/** Seconds as µs, ms or s, whichever reads best. */
export function formatSeconds(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds === 0 || seconds >= 1) return `${formatNumber(seconds)} s`;
  return seconds >= 1e-3 ? `${formatNumber(seconds * 1e3)} ms` : `${formatNumber(seconds * 1e6)} µs`;
}

/** Whether the reader asked for less motion. */
export function reducedMotion() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}

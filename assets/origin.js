// Origin: where the numbers on screen come from: recorded (on which device, when), measured just now, or a formula.
// Knows nothing of the numbers. The badges' looks are the page's own.

import { el } from "./dom.js";

/** A badge of a kind: "recorded", "measured" or "theory". */
export function badge(kind, words) {
  return el("span", { class: `badge badge-${kind}`, title: words[`badge.${kind}.title`] }, words[`badge.${kind}`]);
}

/** A badge that follows the run on screen; `draw(player)` after every change. `isLong` names device and date too. */
export function runBadge(words, isLong = false) {
  const node = el("span", { class: "badge" });
  let shown = "";
  function draw(player) {
    const kind = player.about?.recorded ?? true ? "recorded" : "measured";
    const started = player.events[0]?.type === "EngineStarted" ? player.events[0] : null;
    const where = isLong && started ? ` · ${started.device_name}, ${started.recorded.slice(0, 10)}` : "";
    const text = words[`badge.${kind}`] + where;
    if (text === shown) return;
    shown = text;
    node.className = `badge badge-${kind}`;
    node.title = words[`badge.${kind}.title`];
    node.textContent = text;
  }
  return { node, draw };
}

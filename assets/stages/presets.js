// Presets: prompts to choose from, as a row of chips, and under it what the chosen one proves.
// Knows nothing of prompts: it is given names and words, and reports which name was picked.

import { el } from "../player.js";

export function mount(element, { words, options, trigger, value, setValue }) {
  const proves = el("p", { class: "presets-proves", "aria-live": "polite" });
  const group = `presets-${Math.random().toString(36).slice(2)}`;
  const chips = options.names.map((name) => {
    const input = el("input", { type: "radio", name: group, value: name });
    input.addEventListener("change", () => choose(name, true));
    return el("label", { class: "presets-chip" }, input, el("span", {}, words[`preset.${name}`]));
  });
  element.replaceChildren(el("fieldset", { class: "presets-group" }, el("legend", {}, words["preset.label"]), ...chips), proves);

  function choose(name, isAsked) {
    chips.forEach((chip, at) => { chip.firstChild.checked = options.names[at] === name; });
    proves.textContent = words[`preset.${name}.proves`] ?? "";
    if (!isAsked) return;
    setValue?.(name);
    trigger("pick", { preset: name });
  }

  choose(value || options.names[0], false);
  return { update(_, next) { if (next && typeof next === "string") choose(next, false); }, destroy() {} };
}

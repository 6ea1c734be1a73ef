// The predict box: a question, answers to choose from or a scale, and a button that commits. Kept in the reader's
// browser. Knows nothing of the right answer.

import { el, fill, formatNumber, rich } from "../player.js";
import { read, write } from "../reader.js";

export function mount(element, { words, options, value, language, trigger, setValue }) {
  const kept = read("predictions", {})[options.key];
  const box = el("fieldset", { class: "predict-box" });
  element.replaceChildren(box);
  const say = (answer) => (options.choices ? words[`choice.${answer}`].replaceAll(/[`*]/g, "") : `${formatNumber(answer, 4, language)}${options.unit === "×" ? "" : " "}${options.unit}`.trim());
  const isValid = (answer) => (options.choices ? options.choices.includes(answer) : typeof answer === "number" && answer >= options.minimum && answer <= options.maximum);

  function ask(before) {
    const chooser = options.choices ? choices(words, options, before) : scale(words, options, say, before);
    const commit = el("button", { type: "button", class: "predict-commit" }, words["frame.commit"]);
    commit.disabled = chooser.answer() === null;
    chooser.node.addEventListener("input", () => { commit.disabled = chooser.answer() === null; });
    commit.addEventListener("click", () => {
      const answer = chooser.answer();
      write("predictions", { ...read("predictions", {}), [options.key]: answer });
      setValue(answer);
      trigger("commit", { answer });
      tell(answer, true);
    });
    box.replaceChildren(head(), chooser.node, commit);
  }

  function tell(answer, isFresh) {
    const change = el("button", { type: "button", class: "predict-change" }, words["frame.change"]);
    change.addEventListener("click", () => ask(answer));
    const yours = el("p", { class: "predict-yours", tabindex: -1 }, fill(words["frame.yours"], { answer: say(answer) }), " ", change);
    box.replaceChildren(head(), yours, words.after ? el("p", { class: "predict-after" }, rich(words.after)) : null);
    if (isFresh) yours.focus();
  }

  function head() {
    return el("legend", {}, el("span", { class: "predict-question" }, rich(words.question)));
  }

  const answer = isValid(kept) ? kept : value;
  if (!isValid(answer)) ask(null);
  else {
    tell(answer, false);
    if (answer !== value) setValue(answer);
  }
  return {};
}

function choices(words, options, before) {
  const name = `predict-${options.key}`;
  const inputs = options.choices.map((choice) => el("input", { type: "radio", name, value: choice, checked: choice === before }));
  const labels = inputs.map((input) => el("label", { class: "predict-choice" }, input, el("span", {}, rich(words[`choice.${input.value}`]))));
  return { node: el("div", { class: "predict-choices" }, labels), answer: () => inputs.find((input) => input.checked)?.value ?? null };
}

function scale(words, options, say, before) {
  const start = before ?? options.minimum + Math.round((options.maximum - options.minimum) / 2 / options.step) * options.step;
  const input = el("input", { type: "range", min: options.minimum, max: options.maximum, step: options.step, value: start, "aria-label": words.question.replaceAll(/[`*$]/g, "") });
  const shown = el("output", { class: "predict-shown" });
  let touched = before !== null;
  const draw = () => {
    shown.textContent = touched ? say(Number(input.value)) : "?";
    input.setAttribute("aria-valuetext", shown.textContent);
  };
  for (const name of ["input", "pointerdown", "keydown"]) {
    input.addEventListener(name, (event) => {
      if (name === "keydown" && event.key === "Tab") return;
      touched = true;
      draw();
      if (name !== "input") input.dispatchEvent(new Event("input", { bubbles: true }));
    });
  }
  draw();
  return { node: el("label", { class: "predict-scale" }, input, shown), answer: () => (touched ? Number(input.value) : null) };
}

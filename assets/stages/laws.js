// Two laws over a few tokens, drawn so that the eye adds: accepted + resampled = p. The tops can be dragged.
// While `options.veil` names a prediction that the reader has not made, the sum stays covered.
// Knows nothing of rules or draws: its value is the edited laws, as they would be typed, and its options are given anew.
// Each move of a knob counts; options in which not all of the moves are counted answer older laws, and change nothing.

import { el, fill, reducedMotion } from "../dom.js";
import { paint } from "../glyphs.js";
import { read } from "../reader.js";

const ROOM = 1.12; // space above the tallest bar, so that its handle stays inside

export function mount(element, { words, options, value, trigger, setValue }) {
  const board = el("div", { class: "laws-board" });
  const sum = el("div", { class: "laws-sum" });
  const sentence = el("p", { class: "laws-sentence", "aria-live": "polite" });
  const mover = el("button", { class: "laws-move", type: "button", onclick: moveRejected }, words.move);
  const cover = el("button", { class: "laws-move", type: "button", onclick: uncover }, words.reveal);
  const foot = el("div", { class: "laws-foot" }, sentence, cover, reducedMotion() ? null : mover);
  element.replaceChildren(legend(words), board, sum, foot);

  let laws = { tokens: [], p: [], q: [], editable: false };
  let columns = [];
  let scale = 1;
  let timer = 0;
  let moves = value?.moves ?? 0;
  let isVeiled = Boolean(options.veil) && read("predictions", {})[options.veil] === undefined;

  // The columns stay where only numbers changed: a knob keeps the focus of whoever moves it with the keyboard.
  function show(next) {
    const isSame = columns.length && laws.editable === next.editable && laws.tokens.join("\n") === next.tokens.join("\n");
    laws = { ...next, p: [...next.p], q: [...next.q] };
    isVeiled &&= Boolean(next.veil);
    scale = ROOM * Math.max(...laws.p, ...laws.q, 0.05);
    if (!isSame) {
      columns = laws.tokens.map((token, index) => column(token, index));
      board.replaceChildren(...columns.map((one) => one.node));
      board.style.setProperty("--columns", laws.tokens.length);
      board.classList.toggle("laws-crowded", laws.tokens.length > 5);
    }
    draw();
  }

  function column(token, index) {
    const parts = Object.fromEntries(["kept", "missing", "surplus"].map((name) => [name, el("div", { class: `laws-${name}` }, el("span", {}))]));
    const handles = { p: handle("p", token, index), q: handle("q", token, index) };
    const well = el("div", { class: "laws-well" }, ...Object.values(parts), handles.q, handles.p);
    const numbers = { p: el("span", { class: "laws-number-p" }), q: el("span", { class: "laws-number-q" }) };
    const name = el("div", { class: "laws-name", title: token });
    paint(name, token);
    const node = el("div", { class: "laws-column" }, well, name, el("div", { class: "laws-numbers" }, numbers.p, numbers.q));
    return { node, parts, handles, numbers, well };
  }

  function handle(law, token, index) {
    const knob = el("div", { class: `laws-handle laws-handle-${law}`, role: "slider", "aria-valuemin": "0", "aria-valuemax": "1" }, el("span", {}, law));
    knob.setAttribute("aria-label", fill(words.slider, { law, token }));
    knob.setAttribute("aria-orientation", "vertical");
    if (!laws.editable) {
      knob.setAttribute("aria-disabled", "true");
      return knob;
    }
    knob.tabIndex = 0;
    knob.addEventListener("keydown", (event) => {
      const step = { ArrowUp: 0.01, ArrowRight: 0.01, ArrowDown: -0.01, ArrowLeft: -0.01, PageUp: 0.1, PageDown: -0.1, Home: -1, End: 1 }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      change(law, index, laws[law][index] + step);
      report(500);
    });
    knob.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      knob.focus();
      knob.setPointerCapture(event.pointerId);
      const box = columns[index].well.getBoundingClientRect();
      knob.onpointermove = (move) => change(law, index, ((box.bottom - move.clientY) / box.height) * scale);
    });
    const release = () => {
      if (!knob.onpointermove) return;
      knob.onpointermove = null;
      report(0);
    };
    knob.addEventListener("pointerup", release);
    knob.addEventListener("pointercancel", release);
    knob.addEventListener("blur", () => timer && tell()); // before whatever the reader turns to
    return knob;
  }

  // One entry takes the value; the others keep their proportions and fill what is left.
  function change(law, index, value) {
    isVeiled = false;
    moves += 1;
    const old = laws[law];
    const wanted = Math.min(1, Math.max(0, Math.round(value * 1000) / 1000));
    const rest = 1 - old[index];
    laws[law] = old.map((entry, i) => (i === index ? wanted : rest > 1e-9 ? (entry * (1 - wanted)) / rest : (1 - wanted) / (old.length - 1)));
    draw();
  }

  function report(wait) {
    clearTimeout(timer);
    timer = setTimeout(tell, wait);
  }

  function tell() {
    clearTimeout(timer);
    timer = 0;
    setValue({ p: written(laws.p), q: written(laws.q), moves });
    trigger("act", {});
  }

  function update(next) {
    if ((next.moves ?? 0) >= moves) show(next);
  }

  function draw() {
    const percent = (value) => `${(100 * value) / scale}%`;
    let alpha = 0;
    laws.tokens.forEach((_, i) => {
      const { parts, handles, numbers } = columns[i];
      const [p, q] = [laws.p[i], laws.q[i]];
      const both = Math.min(p, q);
      alpha += both;
      place(parts.kept, 0, both);
      place(parts.missing, both, p - both, "+");
      place(parts.surplus, both, q - both, "−");
      for (const [law, value] of [["p", p], ["q", q]]) {
        handles[law].style.bottom = percent(value);
        handles[law].setAttribute("aria-valuenow", value.toFixed(3));
        numbers[law].replaceChildren(el("span", { class: "laws-letter" }, `${law} `), short(value));
      }
    });

    function place(node, from, height, sign = "") {
      node.style.bottom = percent(from);
      node.style.height = percent(Math.max(0, height));
      node.hidden = height < 5e-4;
      node.firstChild.textContent = height / scale > 0.075 ? `${sign}${short(height)}` : "";
    }
    const rest = Math.max(0, 1 - alpha);
    mover.disabled = rest < 5e-4;
    sum.replaceChildren(share("kept", alpha, words.accepted), ...(rest > 5e-4 ? [share("missing", rest, words.resampled)] : []));
    const told = rest > 5e-4 ? words.sentence : words.sentence_equal;
    sentence.textContent = isVeiled ? words.veiled : fill(told, { alpha: short(alpha), rest: short(rest) });
    sum.hidden = isVeiled;
    cover.hidden = !isVeiled;
  }

  function uncover() {
    isVeiled = false;
    draw();
  }

  function share(kind, value, label) {
    const text = value > 0.28 ? `${label} ${short(value)}` : value > 0.05 ? short(value) : "";
    const node = el("div", { class: `laws-share laws-${kind}`, title: `${label} ${short(value)}` }, el("span", {}, text));
    node.style.flexGrow = value;
    return node;
  }

  // What is refused at one token goes to every token that lacks something, in the residual's proportions.
  function moveRejected() {
    const home = board.getBoundingClientRect();
    const perMass = columns[0].well.clientHeight / scale;
    const short = laws.p.map((p, i) => Math.max(0, p - laws.q[i]));
    const rest = short.reduce((sum, part) => sum + part, 0);
    const filled = short.map(() => 0);
    const boxOf = (part) => part.getBoundingClientRect();
    laws.q.forEach((q, from) => {
      let left = Math.max(0, q - laws.p[from]);
      short.forEach((lack, to) => {
        const mass = (Math.max(0, q - laws.p[from]) * lack) / rest;
        if (!(mass > 5e-4)) return;
        const [start, end] = [boxOf(columns[from].parts.surplus), boxOf(columns[to].parts.missing)];
        left -= mass;
        fly(
          { left: start.left - home.left, top: start.bottom - home.top - (left + mass) * perMass },
          { left: end.left - home.left, top: end.bottom - home.top - (filled[to] + mass) * perMass },
          { width: start.width, height: mass * perMass },
        );
        filled[to] += mass;
      });
    });
  }

  function fly(start, end, size) {
    const piece = el("div", { class: "laws-piece", "aria-hidden": "true" });
    for (const [name, length] of Object.entries({ ...start, ...size })) piece.style[name] = `${length}px`;
    board.append(piece);
    const path = { transform: [`translate(0, 0)`, `translate(${end.left - start.left}px, ${end.top - start.top}px)`] };
    const flight = piece.animate(path, { duration: 1100, delay: 250, easing: "cubic-bezier(.6, 0, .3, 1)", fill: "both" });
    flight.onfinish = () => setTimeout(() => piece.remove(), 900);
  }

  show(options);
  return { update, destroy: () => clearTimeout(timer) };
}

/** A law as it would be typed, to four significant digits. */
function written(law) {
  return law.map((entry) => String(Number(entry.toPrecision(4)))).join(", ");
}

function short(value) {
  return value >= 0.9995 ? "1" : value < 5e-4 ? "0" : value < 0.01 ? value.toFixed(3).slice(1) : value.toFixed(2).slice(value < 0.995 ? 1 : 0);
}

function legend(words) {
  const entry = (kind, text) => el("li", {}, el("i", { class: `laws-key laws-${kind}` }), text);
  return el("ul", { class: "laws-legend" }, entry("kept", words.legend_kept), entry("surplus", words.legend_surplus), entry("missing", words.legend_missing));
}

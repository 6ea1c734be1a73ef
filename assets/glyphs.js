// Glyphs: any text a model can produce, as text nodes that show what is there and can do nothing.
// Knows nothing of tokens' fates. Invisible characters get a visible stand-in; nothing here is ever parsed as HTML.

const BREAKS = { "\n": "↵", "\r": "␍", "\t": "⇥", " ": "␣" };
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/u;
const JOINED = /\p{Extended_Pictographic}\ufe0f?\u200d$/u; // the joiner inside one emoji is part of it

/** Cut a text into runs: `{ text, isGlyph, isBreak }`; glyphs stand for what would not be seen, breaks also end a line. */
export function spell(text) {
  const runs = [];
  const isBlank = /^ +$/.test(text);
  for (const character of text) {
    const last = runs.at(-1);
    const glyph = JOINED.test(`${last?.text ?? ""}${character}`) ? "" : glyphOf(character, isBlank);
    if (glyph) runs.push({ text: glyph, isGlyph: true, isBreak: character === "\n" });
    else if (last && !last.isGlyph) last.text += character;
    else runs.push({ text: character, isGlyph: false, isBreak: false });
  }
  return runs;
}

function glyphOf(character, isBlank) {
  if (character === " ") return isBlank ? BREAKS[" "] : "";
  if (BREAKS[character]) return BREAKS[character];
  if (!INVISIBLE.test(character)) return "";
  const code = character.codePointAt(0);
  return code < 0x20 ? String.fromCodePoint(0x2400 + code) : `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
}

/** Append a text to an element. `flow` keeps line breaks and leading spaces; otherwise all stays on one line. */
export function paint(element, text, flow = false) {
  for (const run of spell(flow ? text : name(text))) {
    if (!run.isGlyph) element.append(run.text);
    else element.append(glyph(run.text));
    if (run.isBreak && flow) element.append("\n");
  }
}

/** One token as a name on one line: a leading space is part of it and is shown. */
export function name(text) {
  return /^ +\S/.test(text) ? text.replace(/^ +/, (spaces) => "␣".repeat(spaces.length)) : text;
}

function glyph(text) {
  const mark = document.createElement("i");
  mark.className = "glyph";
  mark.textContent = text;
  return mark;
}

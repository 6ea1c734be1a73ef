// Files that a reader opens: too large a one is refused here, in the page's language, before any of it is sent.
// Knows nothing of what is in them.

import { toast } from "./page.js";

const page = window.inferencePage;

/** Refuse files of more than `largest` bytes with `sentence`; all lessons of a page ask for the same. */
export function limitUploads(largest, sentence) {
  if (page.largestUpload) return;
  page.largestUpload = largest; // for tests, which must not be quicker than this
  window.addEventListener("change", (event) => check(event, sentence), true); // before Gradio, which listens further in
}

function check(event, sentence) {
  const chooser = event.target;
  if (!chooser.matches?.("input[type=file]")) return;
  if ([...chooser.files].every((file) => file.size <= page.largestUpload)) return;
  event.stopImmediatePropagation();
  chooser.value = ""; // so that the same file, made smaller, can be chosen again
  toast(sentence);
}

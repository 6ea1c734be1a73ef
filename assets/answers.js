// Answers: the footer's two buttons, which save the reader's own state as a file and load it again.
// Knows nothing of what the state holds.

import { exportJson, importJson } from "./reader.js";

const FILE = "inference-answers.json";
const LARGEST = 2 ** 20; // bytes; what pages keep is far smaller

/** `say(text)` tells the reader how it went. */
export function answerButtons(footer, words, say) {
  footer.querySelector("#answers-save").addEventListener("click", save);
  footer.querySelector("#answers-load").addEventListener("click", () => {
    const chooser = document.createElement("input");
    chooser.type = "file";
    chooser.accept = ".json,application/json";
    chooser.addEventListener("change", async () => {
      if (!(await load(chooser.files[0]))) say(words["answers.broken"]);
    });
    chooser.click();
  });
  if (history.state?.areAnswersLoaded) {
    history.replaceState(null, "");
    say(words["answers.loaded"]);
  }
}

function save() {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([exportJson()], { type: "application/json" }));
  link.download = FILE;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** Whether the file held answers; then the page comes up anew with them. */
async function load(file) {
  try {
    if (file.size > LARGEST) return false;
    importJson(await file.text());
  } catch {
    return false;
  }
  history.replaceState({ areAnswersLoaded: true }, "");
  location.reload();
  return true;
}

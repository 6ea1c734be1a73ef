// Light or dark, before the first paint. A plain script: modules run too late. When Gradio mounts it sets a theme class
// and a language of its own; the observers put the reader's choice and the page's language back.
(function () {
  const read = () => {
    try {
      return JSON.parse(localStorage.getItem("inference-reader") || "{}").theme;
    } catch {
      return undefined;
    }
  };
  const system = matchMedia("(prefers-color-scheme: dark)");
  const asked = new URLSearchParams(location.search).get("__theme");
  let chosen = read() || (asked === "dark" || asked === "light" ? asked : undefined);
  const isDark = () => (chosen ? chosen === "dark" : system.matches);
  const apply = () => {
    for (const element of [document.documentElement, document.body]) {
      if (element && element.classList.contains("dark") !== isDark()) element.classList.toggle("dark", isDark());
    }
  };
  window.inferenceTheme = { isDark, choose(theme) { chosen = theme; apply(); } };
  const speak = () => {
    const lang = window.inferencePage.lang;
    if (document.documentElement.lang !== lang) document.documentElement.lang = lang;
  };
  apply();
  new MutationObserver(speak).observe(document.documentElement, { attributes: true, attributeFilter: ["lang"] });
  system.addEventListener("change", apply);
  document.addEventListener("DOMContentLoaded", () => {
    apply();
    new MutationObserver(apply).observe(document.body, { attributes: true, attributeFilter: ["class"] });
  });
})();

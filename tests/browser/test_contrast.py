"""Every word of every chapter in a real browser: its colour against what lies behind it, in light and in dark.

WCAG 2.1, 1.4.3: 4.5 to 1, or 3 to 1 for large letters (24 px, or bold from 18.66 px). Knows nothing of the palette:
it reads what the browser computed. Of pictures (SVG) it reads the charts', whose ground is the page.
"""

from collections.abc import Iterator

import pytest
from page_watch import Watch
from playwright.sync_api import Browser, Page
from sample_app import served
from shared_pages import WIDE
from waits import all_drawn

import app
from lessons import CHAPTERS, live
from lessons.page import pages

pytestmark = pytest.mark.browser

# What need not be read, each with its reason. A control that is off is exempt by the same rule of WCAG.
EXCEPT = (
    ":disabled, [aria-disabled='true'], :disabled *, [aria-disabled='true'] *",
    "[aria-hidden='true'], [aria-hidden='true'] *",  # decoration that is told elsewhere
    ".tree-slots:not(.is-done) .moved-lines ~ *, .tree-slots:not(.is-done) .moved-lines ~ * *",  # a step still to come
    ".bartext, .bartext *",  # letters within a bar of a chart, which is no ancestor of theirs
    ".label-wrap .icon",  # Gradio's mark of a part that opens: the letter is hidden, its border is drawn as an arrow
)
TOO_FAINT = """(except) => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const known = new Map();
  const rgba = (text) => {  // any CSS colour, color-mix() and oklab() included, as four numbers up to 1
    if (!known.has(text)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = text;
      canvas.fillRect(0, 0, 1, 1);
      known.set(text, [...canvas.getImageData(0, 0, 1, 1).data].map((part) => part / 255));
    }
    return known.get(text);
  };
  const over = ([r, g, b, a], below) => [r, g, b].map((part, at) => part * a + below[at] * (1 - a));
  const luminance = (color) => [0.2126, 0.7152, 0.0722].reduce((sum, weight, at) => sum
    + weight * (color[at] <= 0.04045 ? color[at] / 12.92 : ((color[at] + 0.055) / 1.055) ** 2.4), 0);
  const contrast = (one, other) => {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  // What is seen of a text and of its ground: paint from the root down; an opacity fades both into what lay there.
  const seen = (element, ink) => {
    let line = [];
    for (let one = element; one; one = one.parentElement) line = [one, ...line];
    const paint = (at, below) => {
      if (at === line.length) return [over(ink, below), below];
      const style = getComputedStyle(line[at]), opacity = Number(style.opacity);
      const inside = paint(at + 1, over(rgba(style.backgroundColor), below));
      return inside.map((color) => over([...color, opacity], below));
    };
    return paint(0, rgba("canvas").slice(0, 3));
  };
  const called = (one) => [one.tagName, ...one.classList].join(".");
  const found = new Map();
  const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let count = 0;
  for (let node = words.nextNode(); node; node = words.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || element.closest("svg:not(.main-svg), script, style, noscript, option")) continue;
    if (except.some((selector) => element.matches(selector))) continue;
    if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    const box = element.getBoundingClientRect(), style = getComputedStyle(element);
    if (box.width < 2 || box.height < 2 || style.clipPath !== "none") continue;  // for screen readers alone
    count += 1;
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const ratio = contrast(...seen(element, rgba(element.closest("svg") ? style.fill : style.color)));
    if (ratio >= (isLarge ? 3 : 4.5)) continue;
    const name = [element.parentElement, element].map(called).join(" > ");
    const worst = found.get(name);
    if (!worst || ratio < worst[0]) found.set(name, [Math.round(ratio * 100) / 100, node.data.trim().slice(0, 40)]);
  }
  return [count, [...found].map(([name, [ratio, text]]) => `${ratio} ${name}: ${text}`)];
}"""

SETTLED = """() => Promise.all(document.getAnimations().map((one) => one.finished.catch(() => {})))"""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Address of the book, without a model."""
    live.start_with(None)
    with served(app.build("")) as address:
        yield address


def faint(page: Page, scheme: str) -> tuple[int, list[str]]:
    """How many texts can be seen in that scheme, and which of them are too faint."""
    page.emulate_media(color_scheme=scheme)
    page.wait_for_function("isDark => document.body.classList.contains('dark') === isDark", arg=scheme == "dark")
    page.evaluate(SETTLED)
    return page.evaluate(TOO_FAINT, EXCEPT)


@pytest.mark.parametrize("chapter", [chapter for chapter, _ in CHAPTERS])
def test_all_text_can_be_read_in_light_and_in_dark(browser: Browser, watch: Watch, url: str, chapter: str) -> None:
    [path] = [page.path for page in pages() if (page.chapter, page.language) == (chapter, "en")]
    page = watch.follow(browser.new_context(**WIDE, reduced_motion="reduce").new_page())
    wrong = []
    for lesson in dict(CHAPTERS)[chapter]:
        page.goto(f"{url}{path}?lesson={lesson}", wait_until="commit")
        all_drawn(page)
        for scheme in ("light", "dark"):
            count, found = faint(page, scheme)
            assert count > 100, f"{lesson} shows too little to be judged: {count} texts"
            wrong += [f"{lesson}, {scheme}: {one}" for one in found]
    assert not wrong, "\n".join(wrong)
    watch.leave(page)


def test_the_reader_of_colours_knows_faint_text_from_text_that_can_be_read(page: Page) -> None:
    page.set_content("""<body style="background: #fff">
      <p class="faint" style="color: #8b8e94">grey on white: 3.3</p> <p style="color: #767676">4.54, just enough</p>
      <p style="color: #8b8e94; font-size: 24px">large letters may be grey</p>
      <div style="opacity: .5"><p class="faded" style="color: #333">half of it</p></div>
      <p style="background: #222; color: #eee">light on dark</p> <button disabled style="color: #ccc">off</button>
      <div style="background: color-mix(in srgb, #222 90%, #fff)"><p class="sunk" style="color: #555">sunk</p></div>
    </body>""")
    _, found = page.evaluate(TOO_FAINT, EXCEPT)
    assert [one.split(" > ")[1].split(":")[0] for one in found] == ["P.faint", "P.faded", "P.sunk"]

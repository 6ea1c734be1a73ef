"""What a test waits for before it reads a page once: a run drawn to its end, all stages drawn, a layout that fits.

Knows nothing of what is tested.
"""

from playwright.sync_api import Page, expect

AT_REST = """(channel) => {
  const player = window.inferencePage?.playerFor?.(channel);
  return Boolean(player && (player.isComplete || player.isEmpty) && !player.isPlaying && !player.isDue);
}"""
FRAMES = """async (count) => {
  for (let at = 0; at < count; at += 1) await new Promise(requestAnimationFrame);
  await new Promise((done) => setTimeout(done));
}"""
PAGE_FITS = """async (width) => {
  await document.fonts.ready;
  const root = document.documentElement;
  return root.scrollWidth <= Math.min(width, root.clientWidth);
}"""
UNCUT = """async (selector) => {
  await document.fonts.ready;
  const room = (one) => (one.matches("table") ? one.parentElement : one).clientWidth;
  const all = [...document.querySelectorAll(selector)];
  return all.length > 0 && all.every((one) => one.scrollWidth - room(one) <= 1);
}"""


def at_rest(page: Page, channel: str) -> None:
    """The run of that channel is whole and drawn where the cursor stands, or its stages stand empty."""
    page.wait_for_function(AT_REST, arg=channel)


def all_drawn(page: Page) -> None:
    """Every stage of the page has something in it, and the fonts are there."""
    expect(page.locator(".stage").first).to_be_attached()
    expect(page.locator(".stage:empty")).to_have_count(0)
    page.evaluate("async () => { await document.fonts.ready; }")


def frames(page: Page, count: int = 2) -> None:
    """So many more frames have been drawn."""
    page.evaluate(FRAMES, count)


def timers(page: Page, milliseconds: int) -> None:
    """All that the page had set for sooner has happened: its timers go off in their order, however slow it is."""
    page.evaluate("(after) => new Promise((done) => setTimeout(done, after))", milliseconds)


def toasts_gone(page: Page) -> None:
    """The toasts are closed: the next one is a new one."""
    page.get_by_test_id("toast-close").evaluate_all("buttons => buttons.forEach((button) => button.click())")
    expect(page.locator(".toast-body")).to_have_count(0)


def page_fits(page: Page) -> None:
    """Nothing sticks out of the window sideways."""
    page.wait_for_function(PAGE_FITS, arg=page.viewport_size["width"])


def uncut(page: Page, selector: str) -> None:
    """Nothing of what the selector names is wider than its room; a table's is what it stands in."""
    page.wait_for_function(UNCUT, arg=selector)

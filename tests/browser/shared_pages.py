"""Pages that the tests of a module share: each is opened once.

Knows nothing of what is tested, nor of how a page is opened. Tests run in the order of their file: one that needs the
page as it was opened stands before those that leave something behind, a remark or a picture uncovered.
"""

from collections.abc import Callable

from page_watch import Watch
from playwright.sync_api import Browser, Page

WIDE = {"viewport": {"width": 1440, "height": 900}}
NARROW = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


class SharedPages:
    """Pages by name, each in a context of its own; `watch` hears what goes wrong on any of them."""

    def __init__(self, browser: Browser) -> None:
        self.watch = Watch()
        self._browser = browser
        self._pages: dict[str, Page] = {}

    def page(self, name: str, opened: Callable[[Page, str], object]) -> Page:
        """The page of that name, which is its address where it has one; `opened` brings a fresh one there."""
        return self._page(name, opened, WIDE)

    def phone(self, name: str, opened: Callable[[Page, str], object]) -> Page:
        """As `page`, 390 pixels wide."""
        return self._page(name, opened, NARROW)

    def close(self) -> None:
        """Close them all, and fail where something went wrong."""
        for page in self._pages.values():
            self.watch.leave(page)
        self.watch.check()

    def _page(self, name: str, opened: Callable[[Page, str], object], window: dict[str, object]) -> Page:
        key = f"{window['viewport']} {name}"
        if key not in self._pages:
            page = self.watch.follow(self._browser.new_context(**window).new_page())
            opened(page, name)
            self._pages[key] = page
        return self._pages[key]

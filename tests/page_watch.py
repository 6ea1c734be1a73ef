"""A watch on the pages of a test: what they asked of other machines, and what went wrong on them.

Knows nothing of what is tested, nor of which pages there are.
"""

from urllib.parse import urlsplit

from playwright.sync_api import Page, Response

OURS = ("127.0.0.1", "localhost", "")
PATIENCE = 90_000  # milliseconds: machines that build are slow


class Watch:
    """What went wrong on the pages of a test; `check` fails it. What a test causes on purpose it has forgiven."""

    def __init__(self) -> None:
        self.foreign: list[str] = []
        self.errors: list[str] = []
        self._is_over = False

    def follow(self, page: Page) -> Page:
        """Notice everything about a page, whose actions may take as long as expectations."""
        page.set_default_timeout(PATIENCE)
        page.on("request", lambda request: self._note(request.url))
        page.on("response", self._weigh)
        page.on("pageerror", lambda error: self._hear("error", str(error)))
        page.on("console", lambda line: self._hear(line.type, line.text))
        return page

    def forgive(self, part: str) -> None:
        """Drop the errors with this in them; there must be some."""
        kept = [error for error in self.errors if part not in error]
        assert len(kept) < len(self.errors), f"nothing with {part!r} went wrong: {self.errors}"
        self.errors = kept

    def leave(self, page: Page) -> None:
        """Close a page's context, the last thing of a test: an answer that is cut off by it is no error."""
        if not page.is_closed():
            page.evaluate("0")  # what went wrong until now has been heard
            page.unroute_all(behavior="ignoreErrors")
        self._is_over = True
        page.context.close()

    def check(self) -> None:
        """Fail where a page asked another machine for anything, or had an error."""
        assert not self.foreign, f"requests to other machines: {self.foreign}"
        assert not self.errors, f"errors on the page: {self.errors}"

    def _note(self, url: str) -> None:
        parts = urlsplit(url)
        if not self._is_over and parts.scheme not in ("data", "blob") and parts.hostname not in OURS:
            self.foreign.append(url)

    def _weigh(self, response: Response) -> None:
        if response.status >= 400 and urlsplit(response.url).hostname in OURS:
            self.errors.append(f"{response.status} {response.url}")

    def _hear(self, kind: str, text: str) -> None:
        """The console tells of failed responses as well, without their address: those are weighed already."""
        if not self._is_over and kind == "error" and "Failed to load resource" not in text and "ERR_" not in text:
            self.errors.append(text)

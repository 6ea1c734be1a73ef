"""The page of one chapter in one language: its Blocks, its address, and the header and footer around it.

Knows nothing of what the lessons hold, nor of the server that shows the page.
"""

import hashlib
import importlib
import json
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from pathlib import Path

import gradio as gr

from lessons import CHAPTERS
from lessons.serving import Shell
from lessons.words import FRAME, LANGUAGE_NAMES, LANGUAGES, Words, load

ASSETS = Path(__file__).parent.parent / "assets"
STYLES = ("palette.css", "gradio.css", "layout.css", "app.css", "header.css", "footer.css", "parts.css")
LOCALES = {"en": "en", "zh": "zh-CN"}


@dataclass(frozen=True)
class Page:
    """A chapter in a language. Its path is "/" for the first chapter in the first language."""

    chapter: str
    lessons: tuple[str, ...]
    language: str

    @property
    def prefix(self) -> str:
        """The path of the language: "/" or "/zh/"."""
        return "/" if self.language == LANGUAGES[0] else f"/{self.language}/"

    @property
    def path(self) -> str:
        """Where the page is."""
        return self.prefix if self.chapter == CHAPTERS[0][0] else f"{self.prefix}{self.chapter}/"

    @property
    def root(self) -> str:
        """The relative way from the page to the top of the site."""
        return "../" * (self.path.count("/") - 1) or "./"

    @property
    def words(self) -> Words:
        """The words that all pages share, in this language."""
        return load(FRAME, self.language)


def pages() -> list[Page]:
    """Every page, the deepest paths first: a server must try "/zh/memory/" before "/zh/" before "/"."""
    every = [Page(chapter, lessons, language) for chapter, lessons in CHAPTERS for language in LANGUAGES]
    return sorted(every, key=lambda page: -len(page.path))


@lru_cache(maxsize=1)
def assets() -> dict[str, Path]:
    """All that pages load, by its name below assets/."""
    paths = sorted(path for path in ASSETS.rglob("*") if path.suffix in (".js", ".css", ".svg"))
    return {path.relative_to(ASSETS).as_posix(): path for path in paths}


@lru_cache(maxsize=1)
def version() -> str:
    """A hash of all assets: part of their address, so that browsers may keep them for good."""
    digest = hashlib.sha256()
    for name, path in assets().items():
        digest.update(name.encode() + path.read_bytes())
    return digest.hexdigest()[:12]


# ---- inside: Gradio -----------------------------------------------------------------------------------------------


def theme() -> gr.themes.Base:
    """Gradio's plainest theme without fonts of its own; how it looks is said in assets/gradio.css."""
    return gr.themes.Base(font=("system-ui", "sans-serif"), font_mono=("ui-monospace", "monospace"))


def blocks(page: Page) -> gr.Blocks:
    """The chapter: its lessons as tabs, the one that the address names opened."""
    title = f"{page.words(f'chapter.{page.chapter}')} · {page.words('site.name')}"
    kept = {"delete_cache": (3600, 3600)}  # opened files: looked through every hour, gone when an hour old
    with gr.Blocks(title=title, analytics_enabled=False, fill_width=True, **kept) as chapter:
        single = ["single"] if len(page.lessons) == 1 else []
        with gr.Tabs(selected=page.lessons[0], elem_classes=["lessons", *single]) as tabs:
            for name in page.lessons:
                t = load(name, page.language)
                with gr.Tab(t("tab"), id=name, elem_id=f"tab-{name}"):
                    importlib.import_module(f"lessons.{name}").build(t)

        def open_lesson(request: gr.Request) -> object:
            wanted = request.query_params.get("lesson")
            return gr.Tabs(selected=wanted) if wanted in page.lessons[1:] else gr.skip()

        chapter.load(open_lesson, outputs=[tabs], show_progress="hidden", queue=False, api_visibility="private")
    return chapter


# ---- around: head, header and footer ------------------------------------------------------------------------------


def shell(page: Page) -> Shell:
    """What stands around Gradio's page."""
    return Shell(LOCALES[page.language], page.root, _head(page), _above(page), _below(page))


def _head(page: Page) -> str:
    site = f"{page.root}site/{version()}/"
    words = page.words.group("header.") | page.words.group("footer.")
    words |= {f"state.{k}": v for k, v in page.words.group("transport.state.").items()}
    facts = {
        "root": page.root,
        "language": page.language,
        "lang": LOCALES[page.language],
        "site": site,
        "words": words,
        "lessons": page.lessons,
    }
    facts_json = json.dumps(facts, ensure_ascii=False).replace("<", "\\u003c")
    title = f"{page.words(f'chapter.{page.chapter}')} · {page.words('site.name')}"
    alternates = "".join(
        f'<link rel="alternate" hreflang="{LOCALES[other.language]}" href="{_way(page, other)}">'
        for other in _twins(page)
    )
    return (
        f"<title>{escape(title)}</title>"
        f'<meta name="description" content="{escape(page.words("site.description"))}">'
        f'<link rel="icon" type="image/svg+xml" href="{site}favicon.svg">{alternates}'
        + "".join(f'<link rel="stylesheet" href="{site}{name}">' for name in STYLES)
        + f"<script>window.inferencePage = {facts_json};"  # and Gradio's own words follow the page, not the browser
        f"Object.defineProperty(navigator, 'language', {{ get: () => window.inferencePage.lang }});</script>"
        f'<script src="{site}theme.js"></script><script type="module" src="{site}page.js"></script>'
    )


def _above(page: Page) -> str:
    """The header: site, chapters, engine, language, theme."""
    w = page.words
    chapters = "".join(
        f'<a href="{_way(page, other)}"{_current(other, page)}>{escape(w(f"chapter.{other.chapter}"))}</a>'
        for other in (Page(chapter, lessons, page.language) for chapter, lessons in CHAPTERS)
    )
    languages = "".join(
        f'<a class="language" lang="{LOCALES[other.language]}" hreflang="{LOCALES[other.language]}" '
        f'href="{_way(page, other)}">{LANGUAGE_NAMES[other.language]}</a>'
        for other in _twins(page)
        if other.language != page.language
    )
    home, name = _way(page, Page(*CHAPTERS[0], page.language)), escape(w("site.name"))
    parts = (
        f'<a class="skip-link" href="#lesson">{escape(w("header.skip"))}</a>',
        f'<header class="site-header"><div class="bar"><a class="brand" href="{home}">{MARK}<span>{name}</span></a>',
        f'<nav class="chapters" aria-label="{escape(w("header.chapters"))}">{chapters}</nav>',
        '<span id="engine" class="engine" role="status"><span class="engine-dot" aria-hidden="true"></span>',
        f'<span class="engine-text"></span></span>{languages}<button id="theme-switch" type="button" ',
        f'aria-label="{escape(w("header.theme.label"))}">{SWITCH}<span class="switch-text"></span></button></div>',
        '</header><div id="toast" role="status"></div><div id="lesson" tabindex="-1"></div>',
        f'<noscript><p class="noscript">{escape(w("site.noscript"))}</p></noscript>',
    )
    return "".join(parts)


def _below(page: Page) -> str:
    """The footer: the reader's own answers as a file."""
    w = page.words
    parts = (
        f'<footer class="site-footer"><div class="bar"><span>{escape(w("footer.kept"))}</span>',
        f'<button id="answers-save" type="button">{escape(w("footer.answers.save"))}</button>',
        f'<button id="answers-load" type="button">{escape(w("footer.answers.load"))}</button></div></footer>',
    )
    return "".join(parts)


def _twins(page: Page) -> list[Page]:
    return [Page(page.chapter, page.lessons, language) for language in LANGUAGES]


def _way(page: Page, other: Page) -> str:
    """The relative link from one page to another."""
    return page.root + other.path.removeprefix("/")


def _current(other: Page, page: Page) -> str:
    return ' aria-current="page"' if other.chapter == page.chapter else ""


MARK = (  # two rows of tokens: one plain, one with drafts
    '<svg class="mark" viewBox="0 0 32 32" width="28" height="28" aria-hidden="true">'
    '<rect x="3" y="7" width="7" height="7" rx="1.5"/><rect class="lit" x="12.5" y="7" width="7" height="7" rx="1.5"/>'
    '<rect class="lit" x="22" y="7" width="7" height="7" rx="1.5"/><rect x="3" y="18" width="7" height="7" rx="1.5"/>'
    '<rect class="hollow" x="13.25" y="18.75" width="5.5" height="5.5" rx="1"/></svg>'
)
SWITCH = (
    '<svg viewBox="0 0 24 24" width="18" height="18" aria-hidden="true"><circle cx="12" cy="12" r="8.5" fill="none" '
    'stroke="currentColor" stroke-width="1.6"/><path d="M12 3.5a8.5 8.5 0 0 1 0 17z" fill="currentColor"/></svg>'
)

"""What stands between the network and the pages: a guard, a cache of compressed assets, and the shell of each page.

Knows nothing of lessons. Gradio sends its pages bare, uncompressed and without cache headers; these wrappers put the
header and our own styles around them and keep every static file compressed in memory.
"""

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import brotli
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

STATIC_PATH = re.compile(r"/(assets|static|site)/|/theme\.css$|/favicon\.ico$")
FORBIDDEN_PATH = re.compile(r"/(proxy=|file=(https?|ftp):)", re.IGNORECASE)
MAX_CACHED_BYTES = 64 * 2**20
FOREVER = b"public, max-age=31536000, immutable"
ONE_HOUR = b"public, max-age=3600"
COMPRESSIBLE = (b"text/", b"application/javascript", b"application/json", b"image/svg")
# Gradio's templates are compiled with Function(): scripts need 'unsafe-eval'. All else comes from here.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; worker-src 'self' blob:; object-src 'none'; base-uri 'self'"
)


@dataclass
class Answer:
    """A whole response, caught on its way out."""

    status: int = 0
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytes = b""

    def header(self, name: bytes) -> bytes:
        """The value of a header, empty if it is not there."""
        return next((value for key, value in self.headers if key.lower() == name), b"")

    async def send(self, send: Send, *more: tuple[bytes, bytes]) -> None:
        """Send it with further headers, which replace those of the same name."""
        replaced = {name for name, _ in more} | {b"content-length"}
        headers = [(name, value) for name, value in self.headers if name.lower() not in replaced]
        headers += [*more, (b"content-length", str(len(self.body)).encode())]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


async def catch(app: ASGIApp, scope: Scope, receive: Receive) -> Answer:
    """Let the app answer, uncompressed, and hand the whole answer back."""
    answer = Answer()

    async def keep(message: Message) -> None:
        if message["type"] == "http.response.start":
            answer.status, answer.headers = message["status"], list(message["headers"])
        elif message["type"] == "http.response.body":
            answer.body += message.get("body", b"")

    plain = [(name, value) for name, value in scope["headers"] if name not in (b"accept-encoding", b"range")]
    await app({**scope, "headers": plain}, receive, keep)
    return answer


def accepted(scope: Scope) -> str:
    """The best encoding that the client takes: "br", "gzip" or ""."""
    text = b",".join(value for name, value in scope["headers"] if name == b"accept-encoding").decode("latin-1")
    return next((name for name in ("br", "gzip") if re.search(rf"\b{name}\b(?!\s*;\s*q=0(\.0*)?\b)", text)), "")


def compress(data: bytes, encoding: str, quality: int) -> bytes:
    """The data in that encoding; quality as brotli counts it."""
    if encoding == "br":
        return brotli.compress(data, quality=quality)
    packer = zlib.compressobj(min(quality, 9), wbits=31)
    return packer.compress(data) + packer.flush()


class Guard:
    """Refuses the routes by which a server can be made to fetch other machines' pages."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and FORBIDDEN_PATH.search(scope["path"]):
            await PlainTextResponse("This server fetches nothing from elsewhere.", 403)(scope, receive, send)
        else:
            await self.app(scope, receive, send)


class StaticCache:
    """Keeps static files in memory, compressed once for each encoding, and lets browsers keep them too."""

    def __init__(self, app: ASGIApp):
        self.app = app
        self._kept: dict[tuple[str, str], Answer] = {}
        self._size = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_static = scope["type"] == "http" and scope["method"] == "GET" and STATIC_PATH.search(scope["path"])
        if not is_static:
            return await self.app(scope, receive, send)
        encoding = accepted(scope)
        key = (scope["path"], encoding)
        answer = self._kept.get(key)
        if answer is None:
            answer = await catch(self.app, scope, receive)
            if answer.status != 200:
                return await answer.send(send)
            self._keep(key, answer, encoding)
        return await answer.send(send)

    def _keep(self, key: tuple[str, str], answer: Answer, encoding: str) -> None:
        is_hashed = "/assets/" in key[0] or "/site/" in key[0]
        dropped = (b"cache-control", b"content-length", b"vary", b"etag", b"last-modified", b"accept-ranges")
        answer.headers = [(name, value) for name, value in answer.headers if name.lower() not in dropped]
        answer.headers += [(b"cache-control", FOREVER if is_hashed else ONE_HOUR), (b"vary", b"Accept-Encoding")]
        answer.headers += [(b"x-content-type-options", b"nosniff")]
        if encoding and answer.header(b"content-type").startswith(COMPRESSIBLE) and len(answer.body) > 400:
            answer.body = compress(answer.body, encoding, quality=9)
            answer.headers += [(b"content-encoding", encoding.encode())]
        if self._size + len(answer.body) <= MAX_CACHED_BYTES:
            self._size += len(answer.body)
            self._kept[key] = answer


@dataclass(frozen=True)
class Shell:
    """What surrounds Gradio's page at one path: language, further head, and what stands above and below it.

    root is the relative way from the page to the top of the site ("./", "../", …).
    """

    language: str
    root: str
    head: str
    above: str
    below: str


class Pages:
    """Puts the shell of its path around each page, compressed, with the security headers."""

    def __init__(self, app: ASGIApp, shells: Mapping[str, Shell]):
        self.app = app
        self.shells = shells

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        shell = self.shells.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "GET" else None
        if shell is None:
            return await self.app(scope, receive, send)
        answer = await catch(self.app, scope, receive)
        if answer.status != 200 or not answer.header(b"content-type").startswith(b"text/html"):
            return await answer.send(send)
        answer.body = wrap(answer.body.decode(), shell).encode()
        headers = [(b"content-security-policy", POLICY.encode()), (b"x-content-type-options", b"nosniff"),
                   (b"referrer-policy", b"same-origin"), (b"cache-control", b"no-cache")]  # fmt: skip
        encoding = accepted(scope)
        if encoding:
            answer.body = compress(answer.body, encoding, quality=4)
            headers += [(b"content-encoding", encoding.encode()), (b"vary", b"Accept-Encoding")]
        return await answer.send(send, *headers)


def wrap(html: str, shell: Shell) -> str:
    """Gradio's page in its shell. Its assets are taken from the top of the site, so that chapters share them."""
    html = re.sub(r'<meta\s+(property="og:|name="twitter:)[^>]*>', "", html)
    html = html.replace('lang="en"', f'lang="{shell.language}"', 1).replace(
        'href="/manifest.json"', 'href="manifest.json"'
    )
    html = re.sub(
        r'<link rel="stylesheet" crossorigin href="\./([^"]*)">', lambda link: _layered(link[1], shell.root), html
    )
    html = html.replace('src="./assets/', f'src="{shell.root}assets/')
    html = html.replace("</head>", f"{shell.head}</head>", 1)
    inside, end, rest = html.rpartition("</body>")
    html = inside + shell.below + end + rest
    return re.sub(r"(<body[^>]*>)", lambda match: match[1] + shell.above, html, count=1)


def _layered(style: str, root: str) -> str:
    """Gradio's base style in a cascade layer, below ours. Idle links keep its two loaders from adding it again."""
    idle = "".join(f'<link rel="stylesheet" href="{way}{style}" media="not all">' for way in {root: 0, "./": 0})
    return f'<style>@import url("{root}{style}") layer(gradio);</style>{idle}'

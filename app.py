"""Mounts the chapters and serves them: `python app.py`, then open the address that it prints.

Knows nothing of lessons and engines beyond their settings. The environment is read here and nowhere below.
"""

# ruff: noqa: E402 (what must be settled before Gradio is imported stands before its import)
import argparse
import inspect
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from unittest import mock

ENVIRONMENT = "INFERENCE_"  # --num-blocks has the twin INFERENCE_NUM_BLOCKS
QUEUE_SLEEP = 0.03  # seconds between two looks at a chapter's queue; Gradio looks every millisecond, visitors or none
NO_MODEL = "none"


# ---- options ------------------------------------------------------------------------------------------------------


def options(arguments: Sequence[str] | None = None, environment: Mapping[str, str] = os.environ) -> argparse.Namespace:
    """The command line, with the environment's values as defaults."""
    on_space = bool(environment.get("SPACE_ID"))
    parser = argparse.ArgumentParser(description="Lessons on fast LLM inference, driven by a real engine.")

    def add(name: str, default: str, help_text: str, kind: type = str) -> None:
        twin = ENVIRONMENT + name.upper().replace("-", "_")
        chosen = environment.get(twin, default)
        parser.add_argument(f"--{name}", type=kind, default=chosen, help=f"{help_text} (default: {default}; ${twin})")

    add("host", "0.0.0.0" if on_space else "127.0.0.1", "address to listen on")
    add("port", "7860", "port to listen on, 0 for any free one", int)
    add("model", "smollm2-135m", f"name, hub id, folder or .gguf file; {NO_MODEL!r} shows recorded runs only")
    add("drafter", "", "drafter of requests that name none")
    add("draft-model", "", "the smaller model that drafter draft_model runs")
    add("published-head", "", "folder of an EAGLE, Medusa or speculators head that drafter published runs")
    add("dtype", "float16", "how weights are stored: float32, float16, bfloat16, int8")
    add("device", "cpu", "cpu or cuda")
    add("threads", "0", "threads of the engine, 0 leaves it to the machine", int)
    add("num-blocks", "512", "blocks of the key-value cache", int)
    add("block-size", "16", "tokens in a block", int)
    where = "folder that keeps fetched and converted models, empty for the user's cache folder; the hub's go by HF_HOME"
    add("cache", "", where, os.path.expanduser)
    return parser.parse_args(arguments)


def engine_settings(chosen: argparse.Namespace) -> dict[str, object]:
    """The engine's share of the options; an empty model means none."""
    names = ("dtype", "device", "threads", "num_blocks", "block_size")
    model = "" if chosen.model.lower() == NO_MODEL else chosen.model
    given = {name: getattr(chosen, name) or None for name in ("drafter", "draft_model", "published_head")}
    given["model_folder"] = chosen.cache or None
    return {name: getattr(chosen, name) for name in names} | given | {"model": model}


def leave(*_: object) -> None:
    """Ctrl-C before the server runs: end without a word."""
    sys.exit(130)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, leave)
    options()  # a question or a mistake is answered at once
    print("Starting, which takes about ten seconds.", flush=True)  # before the imports, which take most of them

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")  # nothing calls home
os.environ.setdefault("GRADIO_ANALYTICS_CACHE_FREQUENCY", "100000")  # else every event costs a pandas group-by


def _file_of(item: object, find: Callable[[object], str] = inspect.getfile) -> str:
    """Half of Gradio's import goes into stub files for editors; it leaves them out for classes without a file."""
    if type(item).__name__ == "ComponentMeta":
        raise OSError("no stubs")
    return find(item)


with mock.patch.object(inspect, "getfile", _file_of):
    import gradio as gr

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from lessons import live
from lessons.controls import MAX_UPLOAD
from lessons.frame import sentence
from lessons.page import assets, blocks, pages, shell, theme
from lessons.serving import Guard, Pages, StaticCache
from lessons.stream import file_response, stream_response
from lessons.words import FRAME, language_of, load

# ---- the application ----------------------------------------------------------------------------------------------


def build(model: str = "") -> ASGIApp:
    """The whole application; `model` is the name that the header shows."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(CORSMiddleware, allow_origins=[], allow_credentials=False)  # Gradio then adds none of its own
    app.state.is_closing = lambda: False
    add_routes(app, model)
    every = pages()
    for page in every:
        with no_web_application():
            chapter = blocks(page)
            chapter.max_threads = 150  # before queue(): streams and slow events share these
            chapter.state_session_capacity = 300
            chapter.queue(default_concurrency_limit=16, max_size=300, api_open=False)
            chapter._queue.sleep_when_free = chapter._queue.progress_update_sleep_when_free = QUEUE_SLEEP
        gr.mount_gradio_app(
            app, chapter, path=page.path.rstrip("/") or "/", theme=theme(), footer_links=[], max_file_size=MAX_UPLOAD,
            show_error=False, run_history=False, enable_monitoring=False, pwa=False, ssr_mode=False, mcp_server=False,
            app_kwargs={"openapi_url": None},
        )  # fmt: skip
    wrapped = Pages(StaticCache(Guard(app)), {page.path: shell(page) for page in every})
    wrapped.state = app.state
    return wrapped


@contextmanager
def no_web_application() -> Iterator[None]:
    """Gradio makes a whole web application at each of three calls before the mount, whose own is the one used."""
    with mock.patch.object(gr.routes.App, "create_app", staticmethod(lambda *_, **__: None)):
        yield


def add_routes(app: FastAPI, model: str) -> None:
    """Our own routes; they stand before Gradio's, which answer everything else."""

    @app.get("/healthz")
    def health() -> JSONResponse:
        return JSONResponse({"status": "ok", "engine": live.status().state})

    @app.get("/status")
    def status(lang: str = "") -> JSONResponse:
        s = live.status()
        words = load(FRAME, language_of(lang))
        facts = {"state": s.state, "fraction": s.fraction, "running": bool(s.running), "waiting": s.waiting}
        facts["weights"] = {"model": s.model, "sha256": s.weights_sha256}
        reason = sentence(words, s) if s.state == "failed" else ""
        return JSONResponse(facts | {"model": model, "reason": reason}, headers={"Cache-Control": "no-store"})

    @app.get("/stream/{run_id}")
    def stream(request: Request) -> Response:
        return stream_response(request, app.state.is_closing)

    @app.get("/runs/{run_id}.jsonl.gz")
    def file(request: Request) -> Response:
        return file_response(request)

    @app.get("/site/{version}/{path:path}")
    def site(version: str, path: str) -> Response:
        found = assets().get(path)
        return FileResponse(found) if found else PlainTextResponse("There is no such file.", 404)

    for page in pages():
        named = f"{page.prefix}{page.chapter}"
        for path in {page.path.rstrip("/"), named, f"{named}/"} - {"", page.path}:
            app.add_api_route(path, redirect_to(page.path), include_in_schema=False)


def redirect_to(path: str) -> Callable[[Request], Response]:
    """Sends the reader on with the query; the way is relative, so that it holds behind any proxy."""

    def redirect(request: Request) -> Response:
        up = "../" * (request.url.path.count("/") - 1) or "./"
        query = f"?{request.url.query}" if request.url.query else ""
        return RedirectResponse(up + path.removeprefix("/") + query, 307)

    return redirect


# ---- serving ------------------------------------------------------------------------------------------------------


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens on that address; ends the program with a sentence where it cannot be had.

    It listens at once: of two sockets that are only bound, the second learns too late that the port is taken. The
    server calls listen() again, which every system allows.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        if os.name == "posix":  # elsewhere the option lets two programs listen on one port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen()
    except (OSError, OverflowError) as problem:
        sys.exit(f"Cannot listen on {host} port {port}: {problem}. Choose another with --host and --port.")
    return listener


def address(host: str, port: int) -> str:
    """Where a browser on this machine finds what listens there."""
    local = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{local}]:{port}" if ":" in local else f"http://{local}:{port}"


class Server(uvicorn.Server):
    """Ends at the first Ctrl-C; the streams of pages that are still open are cut off, which is no error to report."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's, in silence."""
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        await super().shutdown(sockets)


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until Ctrl-C."""
    chosen = options(arguments)
    settings = engine_settings(chosen)
    listener = listen(chosen.host, chosen.port)
    try:
        live.settle(settings)
    except ValueError as problem:
        sys.exit(str(problem))
    app = build(str(settings["model"]))
    live.start(settings)  # after the pages, which would be slower beside it
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1, proxy_headers=True)
    server = Server(config)
    app.state.is_closing = lambda: server.should_exit
    print(f"Open {address(chosen.host, listener.getsockname()[1])} (Ctrl-C stops)", flush=True)
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        server.run(sockets=[listener])
    except KeyboardInterrupt:
        pass  # uvicorn raises the signal again after a clean stop
    finally:
        live.close()


if __name__ == "__main__":
    main()

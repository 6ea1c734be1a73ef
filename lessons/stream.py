"""The wire: /stream/{id} sends a run's events as server-sent events, /runs/{id}.jsonl.gz as a file.

Knows nothing of engines and lessons. A reader holds a cursor and polls the run's list, so the writer never waits for
anybody; a connection that breaks resumes with ?from=n or Last-Event-ID.
"""

import asyncio
import gzip
import json
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

from starlette.requests import Request as HttpRequest
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from lessons import live
from lessons.controls import sentence
from lessons.runs import RECORDED, Run
from lessons.words import FRAME, LANGUAGES, language_of, load

POLL_SECONDS = 0.025  # so batches are at least 20 ms apart
PING_SECONDS = 15.0
MAX_BATCH = 500  # events in one message
MAX_ASIDE = 8  # further runs that one page may keep watched
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def stream_response(request: HttpRequest, is_closing: Callable[[], bool]) -> Response:
    """The stream of the run named in the path, or 404 with a sentence in the language of ?lang=.

    ?also= names further runs of the page, which wait to be read: while this stream lives they count as watched.
    """
    run = live.find(request.path_params["run_id"])
    if run is None:
        return _unknown(request)
    language = language_of(request.query_params.get("lang"))
    events = messages(run, _start(request), is_closing, language, _aside(request))
    is_zipped = "gzip" in request.headers.get("accept-encoding", "")
    headers = HEADERS | ({"Content-Encoding": "gzip"} if is_zipped else {})
    return StreamingResponse(_compressed(events, is_zipped), media_type="text/event-stream", headers=headers)


def file_response(request: HttpRequest) -> Response:
    """The run named in the path as a file that `live.open_file` reads."""
    run = live.find(request.path_params["run_id"])
    if run is None:
        return _unknown(request)
    data = gzip.compress("".join(f"{line}\n" for line in run.lines(0, len(run.events))).encode(), mtime=0)
    headers = HEADERS | {"Content-Disposition": f'attachment; filename="run-{run.id[-8:]}.jsonl.gz"'}
    return Response(data, media_type="application/gzip", headers=headers)


async def messages(
    run: Run, start: int, is_closing: Callable[[], bool], language: str = LANGUAGES[0], aside: Sequence[Run] = ()
) -> AsyncIterator[str]:
    """Server-sent events from event number `start`: about, place, batches (their id is the cursor after them), done.

    The run and those put aside count as watched meanwhile.
    """
    cursor, place, reader, last = min(start, len(run.events)), 0, object(), time.monotonic()
    for watched in (run, *aside):
        watched.readers.add(reader)
    try:
        yield _message({"id": run.id, "mode": run.mode, "recorded": run.is_recorded}, "about")
        while not is_closing():
            ending = run.ending  # read before the list, so that nothing is appended between the two
            stop = min(len(run.events), cursor + MAX_BATCH)
            if run.place != place:
                place = run.place
                yield _message({"place": place}, "place")
            if stop > cursor:
                yield f"id: {stop}\ndata: [{','.join(run.lines(cursor, stop))}]\n\n"
                cursor, last = stop, time.monotonic()
                await asyncio.sleep(0 if ending else POLL_SECONDS)
            elif ending:
                yield _message(_end(run, language), "done")
                return
            else:
                if time.monotonic() - last > PING_SECONDS:
                    last = time.monotonic()
                    yield ": ping\n\n"
                await asyncio.sleep(POLL_SECONDS)
    finally:
        for watched in (run, *aside):
            watched.leave(reader)


def _end(run: Run, language: str) -> dict[str, object]:
    """How the run ended, and where it failed the sentence that says why."""
    why = {"message": sentence(load(FRAME, language), run.problem)} if run.problem else {}
    return {"ending": run.ending} | why


def _message(data: dict[str, object], name: str) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


async def _compressed(chunks: AsyncIterator[str], is_wanted: bool) -> AsyncIterator[bytes]:
    packer = zlib.compressobj(6, wbits=31) if is_wanted else None
    async for chunk in chunks:
        data = chunk.encode()
        yield data if packer is None else packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH)
    if packer is not None:
        yield packer.flush()


def _start(request: HttpRequest) -> int:
    """How many events the reader has: the larger of ?from= and Last-Event-ID that makes sense."""
    return max(_wholes(request.query_params.get("from"), request.headers.get("last-event-id")), default=0)


def _wholes(*texts: str | None) -> Iterator[int]:
    for text in texts:
        if text and text.isascii() and text.isdigit() and len(text) < 12:
            yield int(text)


def _aside(request: HttpRequest) -> list[Run]:
    """The live runs of ?also=, as far as they are known and go on."""
    names = request.query_params.get("also", "").split(",")[:MAX_ASIDE]
    found = [live.find(name) for name in names if not name.startswith(RECORDED)]
    return [run for run in found if run and not run.ending]


def _unknown(request: HttpRequest) -> Response:
    words = load(FRAME, language_of(request.query_params.get("lang")))
    is_recorded = request.path_params["run_id"].startswith(RECORDED)
    return PlainTextResponse(words("error.not_recorded" if is_recorded else "error.unknown_run"), 404, HEADERS)

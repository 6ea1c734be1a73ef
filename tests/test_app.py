"""The application: options, pages and their headers, the stream, files, the guard, and how the process ends."""

import asyncio
import gzip
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import urlopen

import app_process
import gradio as gr
import pytest
from fake_engine import FakeEngine
from fastapi import FastAPI
from make_gguf import gguf_of
from sample_app import sample_book, wait_for
from starlette.testclient import TestClient

import app
from engine import EngineError, Request, SamplingParams, weights
from lessons import controls, live, stream
from lessons.page import ASSETS, pages, version
from lessons.words import FRAME, load

ROOT = Path(app.__file__).parent


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """The sample book, without a model."""
    live.start_with(None)
    folder = tmp_path_factory.mktemp("traces")
    with sample_book(folder) as application, TestClient(application, base_url="http://127.0.0.1") as opened:
        yield opened


# ---- options ------------------------------------------------------------------------------------------------------


def test_options_have_defaults_that_work_at_home() -> None:
    chosen = app.options([], {})
    assert (chosen.host, chosen.port, chosen.model) == ("127.0.0.1", 7860, "smollm2-135m")


def test_on_a_space_the_app_listens_to_everybody() -> None:
    assert app.options([], {"SPACE_ID": "someone/something"}).host == "0.0.0.0"


def test_every_option_has_an_environment_twin_that_the_command_line_outweighs() -> None:
    twins = {"HOST": "h", "PORT": "1", "MODEL": "m", "DRAFTER": "d", "DRAFT_MODEL": "e", "PUBLISHED_HEAD": "p",
             "DTYPE": "int8", "DEVICE": "cuda", "THREADS": "3", "NUM_BLOCKS": "9", "BLOCK_SIZE": "8",
             "CACHE": "c"}  # fmt: skip
    chosen = app.options([], {f"INFERENCE_{name}": value for name, value in twins.items()})
    assert {name.lower(): str(value) for name, value in vars(chosen).items()} == {
        k.lower(): v for k, v in twins.items()
    }
    assert app.options(["--port", "2"], {"INFERENCE_PORT": "1"}).port == 2


def test_a_wrong_option_ends_with_a_sentence(capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit):
        app.options([], {"INFERENCE_PORT": "many"})
    assert "many" in capsys.readouterr().err


def test_model_none_means_recorded_runs_only() -> None:
    settings = app.engine_settings(app.options(["--model", "None"], {}))
    assert settings["model"] == ""
    live.start(settings)
    assert live.status().state == "no_model"


def test_fetched_and_converted_models_are_kept_in_the_folder_that_is_named(
    tiny_model: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "small.gguf"
    path.write_bytes(gguf_of(tiny_model("smollm2-tied"), "llama"))
    started = []
    monkeypatch.setattr(weights, "default_store", lambda: pytest.fail("another folder was used"))
    monkeypatch.setattr(app, "build", lambda model: app.FastAPI())
    monkeypatch.setattr(app.Server, "run", lambda server, sockets: started.append(wait_for_the_engine()))
    app.main(["--port", "0", "--model", str(path), "--cache", str(tmp_path / "mine"), "--dtype", "float32"])
    assert started == ["ready"]
    assert [found.name[:6] for found in (tmp_path / "mine" / "models").iterdir()] == ["small-"]
    assert app.options(["--cache", "~/mine"], {}).cache == str(Path.home() / "mine")
    live.start_with(None)


def wait_for_the_engine() -> str:
    """What became of it."""
    wait_for(lambda: live.status().state != "loading")
    return live.status().state


def test_a_port_that_another_start_took_a_moment_ago_is_said_in_a_sentence() -> None:
    taken = app.listen("127.0.0.1", 0)
    with pytest.raises(SystemExit, match="--port"):
        app.listen("127.0.0.1", taken.getsockname()[1])
    taken.close()


@pytest.mark.parametrize(
    ("host", "address"),
    [("127.0.0.1", "http://127.0.0.1:7996"), ("0.0.0.0", "http://127.0.0.1:7996"), ("::1", "http://[::1]:7996"),
     ("::", "http://[::1]:7996"), ("localhost", "http://localhost:7996")],
)  # fmt: skip
def test_the_address_that_is_printed_can_be_opened(host: str, address: str) -> None:
    assert app.address(host, 7996) == address


def test_an_unknown_drafter_is_refused_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "build", lambda model: pytest.fail("it went on"))
    with pytest.raises(SystemExit, match="'magic'.*layer_skip"):
        app.main(["--port", "0", "--model", "none", "--drafter", "magic"])


# ---- pages --------------------------------------------------------------------------------------------------------


PAGES = [("/", "en", "Speculation"), ("/zh/", "zh-CN", "投机解码"), ("/memory/", "en", "Memory"),
         ("/zh/memory/", "zh-CN", "显存与缓存")]  # fmt: skip


@pytest.mark.parametrize(("path", "language", "chapter"), PAGES)
def test_each_page_has_its_language_and_the_common_header(
    client: TestClient, path: str, language: str, chapter: str
) -> None:
    html = client.get(path).text
    assert f'lang="{language}"' in html
    assert f'aria-current="page">{chapter}</a>' in html
    assert html.count("<header") == html.count('id="theme-switch"') == html.count('id="engine"') == 1
    assert html.index('class="site-header"') < html.index("<gradio-app") < html.index('class="site-footer"')
    assert html.count("</body>") == 1


def test_pages_name_no_other_machine(client: TestClient) -> None:
    for path in ("/", "/zh/memory/"):
        markup = re.sub(r"<script>window\.gradio.*?</script>", "", client.get(path).text, flags=re.DOTALL)
        assert not re.findall(r'(?:src|href)="(?:https?:)?//[^"]*"', markup)


def test_chapters_share_the_assets_of_the_site(client: TestClient) -> None:
    html = client.get("/zh/memory/").text
    scripts = re.findall(r'<script type="module"[^>]*src="([^"]+)"', html)
    assert scripts
    assert all(src.startswith("../../") for src in scripts)


def test_our_styles_outweigh_gradios_base_style(client: TestClient) -> None:
    html = client.get("/memory/").text
    assert re.search(r'@import url\("\.\./assets/index-[^"]+\.css"\) layer\(gradio\)', html)
    assert not re.findall(r'<link rel="stylesheet" crossorigin', html)


@pytest.mark.parametrize(
    ("path", "place"), [("/memory", "/memory/"), ("/zh", "/zh/"), ("/speculation", "/"), ("/zh/speculation/", "/zh/")]
)
def test_short_addresses_lead_on_and_keep_the_query(client: TestClient, path: str, place: str) -> None:
    answer = client.get(f"{path}?lesson=x&k=4")
    assert (answer.url.path, answer.url.query.decode()) == (place, "lesson=x&k=4")
    assert answer.status_code == 200


def test_pages_carry_the_security_headers_and_no_cors(client: TestClient) -> None:
    headers = client.get("/", headers={"Origin": "http://evil.example"}).headers
    assert "default-src 'self'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in headers


def test_static_files_are_compressed_and_kept_by_browsers(client: TestClient) -> None:
    script = re.search(r'src="(\./assets/index-[^"]+\.js)"', client.get("/").text)[1].removeprefix(".")
    for path in (script, f"/site/{version()}/player.js"):
        answer = client.get(path, headers={"Accept-Encoding": "br"})
        assert answer.headers["content-encoding"] == "br"
        assert "immutable" in answer.headers["cache-control"]
        assert "immutable" in client.get(path, headers={"Accept-Encoding": "identity"}).headers["cache-control"]


@pytest.mark.parametrize("path", ["/site/x/../app.py", "/site/x/%2e%2e/app.py", "/site/x/traces/sample.jsonl.gz",
                                  "/site/x/", "/site/x//etc/passwd", "/gradio_api/file=/etc/passwd",
                                  "/site/x/%00.css", f"/site/x/{'a' * 5000}.css"])  # fmt: skip
def test_nothing_but_our_assets_is_served(client: TestClient, path: str) -> None:
    assert client.get(path).status_code in (403, 404)


@pytest.mark.parametrize(
    "path",
    [
        "/gradio_api/file=http://169.254.169.254/",
        "/gradio_api/file=HTTPS://a.example/x",
        "/memory/gradio_api/proxy=http://a/",
    ],
)
def test_the_server_fetches_nothing_from_elsewhere(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 403


@pytest.mark.parametrize("path", ["/gradio_api/runs", "/monitoring/summary", "/docs", "/openapi.json"])
def test_what_gradio_offers_beside_the_lessons_is_off(client: TestClient, path: str) -> None:
    assert client.get(path).status_code in (403, 404)


def test_with_nobody_on_the_page_the_queues_rest(client: TestClient) -> None:
    """Gradio's own pause of a millisecond, in four chapters, takes a tenth of a core."""
    mounted = [route.app for route in client.app.app.app.app.routes if isinstance(getattr(route, "app", None), FastAPI)]
    queues = [chapter.get_blocks()._queue for chapter in mounted]
    assert len(queues) == len(pages())
    for queue in queues:
        assert queue.sleep_when_free == queue.progress_update_sleep_when_free == app.QUEUE_SLEEP >= 0.02


def test_no_handler_can_be_called_as_an_api(client: TestClient) -> None:
    queued = [item["id"] for item in client.get("/config").json()["dependencies"] if item["queue"] is not False]
    assert queued
    for number in queued:
        assert client.post("/gradio_api/run/predict", json={"data": [], "fn_index": number}).status_code == 404
    assert client.get("/gradio_api/info").json()["named_endpoints"] == {}


def test_large_uploads_are_refused(client: TestClient) -> None:
    files = {"files": ("big.gz", b"x" * (17 * 2**20))}
    assert client.post("/gradio_api/upload", files=files).status_code == 413


def test_opened_files_are_deleted_in_the_end(tmp_path: Path) -> None:
    with sample_book(tmp_path) as application, TestClient(application, base_url="http://127.0.0.1") as opened:
        path = Path(opened.post("/gradio_api/upload", files={"files": ("run.gz", b"x")}).json()[0])
        assert path.exists()
    assert not path.exists()


@pytest.mark.parametrize("data", [None, 5, "run", ["run"], {}, {"run": 5}, {"run": None}, {"run": "no such run"}])
def test_whatever_a_browser_sends_stop_asks_at_most_for_a_run_by_name(
    data: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(controls.live, "stop", asked.append)
    controls._stop(gr.EventData(None, data))
    named = isinstance(data, dict) and isinstance(data.get("run"), str)
    assert [name for name in asked if name] == ([data["run"]] if named else [])


def test_stopping_a_run_that_nobody_knows_changes_nothing() -> None:
    before = live.status()
    live.stop("no such run")
    assert live.status() == before


def test_an_error_is_safe_in_markdown_and_plain_elsewhere() -> None:
    words, problem = load(FRAME, "zh"), EngineError("bad_parameter", "…", name="draft_length", value=99)
    assert "draft_length" in controls.sentence(words, problem)
    assert "draft&#95;length" in controls.error(words, problem)


def test_health_and_status_say_what_the_engine_does(client: TestClient) -> None:
    assert client.get("/healthz").json() == {"status": "ok", "engine": "no_model"}
    assert client.get("/status?lang=zh-CN").json()["state"] == "no_model"


def test_the_status_names_the_weights_once_an_engine_runs_them(client: TestClient) -> None:
    assert client.get("/status").json()["weights"] == {"model": "", "sha256": ""}
    live.start_with(lambda progress: FakeEngine())
    wait_for(lambda: live.status().state == "ready")
    assert client.get("/status").json()["weights"] == {"model": "fake", "sha256": "0" * 64}
    live.start_with(None)


def test_a_failed_model_is_explained_in_the_readers_language(client: TestClient) -> None:
    def make(progress: object) -> FakeEngine:
        raise OSError("the disk is on fire")

    live.start_with(make)
    wait_for(lambda: live.status().state == "failed")
    english, chinese = (client.get(f"/status?lang={language}").json()["reason"] for language in ("en", "zh-CN"))
    assert english
    assert re.search(r"[\u4e00-\u9fff]", chinese)


def test_the_reason_of_a_failed_model_names_what_it_is_about(client: TestClient) -> None:
    def make(progress: object) -> FakeEngine:
        raise EngineError("no_device", "there is none", device="cuda:7")

    live.start_with(make)
    wait_for(lambda: live.status().state == "failed")
    assert "cuda:7" in client.get("/status").json()["reason"]
    live.start_with(None)


# ---- the stream and files -----------------------------------------------------------------------------------------


def parsed(text: str) -> list[tuple[str, str, object]]:
    """(event, id, data) of every server-sent message."""
    messages = []
    for block in text.strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if not line.startswith(":"))
        if fields:
            messages.append((fields.get("event", "message"), fields.get("id", ""), json.loads(fields["data"])))
    return messages


def events_of(text: str) -> list[dict]:
    """All events of a stream."""
    return [event for name, _, data in parsed(text) if name == "message" for event in data]


def test_a_recorded_run_streams_whole_and_ends(client: TestClient) -> None:
    answer = client.get("/stream/recorded-sample")
    messages = parsed(answer.text)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["x-accel-buffering"] == "no"
    assert messages[0] == ("about", "", {"id": "recorded-sample", "mode": "race", "recorded": True})
    assert messages[-1] == ("done", "", {"ending": "finished"})
    events = events_of(answer.text)
    assert events[0]["type"] == "EngineStarted"
    assert int(messages[-2][1]) == len(events) == len(live.events("recorded-sample"))


@pytest.mark.parametrize("start", [0, 1, 50, 10**9])
def test_a_stream_resumes_where_the_reader_stopped(client: TestClient, start: int) -> None:
    whole = events_of(client.get("/stream/recorded-sample").text)
    assert events_of(client.get(f"/stream/recorded-sample?from={start}").text) == whole[start:]
    again = client.get("/stream/recorded-sample?from=0", headers={"Last-Event-ID": str(start)})
    assert events_of(again.text) == whole[start:]


@pytest.mark.parametrize("text", ["-1", "x", "", "1e3", "9" * 40, "１"])
def test_a_senseless_cursor_starts_at_the_beginning(client: TestClient, text: str) -> None:
    assert events_of(client.get("/stream/recorded-sample", params={"from": text}).text)[0]["type"] == "EngineStarted"


@pytest.mark.parametrize("path", ["/stream/nothing", "/stream/recorded-nothing", "/runs/nothing.jsonl.gz"])
def test_an_unknown_run_is_a_404_with_a_sentence_in_either_language(client: TestClient, path: str) -> None:
    english, chinese = client.get(path), client.get(f"{path}?lang=zh-CN")
    assert english.status_code == chinese.status_code == 404
    assert english.text.endswith(".")
    assert re.search(r"[\u4e00-\u9fff]", chinese.text)


def test_a_run_can_be_downloaded_and_opened_again(client: TestClient, tmp_path: Path) -> None:
    path = tmp_path / "run.gz"
    path.write_bytes(client.get("/runs/recorded-sample.jsonl.gz", headers={"Accept-Encoding": "identity"}).content)
    assert gzip.decompress(path.read_bytes()).startswith(b'{"type":"EngineStarted"')
    assert live.events(live.open_file(path)) == live.events("recorded-sample")


async def collect(run: object, start: int = 0, until: int = 10**9, language: str = "en") -> str:
    """What a reader gets, up to so many messages."""
    text, messages = "", stream.messages(run, start, lambda: False, language)
    async for message in messages:
        text += message
        until -= 1
        if until == 0:
            break
    await messages.aclose()
    return text


def test_a_live_run_reaches_late_and_early_readers_alike_and_waits_for_none() -> None:
    live.start_with(lambda progress: FakeEngine(0.002))
    wait_for(lambda: live.status().state == "ready")
    run = live.find(live.run([Request("a b c", SamplingParams(max_new_tokens=40), id="one")]))

    async def read() -> list[str]:
        early = asyncio.create_task(collect(run))
        gone = asyncio.create_task(collect(run, until=2))
        await asyncio.sleep(0.1)
        return [await early, await gone, await collect(run)]

    early, gone, late = asyncio.run(read())
    assert events_of(early) == events_of(late)
    assert len(events_of(late)) == len(run.events)
    assert parsed(early)[-1][0] == "done"
    assert parsed(gone)[-1][0] != "done"
    assert not run.readers
    live.start_with(None)


def test_a_run_that_failed_says_why_in_the_readers_language() -> None:
    run = live.Run()
    run.end("never_fits", EngineError("never_fits", "too much", tokens=987, slots=654))
    ends = [parsed(asyncio.run(collect(run, language=language)))[-1] for language in ("en", "zh")]
    for name, _, data in ends:
        assert (name, data["ending"]) == ("done", "never_fits")
        assert all(value in data["message"] for value in ("987", "654"))
    assert re.search(r"[\u4e00-\u9fff]", ends[1][2]["message"])
    assert not re.search(r"[\u4e00-\u9fff]", ends[0][2]["message"])


def test_the_language_of_the_address_is_that_of_the_sentence(client: TestClient) -> None:
    live.start_with(lambda progress: FakeEngine())
    wait_for(lambda: live.status().state == "ready")
    run_id = live.run([Request("", id="one")])
    answer = client.get(f"/stream/{run_id}?lang=zh-CN&also=nothing,recorded-sample,{run_id}")
    assert parsed(answer.text)[-1][2] == {"ending": "empty_prompt", "message": "提示词为空，请至少输入一个字符。"}
    live.start_with(None)


def test_a_run_put_aside_counts_as_watched_while_the_stream_lives() -> None:
    run, aside = live.Run(), live.Run()

    async def read() -> list[int]:
        messages = stream.messages(run, 0, lambda: False, "en", [aside])
        await anext(messages)
        meanwhile = len(aside.readers)
        await messages.aclose()
        return [meanwhile, len(aside.readers), len(run.readers)]

    assert asyncio.run(read()) == [1, 0, 0]


def test_a_silent_stream_pings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "PING_SECONDS", 0.01)
    run = live.Run([], "together")
    text = asyncio.run(collect(run, until=3))
    assert text.count(": ping") == 2


def test_a_stream_ends_when_the_server_does() -> None:
    async def read() -> int:
        return len([message async for message in stream.messages(live.Run([], "race"), 0, lambda: True)])

    assert asyncio.run(read()) == 1


# ---- the palette --------------------------------------------------------------------------------------------------


def palettes() -> dict[str, dict[str, str]]:
    """Colours of both themes by name."""
    css = (ASSETS / "palette.css").read_text(encoding="utf-8")
    light, dark = css.split(":root.dark", 1)
    return {
        name: dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6})", part))
        for name, part in (("light", light), ("dark", dark))
    }


def luminance(color: str) -> float:
    """Relative luminance (WCAG 2.1)."""
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours."""
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_ink_can_be_read_on_every_paper_and_on_its_tint(theme: str) -> None:
    colors = palettes()[theme]
    inks = [name for name in colors if re.fullmatch(r"ink|ink-2|accent|good|warn|bad|fate-[a-z]+|owner-\d", name)]
    assert len(inks) == 19
    for ink in inks:
        papers = ["paper", "paper-2", "paper-3"] + [f"{ink}-tint"] * (f"{ink}-tint" in colors)
        for paper in papers:
            assert contrast(colors[ink], colors[paper]) >= 4.5, f"{ink} on {paper}"
    assert contrast(colors["accent-ink"], colors["accent"]) >= 4.5


def test_both_themes_name_the_same_colours() -> None:
    both = palettes()
    assert both["light"].keys() == both["dark"].keys()


def test_chart_colours_stand_out_on_either_paper() -> None:
    from lessons import plots

    for color in {plots.NEUTRAL, plots.ACCENT, plots.GOOD, plots.BAD, *plots.FATES.values(), *plots.OWNERS}:
        for theme in palettes().values():
            assert contrast(color, theme["paper"]) >= 3, color


# ---- the process --------------------------------------------------------------------------------------------------


@pytest.fixture
def process() -> Iterator[subprocess.Popen]:
    """The app as a process, ended afterwards whatever happened."""
    started = app_process.start()
    yield started
    started.kill()
    started.communicate(timeout=20)


@pytest.mark.slow
def test_the_app_is_up_soon_and_ctrl_c_ends_it_cleanly(process: subprocess.Popen) -> None:
    address = app_process.up(process, time.monotonic())
    began = time.monotonic()
    page = urlopen(address, timeout=app_process.PAGE_WITHIN).read()
    assert time.monotonic() - began < app_process.PAGE_WITHIN
    assert b"<gradio-app" in page
    script = f"from urllib.request import urlopen; urlopen('{address}/gradio_api/heartbeat/x').read()"
    reader = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL)  # an open page
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    reader.wait(timeout=10)
    assert process.returncode in (0, 130)
    assert "Traceback" not in errors


@pytest.mark.slow
def test_an_app_that_says_nothing_fails_its_test_instead_of_blocking_it() -> None:
    silent = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with pytest.raises(AssertionError, match="no line within 0 s"):
        app_process.line_of(silent, 0.2)
    assert silent.wait(timeout=10) != 0


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.3, 2])
def test_ctrl_c_while_the_app_starts_ends_it_without_a_word(process: subprocess.Popen, seconds: float) -> None:
    assert app_process.line_of(process).startswith("Starting")
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    said, errors = process.communicate(timeout=20)
    assert (process.returncode, said, errors) == (130, "", "")

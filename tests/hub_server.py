"""A stand-in for the Hugging Face Hub on this machine: one model, served as the hub's client expects it."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMIT = "0" * 39 + "1"


@contextmanager
def hub_server(repository: str, folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Serves the folder as `repository`; gives the address and the list of paths that were asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.answer(with_body=False)

        def do_GET(self) -> None:
            self.answer(with_body=True)

        def answer(self, with_body: bool) -> None:
            path = self.path.split("?")[0]
            asked.append(path)
            if path.startswith(f"/api/models/{repository}/tree/"):
                files = [
                    {"type": "file", "path": f.name, "size": f.stat().st_size, "oid": digest(f)} for f in all_files()
                ]
                self.send(json.dumps(files).encode(), with_body)
            elif path.startswith(f"/api/models/{repository}"):
                siblings = [{"rfilename": f.name} for f in all_files()]
                self.send(json.dumps({"id": repository, "sha": COMMIT, "siblings": siblings}).encode(), with_body)
            elif path.startswith(f"/{repository}/resolve/") and (folder / Path(path).name).is_file():
                file = folder / Path(path).name
                self.send(file.read_bytes(), with_body, {"ETag": f'"{digest(file)}"', "X-Repo-Commit": COMMIT})
            else:
                self.send_response(404)
                self.send_header("X-Error-Code", "RepoNotFound")
                self.send_header("Content-Length", "0")
                self.end_headers()

        def send(self, body: bytes, with_body: bool, headers: dict[str, str] | None = None) -> None:
            self.send_response(200)
            for name, content in {"Content-Length": str(len(body)), **(headers or {})}.items():
                self.send_header(name, content)
            self.end_headers()
            if with_body:
                self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            pass

    def all_files() -> list[Path]:
        return sorted(path for path in folder.iterdir() if path.is_file())

    def digest(file: Path) -> str:
        return hashlib.sha1(file.read_bytes()).hexdigest()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()

"""A stand-in for the Hugging Face Hub on this machine: one model, served as the hub's client expects it.

Public, or for one token only: "private", where a stranger is told that there is no such model, or "gated", where he
sees what there is and gets no file.
"""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMIT = "0" * 39 + "1"


@dataclass
class Hub:
    """What is served, to whom, and which paths were asked for."""

    repository: str
    folder: Path
    token: str = ""
    access: str = "private"
    asked: list[str] = field(default_factory=list)

    def files(self) -> list[Path]:
        return sorted(path for path in self.folder.iterdir() if path.is_file())

    def is_open(self, path: str) -> bool:
        """Whether everybody may ask for it."""
        return not self.token or (self.access == "gated" and path.startswith("/api/"))


class Handler(BaseHTTPRequestHandler):
    """Answers for `server.hub`."""

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def answer(self) -> None:
        hub, path = self.server.hub, self.path.split("?")[0]
        hub.asked.append(path)
        authorization = self.headers.get("Authorization", "")
        if authorization != f"Bearer {hub.token}" and not hub.is_open(path):
            self.refuse(401, "GatedRepo" if hub.access == "gated" else "RepoNotFound", bool(authorization))
        elif path.startswith(f"/api/models/{hub.repository}/tree/"):
            listing = [
                {"type": "file", "path": file.name, "size": file.stat().st_size, "oid": digest(file)}
                for file in hub.files()
            ]
            self.send(json.dumps(listing).encode())
        elif path.startswith(f"/api/models/{hub.repository}"):
            siblings = [{"rfilename": file.name} for file in hub.files()]
            self.send(json.dumps({"id": hub.repository, "sha": COMMIT, "siblings": siblings}).encode())
        elif path.startswith(f"/{hub.repository}/resolve/") and (hub.folder / Path(path).name).is_file():
            file = hub.folder / Path(path).name
            self.send(file.read_bytes(), {"ETag": f'"{digest(file)}"', "X-Repo-Commit": COMMIT})
        else:
            self.refuse(404, "RepoNotFound")

    def refuse(self, status: int, code: str, is_wrong_token: bool = False) -> None:
        """As the hub does: whoever shows a wrong token hears of nothing else."""
        self.send_response(status)
        if is_wrong_token:
            self.send_header("X-Error-Message", "Invalid credentials in Authorization header")
        else:
            self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def send(self, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(200)
        for name, content in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, content)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


def digest(file: Path) -> str:
    return hashlib.sha1(file.read_bytes()).hexdigest()


@contextmanager
def hub_server(
    repository: str, folder: Path, token: str = "", access: str = "private"
) -> Iterator[tuple[str, list[str]]]:
    """Serves the folder as `repository`; gives the address and the list of paths that were asked for.

    With a `token` it demands "Authorization: Bearer {token}": for everything, or for files only if access is "gated".
    """
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.hub = Hub(repository, folder, token, access)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", server.hub.asked
    finally:
        server.shutdown()
        server.server_close()

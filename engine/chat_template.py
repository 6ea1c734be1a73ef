"""A model's chat template: messages → the text that the model was trained to continue.

Knows nothing of tokens. Templates are programs in Jinja that come with a model's files, so they run in a sandbox.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from engine.errors import EngineError

Message = Mapping[str, str]
_ROLES = ("bos_token", "eos_token", "unk_token", "pad_token")


class ChatTemplate:
    """One compiled template, with the special tokens that it may name."""

    def __init__(self, source: str, special_tokens: Mapping[str, str]) -> None:
        """Raises EngineError("bad_chat_template") if `source` is not a template."""
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _refuse
        environment.globals["strftime_now"] = lambda layout: datetime.now().strftime(layout)
        try:
            self._template = environment.from_string(source)
        except jinja2.TemplateError as error:
            raise EngineError("bad_chat_template", f"the model's chat template does not parse: {error}") from error
        self._special_tokens = dict(special_tokens)

    def render(self, messages: Sequence[Message]) -> str:
        """The conversation, followed by the opening of the assistant's turn.

        Raises EngineError("bad_messages") when the template refuses these messages.
        """
        try:
            return self._template.render(messages=list(messages), add_generation_prompt=True, **self._special_tokens)
        except (jinja2.TemplateError, TypeError, ValueError) as error:
            raise EngineError(
                "bad_messages", f"the model's chat template refuses: {error}", reason=str(error)
            ) from error


def read_chat_template(folder: Path) -> ChatTemplate | None:
    """The template of a model's folder: chat_template.jinja, else the entry in tokenizer_config.json, else None."""
    config = read_tokenizer_config(folder)
    beside = folder / "chat_template.jinja"
    source = _read(beside) if beside.is_file() else config.get("chat_template")
    if isinstance(source, list):  # several named ones
        named = {entry.get("name"): entry.get("template") for entry in source if isinstance(entry, dict)}
        source = named.get("default", next(iter(named.values()), None))
    if not source:
        return None
    if not isinstance(source, str):
        raise EngineError("bad_chat_template", f"{folder}: the chat template is {source!r:.80}; it must be a text")
    texts = {role: config.get(role) for role in _ROLES}
    return ChatTemplate(source, {role: token_text(text) for role, text in texts.items() if text})


def read_tokenizer_config(folder: Path) -> dict[str, Any]:
    """tokenizer_config.json, or {} where there is none. Raises EngineError("bad_tokenizer")."""
    path = folder / "tokenizer_config.json"
    if not path.is_file():
        return {}
    try:
        config = json.loads(_read(path))
    except (ValueError, RecursionError) as error:
        raise EngineError("bad_tokenizer", f"{path} cannot be read: {error}", path=str(path)) from error
    if not isinstance(config, dict) or not all(_is_token(config.get(role)) for role in _ROLES):
        raise EngineError("bad_tokenizer", f"{path} must be a record whose special tokens are texts", path=str(path))
    return config


def _is_token(written: object) -> bool:
    content = written.get("content") if isinstance(written, dict) else written
    return written is None or isinstance(content, str)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise EngineError("bad_tokenizer", f"{path} is no UTF-8 text: {error}", path=str(path)) from error


def token_text(written: str | Mapping[str, Any]) -> str:
    """A token in tokenizer_config.json is its text, or a record with the text as its content."""
    return written if isinstance(written, str) else written["content"]


def _to_json(value: Any, indent: int | None = None) -> str:
    """Jinja's own filter escapes for HTML, which no model was trained on."""
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(reason: str) -> None:
    raise jinja2.TemplateError(reason)


class _Generation(Extension):
    """{% generation %} … {% endgeneration %} marks the assistant's words for training; here it only shows them."""

    tags = {"generation"}

    def parse(self, parser: Any) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.Scope(body).set_lineno(line)

"""Words: how a file is cut, how values go in, and that the two languages and the code agree on what there is."""

import ast
import re
from pathlib import Path

import pytest

from lessons.words import FRAME, LANGUAGES, TEXT_FOLDER, Words, cut, fill, load, placeholders, safe

LESSONS = Path(__file__).parent.parent / "lessons"
NAMES = sorted(path.stem for path in (TEXT_FOLDER / "en").glob("*.md"))
PATTERNS = {
    "formulas": r"\$\$.+?\$\$|\$[^$\n]+?\$",
    "code spans": r"`[^`\n]+`",
    "links": r"\]\(([^)]+)\)",
}


# ---- cutting and filling ------------------------------------------------------------------------------------------


def test_a_file_is_cut_at_its_key_lines_and_pieces_are_stripped() -> None:
    assert cut("<!-- a -->\n\nOne\ntwo\n\n<!-- b.c_1 -->\nThree\n") == {"a": "One\ntwo", "b.c_1": "Three"}


def test_a_key_that_stands_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="'a' stands twice"):
        cut("<!-- a -->\nx\n<!-- a -->\ny")


def test_text_before_the_first_key_is_refused() -> None:
    with pytest.raises(ValueError, match="before the first key"):
        cut("lost\n<!-- a -->\nx")


def test_values_go_into_double_braces_and_single_braces_of_latex_stay() -> None:
    assert fill(r"$\frac{a}{b}$ of {{n}}: {{share:.1%}}", {"n": 3, "share": 0.204}) == r"$\frac{a}{b}$ of 3: 20.4%"


@pytest.mark.parametrize("values", [{}, {"n": 1, "m": 2}, {"m": 2}])
def test_a_missing_or_surplus_value_is_refused(values: dict) -> None:
    with pytest.raises(KeyError):
        fill("{{n}}", values)


def test_a_missing_key_names_the_lesson_and_the_language() -> None:
    with pytest.raises(KeyError, match="no words for 'x' in demo.md \\(zh\\)"):
        Words("demo", "zh", {})("x")


def test_a_group_loses_its_prefix_and_keeps_its_placeholders() -> None:
    words = Words("demo", "en", {"stage.a": "{{n}}", "stage.b.c": "x", "other": "y"})
    assert words.group("stage.") == {"a": "{{n}}", "b.c": "x"}


def test_safe_text_has_no_mark_that_html_or_markdown_would_read() -> None:
    text = safe("<img src=x onerror=alert(1)> $x$ `c` **b** [l](http://x) &amp; \x00\u202e中\n")
    assert not set("<>$`*[]()\"'=\x00\u202e_") & set(text)
    assert "中" in text


# ---- the two languages --------------------------------------------------------------------------------------------


def test_both_languages_have_the_same_files() -> None:
    files = [sorted(path.name for path in (TEXT_FOLDER / language).glob("*")) for language in LANGUAGES]
    assert files[0] == files[1]


@pytest.mark.parametrize("name", NAMES)
def test_both_languages_have_the_same_keys_in_the_same_order(name: str) -> None:
    english, chinese = (list(load(name, language).pieces) for language in LANGUAGES)
    assert english == chinese


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", PATTERNS)
def test_both_languages_have_the_same_formulas_code_and_links(name: str, kind: str) -> None:
    english, chinese = (load(name, language).pieces for language in LANGUAGES)
    for key in english.keys() & chinese.keys():
        found = [set(re.findall(PATTERNS[kind], pieces[key], re.DOTALL)) for pieces in (english, chinese)]
        assert found[0] == found[1], f"{name}.md, {key}: {kind} differ"


@pytest.mark.parametrize("name", NAMES)
def test_both_languages_have_the_same_placeholders(name: str) -> None:
    english, chinese = (load(name, language).pieces for language in LANGUAGES)
    for key in english.keys() & chinese.keys():
        names = [
            sorted({p.strip("{}").split(":")[0] for p in placeholders(pieces[key])}) for pieces in (english, chinese)
        ]
        assert names[0] == names[1], f"{name}.md, {key}"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("language", LANGUAGES)
def test_double_braces_are_always_placeholders(name: str, language: str) -> None:
    for key, text in load(name, language).pieces.items():
        rest = text
        for mark in placeholders(text):
            rest = rest.replace(mark, "", 1)
        assert "{{" not in rest, f"{name}.md ({language}), {key}"


@pytest.mark.parametrize("name", NAMES)
def test_chinese_words_are_chinese(name: str) -> None:
    """A piece of six English words or more has some Chinese in its twin; shorter ones may be a term of the field."""
    for key, text in load(name, "en").pieces.items():
        plain = re.sub(r"`[^`]*`|\$[^$]*\$|\{\{[^}]*\}\}", "", text)
        if len(re.findall(r"[A-Za-z]{2,}", plain)) >= 6:
            assert re.search(r"[\u4e00-\u9fff]", load(name, "zh").pieces.get(key, "中")), f"{name}.md, {key}"


# ---- the code and the words ---------------------------------------------------------------------------------------


def _constants() -> set[str]:
    """Every string constant of the lessons' code, parts of f-strings included."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in LESSONS.glob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def _calls(path: Path, is_frame: bool) -> set[str]:
    """The literal keys of t("…") or t.frame("…") in a module."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Constant):
            continue
        name = ast.unparse(node.func)
        if name in (("t.frame", "w", "page.words") if is_frame else ("t",)) and isinstance(node.args[0].value, str):
            found.add(node.args[0].value)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_written_key_is_used(name: str) -> None:
    """A key is used where a string of the code is the key, or a dotted beginning of it."""
    constants = _constants()
    unused = []
    for key in load(name, "en").pieces:
        parts = key.split(".")
        heads = {".".join(parts[:n]) for n in range(1, len(parts) + 1)}
        if not (heads | {f"{head}." for head in heads}) & constants:
            unused.append(key)
    assert not unused


@pytest.mark.parametrize("name", [name for name in NAMES if name != FRAME])
def test_every_used_key_is_written(name: str) -> None:
    for path in [LESSONS / f"{name}.py", *LESSONS.glob(f"{name}_*.py")]:
        missing = {key for key in _calls(path, is_frame=False) if key not in load(name, "en")}
        assert not missing, path.name


def test_every_used_key_of_the_frame_is_written() -> None:
    used = set().union(*(_calls(path, is_frame=True) for path in LESSONS.glob("*.py")))
    assert not {key for key in used if key not in load(FRAME, "en")}


@pytest.mark.parametrize("name", [name for name in NAMES if name != FRAME])
@pytest.mark.parametrize("key", ["tab", "title", "standfirst", "question"])
def test_every_lesson_has_an_opening(name: str, key: str) -> None:
    assert load(name, "en")(key)


def test_every_error_that_a_page_can_meet_has_words() -> None:
    """Codes raised where requests and models come in; codes of the engine's own inner checks need none."""
    sources = [
        "admission.py",
        "fetch.py",
        "weights.py",
        "store.py",
        "gguf.py",
        "trace.py",
        "drafters/__init__.py",
        "drafters/shelf.py",
    ]
    text = "".join((LESSONS.parent / "engine" / source).read_text(encoding="utf-8") for source in sources)
    codes = set(re.findall(r'raise EngineError\(\s*"([a-z_]+)"', text))
    own = "".join(
        (LESSONS / f"{name}.py").read_text(encoding="utf-8") for name in ("live", "opened", "turns", "worker")
    )
    own_codes = set(re.findall(r'(?:EngineError|NotReady)\(\s*"([a-z_]+)"', own))
    assert codes
    assert len(own_codes) >= 9
    assert codes | own_codes <= load(FRAME, "en").group("error.").keys()


def test_sentences_of_errors_can_be_filled_without_their_values() -> None:
    """A code may come without its values: then a question mark stands there, which takes no format of numbers."""
    for language in LANGUAGES:
        for key, text in load(FRAME, language).group("error.").items():
            assert not [mark for mark in placeholders(text) if ":" in mark], key

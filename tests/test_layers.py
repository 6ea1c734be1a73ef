"""The architecture, read from the files: who imports whom, what lies at the top, what packages may export."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("kernels", "engine", "lessons")
GUARDED = {"torch", "triton", "gradio", "plotly", "sympy", "fastapi"}  # what the table speaks of, beside our own
MAY_IMPORT = {
    "kernels": {"torch", "triton"},
    "engine": {"torch", "kernels"},
    "lessons": {"gradio", "plotly", "sympy", "engine", "kernels", "lessons"},
    "app.py": {"gradio", "fastapi", "lessons"},
}
MAY_USE_TORCH = ("lessons/exhibits/", "lessons/drills/")
TOP = {
    "app.py", "requirements.txt", "requirements-dev.txt", "README.md", "pyproject.toml", "packages.txt", "LICENSE",
    "lessons", "engine", "kernels", "tests", "assets", ".ci", ".github", ".gitignore", ".git", ".gitattributes",
}  # fmt: skip
FROM_TOOLS = {".venv", ".pytest_cache", ".ruff_cache", ".hypothesis", ".gradio", "__pycache__"}


def modules(package: str) -> list[Path]:
    """The package's Python files."""
    return sorted((ROOT / package).rglob("*.py"))


def imports(path: Path) -> list[str]:
    """Every dotted name that a file imports, in functions too; relative ones made absolute."""
    names = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            package = path.relative_to(ROOT).parent.parts
            base = ".".join(package[: len(package) - node.level + 1]) + "." if node.level else ""
            names += [f"{base}{node.module or ''}".rstrip("."), *(f"{base}{node.module}:{a.name}" for a in node.names)]
    return names


def lessons_of_the_book() -> set[str]:
    """The modules that the table of contents names."""
    import lessons

    return {name for _, names in lessons.CHAPTERS for name in names}


@pytest.mark.parametrize("layer", [*PACKAGES, "app.py"])
def test_no_import_goes_against_the_arrows(layer: str) -> None:
    for path in modules(layer) if layer in PACKAGES else [ROOT / layer]:
        roots = {name.split(".")[0].split(":")[0] for name in imports(path)}
        allowed = MAY_IMPORT[layer] | {layer}
        if path.relative_to(ROOT).as_posix().startswith(MAY_USE_TORCH):
            allowed = allowed | {"torch"}
        wrong = roots & (GUARDED | set(PACKAGES) | {"app"}) - allowed
        assert not wrong, f"{path.relative_to(ROOT)} imports {sorted(wrong)}"


def test_lessons_see_only_what_engine_and_kernels_export() -> None:
    for path in modules("lessons"):
        inner = [name for name in imports(path) if name.startswith(("engine.", "kernels."))]
        assert not inner, f"{path.relative_to(ROOT)} imports {inner}"


def test_no_lesson_imports_another_lesson() -> None:
    book = lessons_of_the_book()
    for path in modules("lessons"):
        own = next((name for name in book if path.stem == name or path.stem.startswith(f"{name}_")), None)
        named = {
            name.replace(":", ".").split(".")[1] for name in imports(path) if name.startswith(("lessons.", "lessons:"))
        }
        for other in named & book:
            assert own == other, f"{path.name} imports the lesson {other}"
        for part in named:
            owner = next((name for name in book if part.startswith(f"{name}_")), own)
            assert owner == own, f"{path.name} imports {part}, a part of {owner}"


def test_nothing_below_the_app_reads_the_environment() -> None:
    readers = []
    for path in [path for package in PACKAGES for path in modules(package)]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv", "environb"):
                readers.append(path.relative_to(ROOT).as_posix())
    assert not readers


def test_no_page_can_load_a_model() -> None:
    """What a reader types never names a model: lessons do not know how to load one, and live.py alone makes engines."""
    for path in modules("lessons"):
        text = path.read_text(encoding="utf-8")
        assert "load_model" not in text, path
        assert "EngineConfig(" not in text or path.name == "live.py", path


@pytest.mark.parametrize("package", PACKAGES)
def test_no_exported_name_equals_a_module(package: str) -> None:
    """Else `engine.trace` would be a function or a module, depending on who was imported first."""
    files = {path.stem for path in (ROOT / package).glob("*.py")} | {
        path.name for path in (ROOT / package).iterdir() if path.is_dir()
    }
    tree = ast.parse((ROOT / package / "__init__.py").read_text(encoding="utf-8"))
    names = {
        alias.asname or alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    names |= {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    assert not names & files


def test_the_top_level_is_that_of_the_design_card() -> None:
    found = {path.name for path in ROOT.iterdir()}
    assert not found - TOP - FROM_TOOLS
    assert {"app.py", "requirements.txt", "README.md", "lessons", "engine", "kernels", "tests", "assets"} <= found


@pytest.mark.parametrize("package", [*PACKAGES, "tests"])
def test_every_module_begins_with_what_it_is(package: str) -> None:
    for path in modules(package):
        text = path.read_text(encoding="utf-8")
        if text.strip():
            first = (ast.get_docstring(ast.parse(text)) or "").split("\n")[0]
            assert first.endswith((".", ":")) or len(first) > 20, f"{path.relative_to(ROOT)} has no first line"

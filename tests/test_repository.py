"""What others read of this repository: the Space's header, the pins, the README's commands, CI, what git carries."""

import gzip
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
COLOURS = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}
MOST_BYTES = 10 * 10**6  # what Spaces take without LFS
PLACE_OF_ONE_MACHINE = re.compile(r"(?<![\w.-])/(?:home|root|work|Users)/")


def requirements(name: str) -> list[str]:
    """The lines of a requirements file that ask for something."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


@pytest.fixture(scope="module")
def header() -> dict:
    """The README's front matter."""
    match = re.match(r"---\n(.*?)\n---\n", README, re.S)
    assert match, "the README must begin with its front matter"
    return yaml.safe_load(match.group(1))


@pytest.fixture(scope="module")
def tracked() -> list[Path]:
    """What git carries; a copy without git has nothing to check."""
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        listed = ""
    paths = [ROOT / name for name in listed.split("\0") if name]
    if not paths:
        pytest.skip("not a git repository")
    return [path for path in paths if path.is_file()]


def command(name: str) -> str:
    """The README's command of that name, as a test or a reader would paste it."""
    match = re.search(rf"<!-- command: {name} -->\s*```bash\n(.*?)```", README, re.S)
    assert match, f"the README has no command {name!r}"
    return match.group(1)


# ---- the README -------------------------------------------------------------------------------------------------


def test_the_header_makes_a_gradio_space_of_the_pinned_version(header):
    assert header["sdk"] == "gradio"
    assert f"gradio=={header['sdk_version']}" in requirements("requirements.txt")
    assert (ROOT / header["app_file"]).is_file()
    major, minor = map(int, str(header["python_version"]).split(".")[:2])
    assert (major, minor) >= (3, 11)


def test_the_header_says_what_it_is_within_the_hubs_limits(header):
    assert header["title"]
    assert 0 < len(header["short_description"]) <= 60
    assert {header["colorFrom"], header["colorTo"]} <= COLOURS
    assert header["license"] == "apache-2.0"
    assert "Apache License" in (ROOT / "LICENSE").read_text(encoding="utf-8")[:200]


def test_the_two_commands_start_the_app_and_the_tests_from_nothing():
    app, tests = command("app"), command("tests")
    assert "-m venv" in app
    assert "-r requirements.txt" in app
    assert app.rstrip().endswith("app.py")
    assert "-m venv" in tests
    assert "-r requirements-dev.txt" in tests
    assert " -m pytest -n 2" in tests.splitlines()[-1]


def test_every_file_that_the_readme_names_is_there():
    names = re.findall(r"`((?:engine|kernels|lessons|tests|assets)/[\w./]*|\w+\.(?:txt|py))`", README)
    names += re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert len(names) > 8
    missing = [name for name in names if name != "NAME.py" and not (ROOT / name).exists()]
    assert not missing


# ---- pins and CI ------------------------------------------------------------------------------------------------


def test_torch_is_pinned_and_the_tests_run_on_what_the_user_installs():
    assert "torch==2.13.0" in requirements("requirements.txt")
    assert requirements("requirements-dev.txt")[0] == "-r requirements.txt"


def test_ci_runs_the_script_and_the_script_the_readmes_command_in_a_fresh_environment():
    workflow = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text(encoding="utf-8"))
    steps = [step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"]]
    assert any(".ci/run" in step for step in steps)
    script = ROOT / ".ci/run"
    assert os.access(script, os.X_OK)
    text = script.read_text(encoding="utf-8")
    first, then, last = (text.index(part) for part in ("rm -rf .venv", 'bash -euo pipefail -c "$tests"', "ruff check"))
    assert first < then < last


# ---- what is in it ----------------------------------------------------------------------------------------------


def test_no_code_of_a_model_is_ever_trusted():
    paths = [
        ROOT / "app.py",
        *(path for name in ("engine", "lessons", "kernels") for path in (ROOT / name).rglob("*.py")),
    ]
    assert len(paths) > 50
    assert not [path for path in paths if "trust_remote_code" in path.read_text(encoding="utf-8")]


def test_git_carries_no_large_file(tracked):
    assert not {path.name: path.stat().st_size for path in tracked if path.stat().st_size > MOST_BYTES}


def test_no_file_knows_where_somebody_had_it_on_his_disk(tracked):
    found = {}
    for path in tracked:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        if b"\0" not in content[:8192]:  # else it is no text
            match = PLACE_OF_ONE_MACHINE.search(content.decode("utf-8", "replace"))
            found |= {path.name: match.group()} if match else {}
    assert not found

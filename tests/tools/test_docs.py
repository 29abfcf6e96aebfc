"""The generated parts of README.md and docs/design are what `make docs` would write, and every page is linked."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_generated_parts_are_up_to_date():
    command = [sys.executable, ROOT / "tools/design_pages.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, env={"PYTHONPATH": ":".join(sys.path)})
    assert (done.returncode, done.stderr) == (0, "")


def test_each_design_page_opens_with_a_program_and_what_becomes_of_it():
    for page in sorted((ROOT / "docs/design").glob("*.md")):
        text = page.read_text()
        places = re.findall(
            r"<!-- (program|show) [^\n]* -->\n```(?:python|text)\n(?:(?!```).)+\n```\n<!-- end -->", text, re.S
        )
        assert places[:2] == ["program", "show"], page.name
        assert text.split("\n\n")[1].startswith("<!-- program"), page.name  # right behind the title


def test_links_lead_somewhere():
    for page in PAGES:
        prose = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(), flags=re.S)
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", prose):
            assert "://" in target or (page.parent / target).exists(), f"{page.name}: {target}"

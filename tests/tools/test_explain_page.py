"""The page of `explain` in a real browser at 1280 × 800: the report of a model with five breaks and three recompiles.

PELLUCID_PICTURES=docs/pictures writes the pictures of docs/explain.md anew (`make pictures`).
"""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

from support import browser as browsers

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
WIDTH, HEIGHT = 1280, 800
PICTURES = ("explain-light.png", "explain-dark.png", "explain-source.png")

# Of each element: whether it can be seen as a whole on the first screen. Nothing of it is cut off, nothing lies on it.
_ON_SCREEN = """elements => elements.map(element => {
  const box = element.getBoundingClientRect();
  const at = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
  return {
    inside: box.width > 0 && box.height > 0 && box.x >= 0 && box.y >= 0 && box.right <= 1280 && box.bottom <= 800,
    whole: element.scrollHeight <= element.clientHeight + 1 && element.scrollWidth <= element.clientWidth + 1,
    open: at !== null && (element.contains(at) || at.contains(element)),
    text: element.innerText,
  };
})"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Holds the program of docs/explain.md, and its report as page and JSON."""
    folder = tmp_path_factory.mktemp("explained")
    (program,) = re.findall(
        r"<!-- program detector.py -->\n```python\n(.*?)```", (ROOT / "docs/explain.md").read_text(), re.S
    )
    (folder / "detector.py").write_text(program)
    command = [sys.executable, "-m", "pellucid", "explain", "detector.py:Detector.forward", "--html", "report.html"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (folder / "report.txt").write_text(done.stdout)
    return folder


@pytest.fixture(scope="module")
def browser():
    path = browsers.find()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        yield browser
        browser.close()


@pytest.fixture(params=["light", "dark"])
def page(request, folder, browser):
    context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=request.param)
    page = context.new_page()
    page.problems, page.requests = [], []
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.on("console", lambda message: page.problems.append(message.text) if message.type == "error" else None)
    page.on("request", lambda made: page.requests.append(made.url))
    page.goto((folder / "report.html").as_uri())
    page.scheme = request.param
    yield page
    assert page.problems == []
    assert page.requests == [(folder / "report.html").as_uri()]  # itself, and nothing else
    context.close()


def on_screen(page, selector: str, whole: bool = True) -> list[str]:
    """The texts of the elements, all of which are on the first screen."""
    found = page.eval_on_selector_all(selector, _ON_SCREEN)
    for one in found:
        assert one["inside"], (selector, one)
        assert one["open"], (selector, one)
        assert one["whole"] or not whole, (selector, one)
    return [one["text"] for one in found]


def line_of(folder: Path, text: str) -> int:
    return next(
        number for number, line in enumerate((folder / "detector.py").read_text().splitlines(), 1) if text in line
    )


def test_first_screen_how_many_graphs(page, folder):
    (graphs,) = on_screen(page, "#answer-graphs")
    (title,) = on_screen(page, "header")
    assert "detector.py:Detector.forward" in title and "Captured as 5 graphs" in title
    assert graphs.split()[0] == re.match(r"\d+", (folder / "report.txt").read_text())[0]


def test_first_screen_where_each_break_is_and_how_to_remove_it(page, folder):
    (count,) = on_screen(page, "#answer-breaks")
    assert count.split() == ["4", "graph", "breaks"]
    breaks = on_screen(page, ".item.break")
    assert len(breaks) == 4
    lines = ["print(", "if features.mean()", ".item()", "torch.save("]
    for text, line in zip(breaks, lines, strict=True):
        assert f"detector.py:{line_of(folder, line)}" in text and line in text
    fixes = on_screen(page, ".item.break .fix")
    told = re.findall("to remove it: (.*)", (folder / "report.txt").read_text())
    assert fixes == told and all(len(fix) > 20 for fix in fixes)


def test_first_screen_why_each_recompile_happened(page, folder):
    (count,) = on_screen(page, "#answer-recompiles")
    assert count.split()[:2] == ["3", "recompiles"]
    recompiles = on_screen(page, ".item.recompile")
    assert len(recompiles) == 3
    for text, reason in zip(
        recompiles, ("x.size(0): 4 → 6", "mode: 'train' → 'eval'", "x.requires_grad: False → True"), strict=True
    ):
        assert reason in text and "detector.py:" in text and re.search(r"[\d.]+ ms", text)
    fixes = on_screen(page, ".item.recompile .fix")
    assert len(fixes) == 3 and "pellucid.mark_dynamic(x, 0)" in fixes[0]


def test_first_screen_where_the_time_went(page):
    (whole,) = on_screen(page, "#answer-time")
    assert re.match(r"[\d.]+ ms", whole)
    (legend,) = on_screen(page, ".legend")
    phases = {name: float(time) for name, time in re.findall(r"(\w+) ([\d.]+) ms", legend)}
    assert set(phases) == {"capture", "finish_graph", "guards", "graph_module", "backend", "emit"}
    assert sum(phases.values()) == pytest.approx(float(whole.split()[0]), abs=0.4)
    (slow,) = on_screen(page, ".slow", whole=False)
    assert len(re.findall(r"[\d.]+ ms", slow)) == 5 and "detector.py:" in slow
    bars = page.eval_on_selector_all(".stack i", "bars => bars.map(bar => bar.getBoundingClientRect().width)")
    assert len(bars) == 6 and bars == sorted(bars, reverse=True)


def test_search_shows_the_lines_with_all_words(page):
    rows = page.locator("tbody tr:visible")
    before = rows.count()
    page.keyboard.press("/")
    page.keyboard.type("self.head.weight Linear")
    texts = rows.all_inner_texts()
    assert 0 < len(texts) < before
    assert all("self.head.weight" in text and "linear" in text.lower() for text in texts)
    assert page.locator("#found").inner_text().startswith(f"{len(texts)} of ")
    page.fill("#search", "")
    assert rows.count() == before


def test_links_of_the_first_screen_lead_to_what_they_name(page):
    for link in page.locator(".columns a").all():
        target = page.locator(f'[id="{link.get_attribute("href").removeprefix("#")}"]')
        assert target.count() == 1
        link.click()
        target.wait_for(state="visible")
        page.evaluate("scrollTo(0, 0)")


def test_source_has_a_mark_for_what_became_of_each_line(page, folder):
    def marks(line: str) -> set[str]:
        row = page.locator(f'[id="line-detector-py-{line_of(folder, line)}"]')
        return set(row.get_attribute("class").split())

    assert marks("print(") == {"broken"}
    assert marks("self.backbone(x)") == {"captured"}
    assert marks("scores = scores * scale") == {"captured", "recompiled"}
    assert marks("features = features - features.mean()") == set()  # not reached
    assert page.locator("tr.note", has_text="mode: 'train' → 'eval'").count() == 1


def test_colours_follow_the_scheme(page):
    back = page.evaluate("getComputedStyle(document.body).backgroundColor")
    light = sum(map(int, re.findall(r"\d+", back))) > 3 * 128
    assert light == (page.scheme == "light")


def test_nothing_is_wider_than_the_screen(page):
    assert page.evaluate("document.documentElement.scrollWidth") <= WIDTH


def test_without_a_browser_the_tests_say_what_to_install(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("PELLUCID_BROWSER", raising=False)
    with pytest.raises(pytest.fail.Exception, match="apt-get install chromium"):
        browsers.find()
    monkeypatch.setenv("PELLUCID_BROWSER", "/some/chrome")
    assert browsers.find() == "/some/chrome"


def test_pictures_can_be_taken(page, tmp_path):
    folder = Path(os.environ.get("PELLUCID_PICTURES") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=folder / f"explain-{page.scheme}.png")
    if page.scheme == "light":
        page.evaluate("document.getElementById('source').scrollIntoView()")
        page.screenshot(path=folder / "explain-source.png")


def test_the_documentation_has_the_pictures():
    for name in PICTURES:
        picture = (ROOT / "docs/pictures" / name).read_bytes()
        assert struct.unpack(">II", picture[16:24]) == (WIDTH, HEIGHT)
        assert f"pictures/{name}" in (ROOT / "docs/explain.md").read_text()

"""A real browser for tests of pages: Chromium, which pip cannot install."""

from __future__ import annotations

import os
import shutil

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def find() -> str:
    """The path of Chromium or Chrome: what PELLUCID_BROWSER says, or the first of the usual names on the path."""
    named = os.environ.get("PELLUCID_BROWSER")
    found = named or next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        pytest.fail(
            "this test opens a page in Chromium, and there is none: apt-get install chromium fonts-dejavu-core, or"
            " PELLUCID_BROWSER=/path/to/chrome",
            pytrace=False,
        )
    return found

"""Pages in a browser: Chromium of the system, driven by playwright."""

import contextlib
import os
import shutil
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
REQUIRED = os.environ.get("TORCH_AP_TEST_BROWSER") == "required"  # as in CI, which installs a browser
_OPTIONS = ["no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking"]
_OPTIONS += ["disable-component-update", "disable-sync"]
_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]

in_browser = pytest.mark.skipif(not (CHROMIUM or REQUIRED), reason="needs Chromium (Debian's package `chromium`)")


@contextlib.contextmanager
def chromium():
    """Start the browser."""
    from playwright.sync_api import sync_playwright

    assert CHROMIUM is not None, "there is no Chromium, and TORCH_AP_TEST_BROWSER requires one"
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=[f"--{x}" for x in _OPTIONS])
        yield browser
        browser.close()


@contextlib.contextmanager
def opened(browser, path, **settings):
    """Open a page, and check afterwards that it printed nothing to the console and requested nothing.

    Args:
        browser: the result of :func:`chromium`.
        path: path of the file.
        settings: of playwright's ``new_context``; by default the window is 1,280 pixels wide.
    """
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **settings})
    page, messages = context.new_page(), []
    page.set_default_timeout(20_000)  # milliseconds; a busy machine takes several seconds for a page
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("request", lambda request: messages.append(request.url) if request.url != url else None)
    url = Path(path).resolve().as_uri()
    page.goto(url)
    yield page
    page.wait_for_timeout(20)  # for errors in callbacks
    context.close()
    unexpected = [x for x in messages if not x.startswith("data:")]
    assert not unexpected


def violations(page):
    """Return the rules of axe-core that the page breaks, each with its first element."""
    from axe_playwright_python.base import AXE_SCRIPT

    page.evaluate(AXE_SCRIPT)
    found = page.evaluate("tags => axe.run(document, {runOnly: {type: 'tag', values: tags}})", _TAGS)
    return [(x["id"], x["nodes"][0]["html"][:200]) for x in found["violations"]]

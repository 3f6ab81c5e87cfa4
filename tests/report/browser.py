"""Opens a page in headless Chromium and says what a person would see."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import escape, unescape

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

# The page itself stays as it is, inside a frame of the width of a screen: its own policy would not
# let a script run in it.
_FRAME = """<!DOCTYPE html>
<html><head><meta charset="utf-8"><meta name="color-scheme" content="light dark"></head>
<body>
<iframe id="page" width="{width}" height="900" style="border: 0" srcdoc="{page}"></iframe>
{copies}
<script>
addEventListener("load", () => {{
  const inner = document.getElementById("page").contentDocument;
  const paper = element => {{
    for (; element; element = element.parentElement) {{
      const colour = getComputedStyle(element).backgroundColor;
      if (colour !== "rgba(0, 0, 0, 0)") return colour;
    }}
    return "none";
  }};
  const letters = [...inner.querySelectorAll("p, h1, h2, th, td, caption, figcaption, footer")].map(
    element => [element.textContent, getComputedStyle(element).color, paper(element)]);
  const labels = [...inner.querySelectorAll("svg text")].map(
    element => [element.textContent, getComputedStyle(element).fill, paper(element)]);
  const box = element => element.getBoundingClientRect();
  const seen = {{
    width: inner.documentElement.scrollWidth,
    letters: letters.concat(labels),
    pictures: [...inner.querySelectorAll("figure > svg")].map(
      picture => [box(picture).left, box(picture).right, box(picture).height]),
    images: [...inner.querySelectorAll("image")].map(image => box(image).width),
    decoded: [...document.querySelectorAll("img")].map(copy => copy.naturalWidth),
    label_heights: [...inner.querySelectorAll("svg text")].map(text => box(text).height),
  }};
  const note = document.createElement("pre");
  note.id = "seen";
  note.textContent = JSON.stringify(seen);
  document.body.append(note);
}});
</script>
</body></html>
"""


def look_at(html: str, folder, *, width: int, dark: bool = False) -> dict:
    """Return what a page looks like on a screen, and what it wrote to the console."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium")
    frame = folder / "frame.html"
    # Only an img element tells whether a picture could be decoded.
    data = re.findall(r'<image\b[^>]*href="(data:[^"]*)"', html)
    copies = "".join(f'<img src="{each}">' for each in data)
    frame.write_text(_FRAME.format(width=width, page=escape(html), copies=copies), encoding="utf-8")
    done = subprocess.run(
        [
            CHROMIUM,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            "--v=0",
            f"--user-data-dir={folder / 'profile'}",
            f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            "--dump-dom",
            frame.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stderr
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return {**json.loads(unescape(found.group(1))), "console": console}


def contrast(one: str, other: str) -> float:
    """Return the ratio of the luminances of two colours, as WCAG defines it."""
    bright, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    red, green, blue = (int(part) / 255 for part in re.findall(r"\d+", colour)[:3])
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (red, green, blue)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

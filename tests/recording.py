"""A recording of what a page shows, as one animated picture: WebP, which browsers and Markdown viewers play by themselves."""

from __future__ import annotations

import base64
import io
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image, ImageDraw, ImageFont

if TYPE_CHECKING:
    from playwright.sync_api import Page

_WIDTH, _HEIGHT, _CAPTION = 960, 600, 30
_SHORTEST_MS, _LONGEST_MS = 150, 2500
_QUALITY = 55


@dataclass(slots=True)
class Recording:
    """Frames with the seconds at which they came, each with the caption of its time."""

    frames: list[tuple[float, str, bytes]] = field(default_factory=list)
    caption: str = ""

    def save(self, path: Path) -> None:
        """Waits are cut to a few seconds. Writes nothing where there is no frame."""
        kept: list[tuple[str, bytes, int]] = []
        for at, (came, caption, data) in enumerate(self.frames):
            until = self.frames[at + 1][0] if at + 1 < len(self.frames) else came + _LONGEST_MS / 1000
            milliseconds = round((until - came) * 1000)
            if milliseconds >= _SHORTEST_MS:
                kept.append((caption, data, min(milliseconds, _LONGEST_MS)))
        if kept:
            first, *others = [_picture(caption, data) for caption, data, _ in kept]
            first.save(
                path, save_all=True, append_images=others, duration=[shown for *_, shown in kept], loop=0, quality=_QUALITY, method=4
            )


def _picture(caption: str, data: bytes) -> Image.Image:
    whole = Image.new("RGB", (_WIDTH, _HEIGHT + _CAPTION), "#1a365d")
    with Image.open(io.BytesIO(data)) as frame:
        whole.paste(frame.convert("RGB").resize((_WIDTH, _HEIGHT)), (0, 0))
    ImageDraw.Draw(whole).text((12, _HEIGHT + 6), caption, fill="white", font=ImageFont.load_default(16))
    return whole


@contextmanager
def recorded(page: Page, path: Path) -> Iterator[Recording]:
    """Records the page's changes until the end of the block, and saves them to ``path``, after a failure too."""
    recording, session = Recording(), page.context.new_cdp_session(page)

    def take(event: dict[str, Any]) -> None:
        recording.frames.append((time.monotonic(), recording.caption, base64.b64decode(event["data"])))
        session.send("Page.screencastFrameAck", {"sessionId": event["sessionId"]})

    session.on("Page.screencastFrame", take)
    session.send("Page.startScreencast", {"format": "jpeg", "quality": 80, "maxWidth": 1280, "maxHeight": 800, "everyNthFrame": 1})
    try:
        yield recording
    finally:
        session.send("Page.stopScreencast")
        path.parent.mkdir(parents=True, exist_ok=True)
        recording.save(path)

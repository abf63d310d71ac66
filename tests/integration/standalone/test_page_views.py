"""Each view of the page is as it was, in light and in dark. What differs is kept in ``.dev/screenshots``.

After a change of the page on purpose: ``python -m tests.integration.standalone.page_views``, and check the pictures before they are kept.
"""

import pytest
from playwright.sync_api import Browser

from tests.integration.standalone.conftest import SCREENSHOTS
from tests.integration.standalone.page_views import KEPT, THEMES, VIEWS, Answers, Theme, changed_share, picture, small

MOST_CHANGED = 0.02
IN_EVERY_RUN = (("list", "light"), ("form", "dark"))
NO_TABS = "document.querySelectorAll('[role=tablist]').forEach((each) => each.remove())"


@pytest.fixture(scope="module")
def answers() -> Answers:
    return Answers.kept()


@pytest.mark.parametrize(
    ("view", "theme"),
    [pytest.param(view, theme, marks=[] if (view, theme) in IN_EVERY_RUN else pytest.mark.soak) for view in VIEWS for theme in THEMES],
)
def test_a_view_is_as_it_was(browser: Browser, answers: Answers, view: str, theme: Theme) -> None:
    taken = picture(browser, answers, view, theme)
    share = changed_share(small(taken), small(KEPT / f"{view}-{theme}.webp"))
    if share > MOST_CHANGED:
        (SCREENSHOTS / f"view-{view}-{theme}.png").write_bytes(taken)
    assert share <= MOST_CHANGED, f"{share:.1%} of the view differs"


def test_a_view_that_lost_its_tabs_is_found(browser: Browser, answers: Answers) -> None:
    share = changed_share(small(picture(browser, answers, "tasks", "light", NO_TABS)), small(KEPT / "tasks-light.webp"))
    assert share > MOST_CHANGED

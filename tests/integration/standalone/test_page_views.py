"""Each view of the page is as it was: its text in every run, its picture in light and dark with ``make soak``.

Pictures that differ are kept in ``.dev/screenshots``.

After a change of the page on purpose: ``python -m tests.integration.standalone.page_views``, and check what differs before it is kept.
"""

import pytest
from playwright.sync_api import Browser

from tests.chromium import serious
from tests.integration.standalone.conftest import SCREENSHOTS
from tests.integration.standalone.page_views import (
    THEMES,
    VIEWS,
    Answers,
    Theme,
    changed_share,
    drawn_view,
    kept_picture,
    kept_text,
    picture,
    small,
    text,
)

MOST_CHANGED = 0.02
NO_TABS = "document.querySelectorAll('[role=tablist]').forEach((each) => each.remove())"


@pytest.fixture(scope="module")
def answers() -> Answers:
    return Answers.kept()


@pytest.mark.parametrize("view", VIEWS)
def test_text_of_a_view_is_as_it_was(browser: Browser, answers: Answers, view: str) -> None:
    with drawn_view(browser, answers, view, "light") as page:
        assert text(page) == kept_text(view).read_text(encoding="utf-8")


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("view", ["list", "tasks"])
def test_errors_have_enough_contrast(browser: Browser, answers: Answers, view: str, theme: Theme) -> None:
    with drawn_view(browser, answers, view, theme) as page:
        assert serious(page) == []


@pytest.mark.soak
@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("view", VIEWS)
def test_picture_of_a_view_is_as_it_was(browser: Browser, answers: Answers, view: str, theme: Theme) -> None:
    with drawn_view(browser, answers, view, theme) as page:
        taken = picture(page)
    share = changed_share(small(taken), small(kept_picture(view, theme)))
    if share > MOST_CHANGED:
        (SCREENSHOTS / f"view-{view}-{theme}.png").write_bytes(taken)
    assert share <= MOST_CHANGED, f"{share:.1%} of the view differs"


@pytest.mark.soak
def test_picture_of_a_view_that_lost_its_tabs_differs(browser: Browser, answers: Answers) -> None:
    with drawn_view(browser, answers, "tasks", "light") as page:
        page.evaluate(NO_TABS)
        taken = picture(page)
    assert changed_share(small(taken), small(kept_picture("tasks", "light"))) > MOST_CHANGED

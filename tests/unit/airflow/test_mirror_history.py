"""How long the mirror keeps history, as the option says."""

import pytest

from airflow_provider_connect.api_server.mirror import history_days
from airflow_provider_connect.errors import ConfigException


@pytest.mark.parametrize(("text", "days"), [(None, None), ("365", 365.0), ("0.5", 0.5)])
def test_history_is_kept_so_many_days(text: str | None, days: float | None) -> None:
    assert history_days(text) == days


@pytest.mark.parametrize("text", ["a year", "0", "-1", "inf", "nan"])
def test_what_is_no_number_of_days_is_refused_by_name(text: str) -> None:
    with pytest.raises(ConfigException, match="mirror_history_days"):
        history_days(text)

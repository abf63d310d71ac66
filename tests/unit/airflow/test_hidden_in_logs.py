"""What Airflow's masker and ours are given of a run's secrets."""

from base64 import b64encode

import pytest

from airflow_provider_connect.operators import planning
from airflow_provider_connect.runtime.config.masking import Mask


def test_airflows_masker_gets_the_secrets_and_ours_their_spellings(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[list[str]] = []
    monkeypatch.setattr(planning, "mask_secret", given.append)  # it compiles all that it has for each text
    monkeypatch.setattr(planning, "mask_output", lambda _: None)
    mask = Mask()
    planning.hide_in_logs(mask)(["the second secret", "the first secret"])
    assert given == [["the first secret", "the second secret"]]
    assert mask(f"Basic {b64encode(b'the first secret').decode()}") == "Basic [hidden]"

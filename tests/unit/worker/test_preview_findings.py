"""What a preview shows of records that hold secrets."""

from __future__ import annotations

import base64

from airflow_provider_connect.config.masking import Mask
from airflow_provider_connect.converters.plain import SimpleHeaderConverter
from airflow_provider_connect.sdk.records import SourceRecord
from airflow_provider_connect.worker.preview.findings import Findings


def test_a_secret_in_bytes_is_masked_before_they_become_base64() -> None:
    findings = Findings(SimpleHeaderConverter(), Mask(["the canary"]))
    value = {"a": b"x the canary", b"the canary": [b"the canary"], "long": b"-" * 5000}
    findings.add(
        0, [SourceRecord(None, None, "t", key=b"key: the canary!", value=value), SourceRecord(None, None, "t", value={"a": b"the canary"})]
    )
    first, second = findings.shown
    assert base64.b64decode(first.key) == b"key: [hidden]!"
    assert first.is_cut
    assert base64.b64decode(second.value["a"]) == b"[hidden]"
    shown = f"{first.value}{second.value}"
    assert base64.b64encode(b"x [hidden]").decode() in shown
    assert base64.b64encode(b"the canary").decode() not in shown


def test_a_secret_in_a_source_offset_is_masked() -> None:
    findings = Findings(SimpleHeaderConverter(), Mask(["the canary"]))
    offset = {"page": "after=the canary", "long": "-" * 5000}
    findings.add(0, [SourceRecord({}, {"page": "the canary"}, "t", value=1), SourceRecord({}, offset, "t", value=2)])
    first, second = findings.shown
    assert (first.source_offset, first.is_cut) == ({"page": "[hidden]"}, False)
    assert second.is_cut
    assert "the canary" not in second.source_offset

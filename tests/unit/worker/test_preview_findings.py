"""What a preview shows of records that hold secrets."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict

import pytest

from airflow_provider_connect.converters.plain import SimpleHeaderConverter
from airflow_provider_connect.data.records import Header, Headers, SourceRecord
from airflow_provider_connect.runtime.config.masking import Mask
from airflow_provider_connect.runtime.worker.preview.findings import Findings


def test_a_secret_in_bytes_is_masked_before_they_become_base64() -> None:
    findings = Findings(SimpleHeaderConverter(), Mask(["the canary"]))
    value = {"a": b"x the canary", b"the canary": [b"the canary"], "long": b"-" * 5000}
    findings.add(
        0, [SourceRecord(None, None, "t", key=b"key: the canary!", value=value), SourceRecord(None, None, "t", value={"a": b"the canary"})]
    )
    first, second = findings.shown
    assert first.key == "key: [hidden]!"
    assert first.is_cut
    assert base64.b64decode(second.value["a"]) == b"[hidden]"
    shown = f"{first.value}{second.value}"
    assert base64.b64encode(b"x [hidden]").decode() in shown
    assert base64.b64encode(b"the canary").decode() not in shown


def test_whole_values_of_bytes_are_shown_as_text_where_they_are_utf_8() -> None:
    findings = Findings(SimpleHeaderConverter(), Mask(["canary"]))
    headers = Headers([Header("h", '{"ü":1}'.encode())])
    findings.add(0, [SourceRecord(None, None, "t", key=b"\xff canary", value='{"ü":1}'.encode(), headers=headers)])
    (record,) = findings.shown
    assert (record.value, record.headers[0]["value"]) == ('{"ü":1}', '{"ü":1}')
    assert record.key == "0x" + b"\xff [hidden]".hex()


def test_a_secret_in_a_source_offset_is_masked() -> None:
    findings = Findings(SimpleHeaderConverter(), Mask(["the canary"]))
    offset = {"page": "after=the canary", "long": "-" * 5000}
    findings.add(0, [SourceRecord({}, {"page": "the canary"}, "t", value=1), SourceRecord({}, offset, "t", value=2)])
    first, second = findings.shown
    assert (first.source_offset, first.is_cut) == ({"page": "[hidden]"}, False)
    assert second.is_cut
    assert "the canary" not in second.source_offset


HOSTILE = {
    "names of headers": [SourceRecord(None, None, "t", value=1, headers=Headers([Header("h" * 300_000, "x")] * 30))] * 2,
    "values of headers": [SourceRecord(None, None, "t", value=1, headers=Headers([Header("h", "x" * 100_000)] * 30))] * 10,
    "fields": [SourceRecord(None, None, "t", value={f"{record}-{number}": 1 for number in range(5_000)}) for record in range(10)],
    "long fields": [SourceRecord(None, None, "t", value={f"{number}" * 50_000: 1 for number in range(20)})],
    "fields of keys": [SourceRecord(None, None, f"t{record}", key={f"{number}": 1 for number in range(5_000)}) for record in range(10)],
    "fields in fields": [SourceRecord(None, None, "t", value=json.loads('{"' + '":{"'.join(["x" * 5000] * 200) + '":1' + "}" * 200))],
    "full stops": [SourceRecord(None, None, "t", value={"." * 300_000 + f"{number}": 1 for number in range(3)})],
    "values": [SourceRecord(None, None, "t", key="k" * 3000, value="v" * 30_000)] * 1000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_records_make_it_long(name: str) -> None:
    """The server reads it in one step, during which no other thread has its turn."""
    findings = Findings(SimpleHeaderConverter(), Mask())
    for record in HOSTILE[name]:
        findings.add(0, [record])
    shown = [*map(asdict, findings.shown), *map(asdict, findings.topics())]
    assert len(json.dumps(shown)) < 2_000_000
    assert findings.topics()[0].records


def test_a_secret_in_the_name_of_a_header_is_masked_before_it_is_cut() -> None:
    findings = Findings(SimpleHeaderConverter(), Mask(["the canary"]))
    findings.add(0, [SourceRecord(None, None, "t", value=1, headers=Headers([Header("-" * 195 + "the canary", "x")]))])
    assert findings.shown[0].headers[0]["key"] == "-" * 195 + "[hidd"
    assert findings.shown[0].is_cut


def test_types_are_those_of_the_first_fields_for_which_there_is_room() -> None:
    findings = Findings(SimpleHeaderConverter(), Mask())
    for value in ({"a": 1}, {f"x{number}": 1 for number in range(30_000)}, {"a": "text"}):
        findings.add(0, [SourceRecord(None, None, "t", value=value)])
    (topic,) = findings.topics()
    assert (topic.value["a"], topic.value["$"], topic.value["x0"]) == ("number|string?", "object", "number?")
    assert 1000 < len(topic.value) < 30_000

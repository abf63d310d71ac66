"""The Spark application of ``java_readers``: reads the tables of the first argument's file and writes their rows to the second's."""

import json
import sys
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession


def main(request: str, answer: str) -> None:
    asked, session = json.loads(Path(request).read_text()), SparkSession.builder.getOrCreate()
    found = {name: _iceberg_rows(session, folder) for name, folder in asked["iceberg"].items()}
    for name, folder in asked["delta"].items():
        found[name] = [row.asDict(recursive=True) for row in session.read.format("delta").load(folder).collect()]
    Path(answer).write_text(json.dumps(found, default=str))


def _iceberg_rows(session: Any, folder: str) -> list[dict[str, Any]]:
    java = session._jvm.org.apache.iceberg
    catalog = java.jdbc.JdbcCatalog()
    catalog.setConf(session._jsc.hadoopConfiguration())
    catalog.initialize("iceberg", {"uri": f"jdbc:sqlite:{folder}/catalog.db", "warehouse": f"{folder}/warehouse"})
    table = catalog.loadTable(java.catalog.TableIdentifier.parse("shop.notes"))
    names = [column.name() for column in table.schema().columns()]
    rows = java.data.IcebergGenerics.read(table).build().iterator()
    found = []
    while rows.hasNext():
        row = rows.next()
        found.append({name: _convert_plain(row.get(index)) for index, name in enumerate(names)})
    return found


def _convert_plain(value: Any) -> Any:
    """Of an object of Java its text, of a buffer its bytes."""
    if not isinstance(value, JavaObject):
        return value
    return bytes(value.array()) if value.getClass().getSimpleName() == "HeapByteBuffer" else value.toString()


if __name__ == "__main__":
    main(*sys.argv[1:])

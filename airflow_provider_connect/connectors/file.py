"""The connectors for text files, under the names of Kafka Connect's classes."""

from airflow_provider_connect.connectors.file_sink import FileStreamSinkConnector, FileStreamSinkTask
from airflow_provider_connect.connectors.file_source import FileStreamSourceConnector, FileStreamSourceTask

__all__ = ["FileStreamSinkConnector", "FileStreamSinkTask", "FileStreamSourceConnector", "FileStreamSourceTask"]

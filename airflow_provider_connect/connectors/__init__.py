"""Built-in connectors: files, logs, JDBC, lakes, mirrored clusters, Spark. Like third-party plugins, they import no runtime."""

"""Built-in connectors: files, logs, JDBC, lakes, mirrored clusters, Spark. They know no runtime, like plugins of others."""

"""What the jars of a Java plugin declare, read as files. No JVM."""

"""What Java plugins report of themselves and of configs, by a JVM in a process of its own."""

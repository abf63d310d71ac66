"""Installation, scan and removal of Java plugins."""

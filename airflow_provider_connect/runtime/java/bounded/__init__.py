"""Where a run of a Java connector ends: the loop, and sources and sinks that need more than an empty poll."""

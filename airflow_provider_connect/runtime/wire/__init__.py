"""Values to and from the exact bytes of the topics."""

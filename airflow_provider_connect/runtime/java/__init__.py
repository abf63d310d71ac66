"""Java plugins, each part on a floor of its own; the command ``prepare``, which fetches what they need."""

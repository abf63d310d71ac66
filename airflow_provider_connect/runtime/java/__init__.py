"""Java plugins, one package for each layer; and the command ``prepare``, which fetches what they need."""

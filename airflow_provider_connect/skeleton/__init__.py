"""The package that ``connect-new`` writes for a new plugin."""

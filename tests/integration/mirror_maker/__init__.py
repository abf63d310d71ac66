"""Two real clusters: records, groups and settings from one to the other, by our connectors and by a real MirrorMaker 2."""

"""Plugins: which there are, versions side by side, validation in a process of its own."""

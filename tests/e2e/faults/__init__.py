"""Faults for the end-to-end tests: processes of a run killed or frozen at a chosen step of its commit, and an oracle of what arrived."""

"""SIGKILL at random: processes of many runs, one after another, at random steps of every commit; the oracle's verdict on what arrived."""

"""Rules as data -> verdicts -> findings."""

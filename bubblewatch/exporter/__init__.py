"""Metrics and the snapshot over HTTP."""

"""A simulated engine: a real HTTP server around a scheduler in miniature, with known truth."""

"""Speed, as ratios of contenders that run in turns in one process. Never a timed test."""

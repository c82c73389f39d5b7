"""What was measured, for people: one page, and README's table. Both follow from the JSON and from nothing else."""

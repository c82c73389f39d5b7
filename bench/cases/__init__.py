"""The comparisons, a module each."""

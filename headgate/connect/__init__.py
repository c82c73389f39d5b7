"""Sources and sinks of other systems, one package each.

One rule: a connector says which guarantee it gives, and keeps it whoever is killed.
"""

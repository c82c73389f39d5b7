"""The demo: a whole job on this machine, killed half way, and counted at the end.

One rule: whoever counts does not use Headgate. The audit reads the sinks' files as any reader would.

``job``     the job, as a user would write it
``audit``   what went in, what came out, what was lost and what was doubled
``show``    runs the job in a process of its own, kills that process's JVM, runs it again, and tells the story
"""

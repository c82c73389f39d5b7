"""Where the processes of a job spend their time: samples of their stacks, on demand, as flame graphs.

One rule: looking costs a bounded time, at most once in a minute for each subject, one subject at a time, and stops
nobody: no process is halted for it, and nothing of what is seen decides anything.

What is sampled is the JVM of Spark's driver (``threads``), the job's own Python process (``threads``), and the Python
processes that Spark started for it on this machine (``workers``). Executors elsewhere are not: Spark's UI has their
thread dumps.
"""

"""Diagnosis: what is wrong, the evidence for it, and what to change.

One rule: a rule is a pure function from facts to findings. Facts are gathered by a thin edge that judges nothing and
leaves the machine as it was.

``finding``    a named cause, how bad it is, its evidence, and what to do
``cause``      the same of a job, with the setting to change; and all of them together
``facts``      what is recorded of a job
``gathering``  gathers it
``checkpoints``, ``tasks``, ``ends``   rules over checkpoints, tasks, and what goes on around them
``diagnosis``  all that ``headgate doctor JOB`` looks at
``software``   rules over Python, Java, Spark, jars and clients
``directory``  rules over directories: the storage, the working directory, those for temporary files
``limits``     rules over memory, cores, open files, processes, addresses and the clock
``asking``     gathers the facts about software
``measuring``  gathers the facts about directories and limits
``env``        all that ``headgate doctor --env`` looks at

Not here: how findings are printed (``headgate.cli``), and what the storage itself demands (``headgate.store``).
"""

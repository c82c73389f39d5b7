"""The protocol of Headgate, pure.

One rule: ``step(state, event) -> (state, effects)`` is the only way a job's state changes, and it
depends on nothing else: no clock, no randomness, no input or output, no thread, no Spark. Time and
chance arrive as fields of events. The driver loop, the tests and the simulator run this same code.

Reading order, which is also the order in which a checkpoint meets the rules:

``ids, graph, settings``   the nouns: what a job is made of and how it is tuned
``records``                what a checkpoint is once it is written down
``events, effects``        what the core is told (facts) and what it asks for (orders)
``state``                  what it remembers
``job``                    ``step``: one ``match`` over the facts
``derived``                what follows from the state by itself, once a fact is taken in
``leadership``             winning, fencing, starting a generation, being deposed
``closing``                how a job comes to its end
``waiting``                who waits for an answer, and what they hear
``tasks``                  what a task's own facts change
``trigger``                when a checkpoint starts
``coordinator``            who has acknowledged it, when it is ready, when it is given up
``completed``              what a ready one is written down as
``alignment``              where one task's snapshot lies, and how far its gates are open
``backpressure``           how far a task may run ahead of its readers
``commit, sinks``          one sink's transactions: pre-commit, commit, abort
``checkpoint_log, publication``     the records that make a checkpoint complete
``recovery``               which checkpoint a job returns to, and how
``restart``                whether and when a failure is followed by another try
``retention, garbage``     what may be deleted
``timing``                 deadlines, and orders given again
``invariants``             what must hold in every state

Not here: anything that touches the world. Edges live in the other packages. And no import: Python processes of Spark,
which need an id or a pause from here, would build every class of the protocol first.
"""

"""Jobs as users write them, and the plan by which they run.

One rule: building a job does nothing. It starts no Spark, touches no storage and calls no function of the user; what
is wrong is refused at once, with the user's own source line.

Reading order, which is also the way of a job:

``settings``     how a job is tuned, in Flink's words
``parts``        what a job asks of sources, sinks and state backends
``node``         one named step of a job
``api``          ``Job`` and ``Stream``: the calls that make nodes
``processor``    what users subclass for keyed state and timers, over Spark's ``transformWithState``
``keyed``        the state that it gets
``analyse``      which operators keep state, what their rows look like, and how they are evaluated
``plan``         operators into tasks, and the channels between them
``check``        what Spark would refuse, before anything starts
``show``         the plan for people and programs

Not here: anything that runs. ``run`` starts the tasks of a plan; the core decides what happens to them.
"""

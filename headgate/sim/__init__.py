"""The simulator: whole worlds that try to break the protocol.

One rule: one seed is one world. Every delay, fault and outcome is drawn from it, so a failure can be played again.
The worlds run the core itself; queries, disk, store and sinks are stand-ins that behave as Spark and its surroundings
do, at their worst. ``checker`` judges with a model of its own and none of the core's code.

``plan``      what a seed draws: a job, its settings, the faults
``faults``    how each of them is carried out
``perform``   how each order of the core is carried out
``world``     the clock, the messages, and the processes that lead
``query``     a stand-in for one Spark streaming query
``disk``      what the queries have made durable
``store``     the checkpoint log of records, with all the ways in which a write can go wrong
``sink``      a sink with transactions
``checker``   what must hold, whatever happens
``runner``    many seeds, on several cores; shrinking a failure
``crash``     one standard run, cut before and after every effect
``story``     a simulation told in words
"""

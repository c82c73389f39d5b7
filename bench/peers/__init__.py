"""The systems that Headgate is compared with, each in an environment of its own below ``build/bench``.

One rule: what cannot be had is an error that says what to do. Nobody is left out in silence.
"""

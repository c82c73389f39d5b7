"""Whole jobs, each with a program that runs it on real servers, kills it in the middle, and counts what came out.

One rule: a job's file is what a user would write, and knows nothing of the program that kills it.
"""

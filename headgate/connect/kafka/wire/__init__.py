"""What the client of ``protocol`` is made of: bytes, logins, sockets, requests, and the brokers of a cluster.

One rule: only ``protocol`` imports from here, so that all of it can be replaced without anybody noticing.
"""

"""What the sinks for tables of open formats have in common.

One rule: data files get their final names and lie in the table's directory first, and become rows by one commit of the
table's own log, together with the mark that says so.
"""

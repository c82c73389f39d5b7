"""What runs in the processes of contenders, each in the Python of its peer. Nothing here measures."""

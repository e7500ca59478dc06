"""Studies between machines, on NVFlare, which carries bytes in both directions.

Nothing here knows about algorithms. ``jobs`` defines what runs on either side;
``network`` carries its requests; ``supervisor`` and ``client`` implement the two
commands. Only processes that take part in a study between machines import NVFlare.
"""

"""Studies between machines, on NVFlare: bytes from the server to clients and back.

Nothing here knows of algorithms. ``jobs`` says what runs on either side; ``network``
carries its requests; ``supervisor`` and ``client`` are what the two commands do. Only
processes that take part in a study between machines import NVFlare.
"""

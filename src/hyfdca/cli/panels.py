"""The groups in which ``hyfdca --help`` lists its commands."""

ONE_MACHINE = "One machine"
BETWEEN_MACHINES = "Between machines"
LOOK = "Inspect and measure"

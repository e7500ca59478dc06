"""DiSCO: damped Newton steps by conjugate gradients across all clients."""

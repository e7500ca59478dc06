"""Output of NVFlare's client about its server, at an organisation of a study."""

from __future__ import annotations

from hyfdca.kits.kit import Owner

NORTH = Owner("north", "north", "coordinator.org:8002")

# As NVFlare 2.9.0 and gRPC print them.
REFUSED_BY_US = "SSL_ERROR_SSL: error:1000007d: CERTIFICATE_VERIFY_FAILED: unable"
EXPIRED = "SSL_ERROR_SSL: CERTIFICATE_VERIFY_FAILED: certificate has expired: OK"
REFUSED_BY_THEM = "SSL_ERROR_SSL: error:10000418: TLSV1_ALERT_UNKNOWN_CA"
TAKEN = "failed to register: unauthenticated: register_client unauthenticated"
NOBODY = "Authenticator - INFO - re-challenge after 2.0 seconds"
UP = "FederatedClient - INFO - Successfully registered client:north for project x."

"""Kits: what an organisation, or the coordinator, needs to take part over NVFlare."""

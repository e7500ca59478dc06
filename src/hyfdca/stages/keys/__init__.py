"""Agreement on the study's keys through a server that cannot read them."""

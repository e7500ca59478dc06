"""Messages, their bytes, and the sessions that exchange them."""
